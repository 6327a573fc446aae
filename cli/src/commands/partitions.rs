//! The monthly partitions of messages.

use std::collections::{BTreeMap, BTreeSet};

use message_store::{MessageStore, Month, MonthSize};
use serde_json::json;

use crate::{
    args::PartitionsCommand,
    context::CommandContext,
    output::{Table, grouped},
    times,
};

pub(super) async fn run(
    context: &CommandContext,
    command: &PartitionsCommand,
    as_json: bool,
) -> anyhow::Result<()> {
    let store = context.messages()?;
    let months = sums(&store).await?;
    match command {
        PartitionsCommand::List => list(&store, &months, as_json).await,
        PartitionsCommand::Drop { before, yes } => {
            drop_before(&store, &months, *before, *yes, as_json).await
        }
    }
}

/// The months, summed over all tables.
async fn sums(store: &MessageStore) -> anyhow::Result<BTreeMap<Month, MonthSize>> {
    let mut sums: BTreeMap<Month, MonthSize> = BTreeMap::new();
    for (month, size) in store.list_months().await?.into_values().flatten() {
        sums.entry(month).or_default().add(size);
    }
    Ok(sums)
}

async fn list(
    store: &MessageStore,
    months: &BTreeMap<Month, MonthSize>,
    as_json: bool,
) -> anyhow::Result<()> {
    let mut kept_from = BTreeSet::new();
    for shard in store.layout().shards() {
        kept_from.extend(store.kept_from(shard).await?.map(|month| month.to_string()));
    }
    if as_json {
        let months: Vec<_> = months
            .iter()
            .map(|(month, MonthSize { tables, rows, bytes })| {
                json!({ "month": month.to_string(), "tables": tables, "rows_about": rows, "bytes": bytes })
            })
            .collect();
        println!("{}", json!({ "months": months, "kept_from": kept_from }));
        return Ok(());
    }
    let mut table = Table::new(["month", "tables", "rows, about", "MiB"]).right(&[1, 2, 3]);
    for (month, size) in months {
        table.row([
            month.to_string(),
            size.tables.to_string(),
            grouped(size.rows.unsigned_abs()),
            grouped(size.bytes.unsigned_abs() >> 20),
        ]);
    }
    print!("{table}");
    for month in kept_from {
        println!("kept from {month} on: older months were dropped");
    }
    Ok(())
}

async fn drop_before(
    store: &MessageStore,
    months: &BTreeMap<Month, MonthSize>,
    before: Month,
    yes: bool,
    as_json: bool,
) -> anyhow::Result<()> {
    store.expect_past(before, times::now()).await?;
    let old: Vec<String> = months.range(..before).map(|(m, _)| m.to_string()).collect();
    let rows: i64 = months.range(..before).map(|(_, sum)| sum.rows).sum();
    // A boundary is kept for good, so none is set if nothing is dropped.
    let dropped = if yes && !old.is_empty() {
        store.drop_months(before, times::now()).await?
    } else {
        0
    };
    if as_json {
        let value = json!({ "months": old, "rows_about": rows, "partitions_dropped": dropped });
        println!("{value}");
    } else if old.is_empty() {
        println!("there is no month before {before}");
    } else {
        let verb = if yes {
            "dropped"
        } else {
            "would be dropped, with --yes"
        };
        println!(
            "{} with about {} messages: {verb}",
            old.join(", "),
            grouped(rows.unsigned_abs())
        );
    }
    Ok(())
}
