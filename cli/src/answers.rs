//! Prints answers of services.

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
