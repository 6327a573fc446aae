//! Prints answers.

use std::fmt::Display;

use client::{AcceptedBody, Client, Query};
use serde_json::{Value, json};

use crate::output::Table;

/// Prints JSON for programs, or text for people.
pub(crate) fn show(as_json: bool, json: impl Display, text: impl Display) {
    if as_json {
        println!("{json}");
    } else {
        println!("{text}");
    }
}

/// Prints JSON for programs, or a table for people, and how to get the next page.
pub(crate) fn show_table(as_json: bool, answer: &Value, table: &Table) {
    if as_json {
        println!("{answer}");
        return;
    }
    print!("{table}");
    let Some(next) = answer["next"].as_str() else {
        return;
    };
    // `next` is a cursor, or the parameters of the next page, as `before_mid=5`.
    let option = |parameter: &str| match parameter.split_once('=') {
        Some((name, value)) => format!("--{} {value}", name.replace('_', "-")),
        None => format!("--cursor {parameter}"),
    };
    let options: Vec<String> = next.split('&').map(option).collect();
    println!("there is more: {}", options.join(" "));
}

/// Asks a service, and shows its answer.
pub(crate) async fn ask(
    client: &Client,
    query: &Query,
    as_json: bool,
    table: fn(&Value) -> Table,
) -> anyhow::Result<()> {
    let answer: Value = client.get(query.path()).await?;
    show_table(as_json, &answer, &table(&answer));
    Ok(())
}

/// Prints a 202 response to an event that may be refused later.
pub(crate) fn print_accepted(accepted: &AcceptedBody, as_json: bool) {
    let position = accepted.position();
    let text =
        format!("on the log at {position}; `tidemark where {position}` says what became of it");
    show(as_json, json!(accepted), text);
}

/// The items of a page.
pub(crate) fn items(answer: &Value) -> impl Iterator<Item = &Value> {
    answer["items"].as_array().into_iter().flatten()
}

/// The text of a field, empty if it has none.
pub(crate) fn text(item: &Value, name: &str) -> String {
    item[name].as_str().unwrap_or_default().to_owned()
}

/// The fields of an answer, one a row.
pub(crate) fn fields(heading: [&str; 2], answer: &Value) -> Table {
    let mut table = Table::new(heading);
    for (name, value) in answer.as_object().into_iter().flatten() {
        let text = value.as_str().map(str::to_owned);
        table.row([name.clone(), text.unwrap_or_else(|| value.to_string())]);
    }
    table
}
