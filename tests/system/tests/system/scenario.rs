//! The scenario that all clients pass: sdk/README.md.

use anyhow::{Context as _, Result, bail, ensure};
use client::{
    ChangesQuery, Client, ConversationsQuery, LineResult, MessagesQuery, Order, Outcome,
    ReadOptions,
};
use schemas::{InboundPosition, Mid, UserId};
use serde_json::{Value, from_value, json, to_value};
use system_tests::{Servers, new_users, run, until};

const SCENARIO: &str = include_str!("../../../../sdk/scenario.json");

#[test]
fn the_client_passes_the_scenario() {
    run(Servers::Shared, async |env| {
        let mut after = Vec::new();
        for (number, step) in (1..).zip(steps()?) {
            let done = take(env.client.api(), &step, &mut after).await;
            done.with_context(|| format!("step {number}, {step}"))?;
        }
        Ok(())
    });
}

fn steps() -> Result<Vec<Value>> {
    let scenario: Value = serde_json::from_str(SCENARIO)?;
    let names: [String; 5] = from_value(scenario["ids"].clone())?;
    let ids = names.iter().zip(new_users::<5>());
    let text = ids.fold(SCENARIO.to_owned(), |text, (name, id)| {
        text.replace(&format!("\"${name}\""), &format!("\"{id}\""))
    });
    let mut scenario: Value = serde_json::from_str(&text)?;
    Ok(from_value(scenario["steps"].take())?)
}

/// Runs a step; `after` has what was posted before it.
async fn take(client: &Client, step: &Value, after: &mut Vec<InboundPosition>) -> Result<()> {
    if step["read"].is_string() {
        let options = ReadOptions::after(InboundPosition::newest(after.iter().copied()));
        return check(&read(client, step, &options).await?, &step["result"], "");
    }
    let line = format!("{}\n", step["post"]);
    let mut results = client.post_lines(line).await?;
    match results.next().await? {
        Some(LineResult::Accepted { accepted, .. }) => {
            after.push(accepted.position());
            let outcome = until("the outcome", async || {
                match client.outcome(accepted.position()).await {
                    Ok(Outcome::Pending) => Err("it is pending".to_owned()),
                    outcome => Ok(outcome),
                }
            });
            check(&to_value(outcome.await??)?, &step["outcome"], "")
        }
        Some(LineResult::Rejected { problem, .. }) => {
            let path = &problem.errors.first().context("no field")?.field;
            // In a batch it begins with the member of the line.
            let field = path.split_once('.').map_or(&**path, |(_, field)| field);
            let refused = json!({"status": problem.status, "field": field});
            check(&refused, &step["refused"], "")
        }
        other => bail!("{other:?}"),
    }
}

async fn read(client: &Client, step: &Value, options: &ReadOptions) -> Result<Value> {
    let with = |name: &str| step["with"][name].as_str();
    let uid: UserId = with("uid").context("no uid")?.parse()?;
    let all = MessagesQuery {
        order: Order::After(Mid::ZERO),
        limit: Some(200),
        ..MessagesQuery::default()
    };
    let peer = || anyhow::Ok(with("peer").context("no peer")?.parse()?);
    Ok(match (step["read"].as_str(), with("gid")) {
        (Some("unread"), _) => {
            let device = with("device").context("no device")?.parse()?;
            let unread = client.unread(uid, device, options).await?;
            json!({"unread": unread.unread, "total": unread.total})
        }
        (Some("history"), Some(gid)) => {
            let page = client.group_messages(gid.parse()?, uid, &all, options);
            to_value(page.await?.items)?
        }
        (Some("history"), None) => to_value(client.history(uid, peer()?, options).await?)?,
        (Some("changes"), None) => {
            let which = ChangesQuery::default();
            let page = client.changes(uid, peer()?, &which, options).await?;
            to_value(page.items)?
        }
        (Some("conversations"), _) => {
            let which = ConversationsQuery::default();
            to_value(client.conversations(uid, &which, options).await?.items)?
        }
        (Some("sync"), _) => to_value(client.sync(uid, None, None).await?)?,
        (read, _) => bail!("{read:?} is not a read"),
    })
}

/// Whether a value matches, as sdk/README.md says; `at` is its path.
fn check(found: &Value, expected: &Value, at: &str) -> Result<()> {
    match expected {
        Value::Object(members) => members
            .iter()
            .try_for_each(|(name, member)| check(&found[name], member, &format!("{at}.{name}"))),
        Value::Array(elements) => {
            let count = found.as_array().map(Vec::len);
            ensure!(count == Some(elements.len()), "{at} is {found}");
            let indexed = elements.iter().enumerate();
            let mut each = indexed.map(|(i, one)| check(&found[i], one, &format!("{at}[{i}]")));
            each.try_for_each(|result| result)
        }
        _ => {
            ensure!(found == expected, "{at} is {found}; must be {expected}");
            Ok(())
        }
    }
}
