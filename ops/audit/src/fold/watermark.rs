use schemas::event::SourceOffset;

/// The highest source offset so far. Readers accept a record only if its own source offset is above it (PROTOCOL S10).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watermark(Option<SourceOffset>);

impl Watermark {
    /// For a log that begins with its first record.
    pub(crate) const START: Self = Self(Some(SourceOffset {
        epoch: 0,
        offset: -1,
    }));

    /// For a log whose beginning is gone: its first record is accepted whatever its source offset is.
    pub(crate) const UNKNOWN: Self = Self(None);

    pub(crate) fn get(self) -> Option<SourceOffset> {
        self.0
    }

    /// Rises to `source` if that is higher; returns whether it is.
    pub(crate) fn rise_to(&mut self, source: SourceOffset) -> bool {
        let is_above = match self.0 {
            None => true,
            Some(highest) if source.epoch == highest.epoch => source.offset > highest.offset,
            Some(highest) => source.epoch > highest.epoch,
        };
        if is_above {
            self.0 = Some(source);
        }
        is_above
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rises_by_epoch_and_then_by_offset() {
        let source = |epoch, offset| SourceOffset { epoch, offset };
        let mut watermark = Watermark::START;
        assert!(!watermark.rise_to(source(0, -1)));
        assert!(watermark.rise_to(source(0, 6)));
        assert!(!watermark.rise_to(source(0, 6)));
        assert!(watermark.rise_to(source(1, -1)));
        assert!(!watermark.rise_to(source(0, 7)));
        let mut unknown = Watermark::UNKNOWN;
        assert!(unknown.rise_to(source(0, -1)));
    }
}
