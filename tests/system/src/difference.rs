//! The finding of a judgement, as opposed to a reason why no judgement can be made.

use std::fmt;

/// A wrong result: in what a user sees, or in what a projection holds. Not that a service does not answer.
#[derive(Debug)]
pub struct Difference(pub String);

impl Difference {
    /// Whether an error comes from a difference.
    #[must_use]
    pub fn is_in(error: &anyhow::Error) -> bool {
        error.chain().any(|cause| cause.is::<Self>())
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Difference {}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};

    use super::*;

    #[test]
    fn it_is_found_below_whatever_was_said_of_it() {
        let difference: anyhow::Result<()> = Err(Difference("3, expected 2".to_owned()).into());
        let error = difference.context("in the load").context("judging");
        assert!(Difference::is_in(&error.unwrap_err()));
        assert!(!Difference::is_in(&anyhow!("no answer").context("judging")));
    }
}
