//! Filling in the configuration templates of `compose/native`.

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

#[cfg(test)]
mod tests {
    use super::render;

    #[test]
    fn every_occurrence_is_replaced() {
        let text = render("{{a}}-{{b}}-{{a}}", &[("a", "1".into()), ("b", "2".into())]);
        assert_eq!(text, "1-2-1");
    }
}
