use message_store::StoreError;
use projection::SinkError;

/// How the projection has to handle an error of the store.
pub(crate) fn sink_error(error: StoreError) -> SinkError {
    let text = error.to_string();
    match error {
        StoreError::Transient(_) => SinkError::Transient(text),
        StoreError::Moved { .. } => SinkError::Moved(text),
        StoreError::Fatal(_) => SinkError::Fatal(text),
    }
}

/// The most severe of the errors of several databases.
#[derive(Debug, Default)]
pub(crate) struct MostSevere(Option<SinkError>);

impl MostSevere {
    pub(crate) fn note(&mut self, error: SinkError) {
        if self
            .0
            .as_ref()
            .is_none_or(|worst| severity(&error) > severity(worst))
        {
            self.0 = Some(error);
        }
    }

    pub(crate) fn into_result(self) -> Result<(), SinkError> {
        self.0.map_or(Ok(()), Err)
    }
}

fn severity(error: &SinkError) -> u8 {
    match error {
        SinkError::Transient(_) => 0,
        SinkError::Moved(_) => 1,
        SinkError::Fatal(_) => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_severe_error_is_returned() {
        let mut most_severe = MostSevere::default();
        most_severe.note(SinkError::Moved("m".to_owned()));
        most_severe.note(SinkError::Transient("t".to_owned()));
        assert!(matches!(
            most_severe.into_result(),
            Err(SinkError::Moved(_))
        ));
        assert!(MostSevere::default().into_result().is_ok());
    }
}
