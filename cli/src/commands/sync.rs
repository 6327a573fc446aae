//! The news for a device, and the devices of a user.

use client::Query;
use serde_json::{Value, json};

use crate::{args::SyncArgs, context::CommandContext, output::Table};

/// Prints the answer as JSON.
pub(super) async fn sync(context: &CommandContext, args: &SyncArgs) -> anyhow::Result<()> {
    let query = Query::of(format!("/v1/users/{}/sync", args.uid))
        .with("since", &args.since)
        .with("limit", args.limit);
    let answer: Value = context.client()?.get(query.path()).await?;
    println!("{answer}");
    Ok(())
}

pub(super) async fn devices(
    context: &CommandContext,
    uid: schemas::UserId,
    json: bool,
) -> anyhow::Result<()> {
    let mut table = Table::new(["device", "class", "name", "seen at", "token"]);
    for device in context.client()?.devices(uid).await? {
        if json {
            let (class, seen_at) = (device.class, device.seen_at);
            let line = json!({ "device": device.device, "class": class, "name": device.name, "token": device.token, "seen_at": seen_at });
            println!("{line}");
            continue;
        }
        table.row([
            device.device.to_string(),
            device.class.to_string(),
            device.name,
            device.seen_at,
            device.token,
        ]);
    }
    if !json {
        print!("{table}");
    }
    Ok(())
}
