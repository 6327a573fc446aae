//! Fills in the configuration templates of `compose/native`.

/// Replaces every `{{key}}` of the template by its value.
pub(crate) fn render(template: &str, values: &[(&str, String)]) -> String {
    let filled = values
        .iter()
        .fold(template.to_owned(), |text, (key, value)| {
            text.replace(&format!("{{{{{key}}}}}"), value)
        });
    debug_assert!(!filled.contains("{{"), "a key of the template has no value");
    filled
}

/// A value of a `.properties` file. Java reads such a file as Latin-1, in every locale, and takes a backslash for the beginning of an escape.
pub(crate) fn property(value: &str) -> String {
    let mut text = String::new();
    for unit in value.encode_utf16() {
        match u8::try_from(unit) {
            Ok(b'\\') => text.push_str("\\\\"),
            // A value begins after the spaces that follow the equals sign.
            Ok(b' ') if text.is_empty() => text.push_str("\\ "),
            Ok(plain @ b' '..=b'~') => text.push(char::from(plain)),
            _ => text.push_str(&format!("\\u{unit:04x}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{property, render};

    #[test]
    fn a_property_is_plain_ascii() {
        assert_eq!(property("/tmp/a b=c"), "/tmp/a b=c");
        assert_eq!(property(" caf\u{e9}"), "\\ caf\\u00e9");
        assert_eq!(property("\u{1f30a}\n"), "\\ud83c\\udf0a\\u000a");
        assert_eq!(property("a\\u"), "a\\\\u");
    }

    #[test]
    fn every_occurrence_is_replaced() {
        let text = render("{{a}}-{{b}}-{{a}}", &[("a", "1".into()), ("b", "2".into())]);
        assert_eq!(text, "1-2-1");
    }
}
