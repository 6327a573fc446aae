//! Builds projections as they were at an earlier time, in databases and under keys of their own. Nothing live is written, and no topic.

mod room;

use std::time::{Duration, Instant};

use anyhow::Context as _;
use message_store::{MessageStore, MySqlConfig, ScratchNote};
use rebuild::Context;
use schemas::topics::Topic;
use serde_json::json;

use crate::{
    answers,
    args::ReplayArgs,
    commands::{rebuild::show, scratch},
    context::CommandContext,
    decided,
    failure::Failure,
    log_point::{LogPoint, LogRange},
    output::{grouped, per_second, progress_bar},
    times,
};

/// A fill reads and writes many tables at once.
const FEWEST_CONNECTIONS: u32 = 16;

/// # Errors
/// No time or range is asked for, or one that has nothing, or has not passed.
pub(super) fn check(args: &ReplayArgs) -> Result<(), Failure> {
    let (flag, end) = end(args)?;
    if let Some(range) = args.range {
        range.check()?;
    }
    end.past(flag).map(drop)
}

pub(super) async fn run(
    context: &CommandContext,
    args: &ReplayArgs,
    as_json: bool,
) -> anyhow::Result<()> {
    let name = args.into.as_deref().context("clap requires it")?;
    let _lock = scratch::lock(context, name).await?;
    let (mut note, is_new) = note(context, name, args).await?;
    let settings = scratch::settings(context, name, note.as_of)?;
    let scratch = scratch::with_settings(context, &settings)?;
    let mut mysql: MySqlConfig = scratch.source.section("mysql")?;
    mysql.connections_per_server = mysql.connections_per_server.max(FEWEST_CONNECTIONS);
    let store = MessageStore::connect(&mysql);
    let rebuild = Context::new(&scratch.kafka()?, store.clone(), scratch.unread()?)?;
    if is_new {
        room::check(context, &scratch).await?;
    }
    store.write_scratch_note(&note).await?;
    store.apply_schema(note.as_of).await?;
    let bar = progress_bar()?;
    decided::everything_before(context, note.as_of, &bar).await?;
    let started = Instant::now();
    let filled = match args.range {
        None => rebuild::fill(&rebuild, &|progress| show(&bar, progress)).await,
        Some(range) => {
            let ranges = scratch
                .log_reader()?
                .blocking(move |reader| range.offsets(reader, Topic::Events))
                .await?;
            rebuild::fill_slice(&rebuild, &ranges, &|progress| show(&bar, progress)).await
        }
    };
    bar.finish_and_clear();
    filled?;
    note.is_complete = true;
    store.write_scratch_note(&note).await?;
    report(
        (name, &note),
        &settings,
        (bar.position(), started.elapsed()),
        as_json,
    );
    Ok(())
}

/// The note of the scratch to be built, and whether nothing of that scratch is there yet.
async fn note(
    context: &CommandContext,
    name: &str,
    args: &ReplayArgs,
) -> anyhow::Result<(ScratchNote, bool)> {
    let (flag, end) = end(args)?;
    let mut note = ScratchNote {
        as_of: end.past(flag)?,
        slice: args.range.map(LogRange::beginning),
        is_complete: false,
    };
    let Some(taken) = scratch::find(context, name).await? else {
        return Ok((note, true));
    };
    if !taken.is_complete && taken.slice == note.slice && end == LogPoint::Latest {
        note.as_of = taken.as_of;
        eprintln!("goes on {}, as it was begun", scratch::describe(&note));
    }
    match taken == note {
        true => Ok((note, false)),
        false => Err(is_taken(name, &taken).into()),
    }
}

fn is_taken(name: &str, taken: &ScratchNote) -> Failure {
    let then = scratch::describe(taken);
    let why = format!(
        "there is a scratch {name}, {then}: choose another name, or drop it with `tidemark scratch drop {name}`"
    );
    Failure::Usage(why)
}

/// The point up to which the log is read, and the flag that gives this point.
fn end(args: &ReplayArgs) -> Result<(&'static str, LogPoint), Failure> {
    match (args.as_of, args.range) {
        (Some(as_of), _) => Ok(("--as-of", as_of)),
        (None, Some(range)) => Ok(("--to", range.to.point)),
        (None, None) => Err(Failure::Usage(
            "nothing is asked for: give --as-of, or --from and --to".to_owned(),
        )),
    }
}

fn report(
    (name, note): (&str, &ScratchNote),
    settings: &[(String, String)],
    (read, took): (u64, Duration),
    as_json: bool,
) {
    let (rate, seconds) = (per_second(read, took), took.as_secs_f64());
    let sets: Vec<String> = settings
        .iter()
        .map(|(key, value)| format!("--set {key}={value}"))
        .collect();
    let value = json!({"name": name, "as_of": times::rfc3339(note.as_of), "slice": note.slice, "read": read, "seconds": seconds, "per_second": rate, "settings": sets});
    let (read, rate) = (grouped(read), grouped(rate as u64));
    let done = format!("{read} records read in {seconds:.1} s, {rate} a second");
    let text = match note.slice {
        Some(_) => format!(
            "{done}. A slice has rows of messages and changes, in databases scratch_{name}_0 …: no counts, contacts or read positions, which need all that came before"
        ),
        None => format!(
            "{done}. Read it with\n  tidemark query-api {} --set query_api.listen=127.0.0.1:7399",
            sets.join(" ")
        ),
    };
    answers::show(as_json, value, text);
}
