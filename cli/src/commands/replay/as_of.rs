//! Builds projections as they were at an earlier time, in databases and under keys of their own. Nothing live is written, and no topic.

use std::time::{Duration, Instant};

use message_store::{MySqlConfig, ScratchNote};
use rebuild::Context;
use schemas::TimestampMs;
use serde_json::json;

use crate::{
    args::ReplayAsOfArgs,
    commands::{rebuild::show, scratch},
    context::CommandContext,
    failure::Failure,
    log_point::LogPoint,
    output::{grouped, per_second, progress_bar},
    times,
};

/// A fill reads and writes many tables at once.
const FEWEST_CONNECTIONS: u32 = 16;

pub(super) async fn run(
    context: &CommandContext,
    args: &ReplayAsOfArgs,
    as_json: bool,
) -> anyhow::Result<()> {
    let as_of = as_of(args)?;
    let name = &args.into;
    let settings = scratch::settings(context, name, as_of)?;
    let scratch = scratch::with_settings(context, &settings)?;
    let mut mysql: MySqlConfig = scratch.source.section("mysql")?;
    mysql.connections_per_server = mysql.connections_per_server.max(FEWEST_CONNECTIONS);
    let store = message_store::MessageStore::connect(&mysql);
    if let Some(taken) = store.scratch_note().await?
        && (taken.as_of != as_of || taken.is_complete)
    {
        let then = times::rfc3339(taken.as_of);
        let why = format!(
            "there is a scratch {name}, as of {then}: choose another name, or drop it with `tidemark scratch drop {name}`"
        );
        return Err(Failure::Usage(why).into());
    }
    store.apply_schema(as_of).await?;
    let mut note = ScratchNote {
        as_of,
        is_complete: false,
    };
    store.write_scratch_note(note).await?;
    let bar = progress_bar()?;
    let started = Instant::now();
    let rebuild = Context::new(&scratch.kafka()?, store.clone(), scratch.unread()?)?;
    let filled = rebuild::fill(&rebuild, &|progress| show(&bar, progress)).await;
    bar.finish_and_clear();
    filled?;
    note.is_complete = true;
    store.write_scratch_note(note).await?;
    report(
        (name, as_of),
        &settings,
        (bar.position(), started.elapsed()),
        as_json,
    );
    Ok(())
}

/// The time as given, which the log must have passed: what comes later would change it.
fn as_of(args: &ReplayAsOfArgs) -> Result<TimestampMs, Failure> {
    let now = times::now();
    match args.as_of {
        LogPoint::Latest => Ok(now),
        LogPoint::Time(as_of) if as_of <= now => Ok(as_of),
        _ => Err(Failure::Usage(
            "--as-of must be a time that is past, a date, or `now`".to_owned(),
        )),
    }
}

fn report(
    (name, as_of): (&str, TimestampMs),
    settings: &[(String, String)],
    (read, took): (u64, Duration),
    as_json: bool,
) {
    let rate = per_second(usize::try_from(read).unwrap_or(usize::MAX), took);
    let sets: Vec<String> = settings
        .iter()
        .map(|(key, value)| format!("--set {key}={value}"))
        .collect();
    if as_json {
        let seconds = took.as_secs_f64();
        println!(
            "{}",
            json!({"name": name, "as_of": times::rfc3339(as_of), "read": read, "seconds": seconds, "per_second": rate, "settings": sets})
        );
        return;
    }
    println!(
        "{} records read in {:.1} s, {} a second. Read it with\n  tidemark query-api {} --set query_api.listen=127.0.0.1:7399",
        grouped(read),
        took.as_secs_f64(),
        grouped(rate as u64),
        sets.join(" ")
    );
}
