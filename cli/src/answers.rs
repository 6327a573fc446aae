//! Prints answers of services, and builds the paths of calls.

use client::AcceptedBody;

use crate::output::Table;

pub(crate) fn print_json(accepted: &AcceptedBody) {
    println!("{}", serde_json::json!(accepted));
}

/// Prints a 202 response to an event that may be refused later.
pub(crate) fn print_accepted(accepted: &AcceptedBody, json: bool) {
    if json {
        print_json(accepted);
    } else {
        let position = accepted.position();
        println!("on the log at {position}; `tidemark where {position}` says what became of it");
    }
}

/// Prints a page as a table, and how to get the next one.
pub(crate) fn print_page(answer: &serde_json::Value, table: &Table) {
    print!("{table}");
    let Some(next) = answer["next"].as_str() else {
        return;
    };
    let option = |parameter: &str| match parameter.split_once('=') {
        Some((name, value)) => format!("--{} {value}", name.replace('_', "-")),
        None => format!("--cursor {parameter}"),
    };
    let options: Vec<String> = next.split('&').map(option).collect();
    println!("there is more: {}", options.join(" "));
}

/// A path of query-api with its query string. A value may have any characters: it neither ends a parameter nor begins another.
pub(crate) fn with_query(path: &str, query: &[(&str, String)]) -> String {
    let mut text = path.to_owned();
    for (at, (name, value)) in query.iter().enumerate() {
        text.push(if at == 0 { '?' } else { '&' });
        text.push_str(name);
        text.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~:,".contains(&byte) {
                text.push(char::from(byte));
            } else {
                text.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_parameter() {
        let query = [
            ("after", "17:42".to_owned()),
            ("since", "a&uid=7 \u{e9}#%".to_owned()),
        ];
        let path = with_query("/v1/x", &query);
        assert_eq!(path, "/v1/x?after=17:42&since=a%26uid%3D7%20%C3%A9%23%25");
        assert_eq!(with_query("/v1/x", &[]), "/v1/x");
    }
}
