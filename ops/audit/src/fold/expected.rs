//! The expected outcome of a command.

use schemas::dead_letter::Reason;

/// The expected outcome of an inbound record, from the log before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Event,
    Repeat,
    WithoutEffect,
    Refused(Reason),
}

impl Expected {
    /// Whether it is a refusal for this reason.
    pub(super) fn is_refused_for(self, reason: &str) -> bool {
        matches!(self, Self::Refused(expected) if expected.as_str() == reason)
    }
}
