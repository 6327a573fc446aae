use message_store::StoreError;
use projection::SinkError;

/// What the lane has to do about an error of the store.
pub(crate) fn sink_error(error: StoreError) -> SinkError {
    let text = error.to_string();
    match error {
        StoreError::Transient(_) => SinkError::Transient(text),
        StoreError::Moved { .. } => SinkError::Moved(text),
        StoreError::Fatal(_) => SinkError::Fatal(text),
    }
}

/// The outcomes of several databases as one: the error that asks for most.
#[derive(Debug, Default)]
pub(crate) struct Gravest(Option<SinkError>);

impl Gravest {
    pub(crate) fn note(&mut self, error: SinkError) {
        if self
            .0
            .as_ref()
            .is_none_or(|held| gravity(&error) > gravity(held))
        {
            self.0 = Some(error);
        }
    }

    pub(crate) fn into_result(self) -> Result<(), SinkError> {
        self.0.map_or(Ok(()), Err)
    }
}

fn gravity(error: &SinkError) -> u8 {
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
    fn the_error_that_asks_for_most_counts() {
        let mut gravest = Gravest::default();
        gravest.note(SinkError::Moved("m".to_owned()));
        gravest.note(SinkError::Transient("t".to_owned()));
        assert!(matches!(gravest.into_result(), Err(SinkError::Moved(_))));
        assert!(Gravest::default().into_result().is_ok());
    }
}
