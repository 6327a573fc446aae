//! Formats errors.

/// An error and its causes in one line. A cause that the text already repeats is left out.
#[must_use]
pub fn with_causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
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
