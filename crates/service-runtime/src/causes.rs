//! Errors in words.

/// An error and its causes in one line. Each is said once: many types repeat their cause in words of their own.
#[must_use]
pub fn with_causes(error: &anyhow::Error) -> String {
    let mut words = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if words.is_empty() {
            words = cause;
        } else if !words.ends_with(&cause) {
            words.push_str(": ");
            words.push_str(&cause);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn each_cause_is_said_once() {
        let error = anyhow!("no such month").context("no such month");
        assert_eq!(with_causes(&error), "no such month");
        let error = error.context("MySQL refused: no such month");
        assert_eq!(with_causes(&error), "MySQL refused: no such month");
        let error = error.context("dropping");
        assert_eq!(
            with_causes(&error),
            "dropping: MySQL refused: no such month"
        );
    }
}
