//! Texts in the forms that editors write.

/// The text without the byte order mark that some editors put before it.
#[must_use]
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// The secret in a file of its own: without a byte order mark, and without one line ending (LF or CRLF) at its end.
#[must_use]
pub fn secret_in(text: &str) -> &str {
    let text = without_mark(text);
    match text.strip_suffix('\n') {
        Some(line) => line.strip_suffix('\r').unwrap_or(line),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_the_same_whatever_the_editor_adds() {
        for text in ["s", "s\n", "s\r\n", "\u{feff}s", "\u{feff}s\r\n"] {
            assert_eq!(secret_in(text), "s", "{text:?}");
        }
        // Nothing that an editor adds.
        for (text, secret) in [("s\n\n", "s\n"), ("s\r", "s\r"), (" s", " s"), ("", "")] {
            assert_eq!(secret_in(text), secret, "{text:?}");
        }
    }
}
