//! Shows ports, processes, the lag of each stage, and the last audit.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::ExitCode,
    time::{Duration, Instant},
};

use dev_stack::{ProcessState, ProcessStatus, Stack, StackConfig};
use event_log::{LogReader, Sequenced};
use message_store::Sink;
use schemas::{OffsetRange, Partition, PartitionMap, topics::Topic};
use serde_json::json;
use unread_store::{MemoryLimit, lowest_positions};

use crate::{
    context::CommandContext,
    failure,
    last_audit::LastAudit,
    output::{Table, grouped},
};

/// How many of a partition's newest events are read to find its watermark.
const NEWEST_EVENTS: i64 = 100;
const READS: &str = "read positions (MySQL)";
/// How often [`caught_up`] asks.
const ASK_EVERY: Duration = Duration::from_millis(50);

pub(super) async fn run(context: &CommandContext, as_json: bool) -> anyhow::Result<ExitCode> {
    let config: StackConfig = context.source.section("stack")?;
    let audit = LastAudit::read(&config.run_dir);
    let processes =
        tokio::task::spawn_blocking(move || Stack::new(config).map(|s| s.status())).await??;
    let (lags, warnings) = tokio::join!(lags(context), warnings(context));
    if as_json {
        let lags: BTreeMap<_, _> = lags
            .iter()
            .map(|(stage, lag)| (*stage, lag.as_ref().ok()))
            .collect();
        let audit = match &audit {
            Ok(audit) => json!(audit),
            Err(error) => json!({ "error": format!("{error:#}") }),
        };
        let value = json!({ "processes": processes, "lag": lags, "last_audit": audit, "warnings": warnings });
        println!("{value}");
    } else {
        print!("{}\n{}", process_table(&processes), lag_table(&lags));
        println!("\nlast audit: {}", audit_line(&audit));
        for warning in &warnings {
            println!("warning: {warning}");
        }
    }
    let all_ready = processes
        .iter()
        .all(|process| process.state == ProcessState::Ready);
    let well = all_ready && lags.iter().all(|(_, lag)| lag.is_ok());
    Ok(failure::code_of_answer(well))
}

pub(super) fn process_table(processes: &[ProcessStatus]) -> Table {
    let mut table = Table::new(["process", "port", "pid", "state", "waits for"]).right(&[1, 2]);
    for process in processes {
        let state = match process.state {
            ProcessState::Ready => "ready",
            ProcessState::NotReady => "not ready",
            ProcessState::Died => "died",
            ProcessState::Stopped => "stopped",
        };
        let pid = process
            .pid
            .map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        table.row([
            process.name.clone(),
            process.port.to_string(),
            pid,
            state.to_owned(),
            process.reason.clone().unwrap_or_default(),
        ]);
    }
    table
}

/// When each stage was first seen with nothing left to do, in this order: a record that is not sequenced yet is also left for all later stages.
/// Without read positions, which are written every 30 s.
pub(super) async fn caught_up(
    context: &CommandContext,
    within: Duration,
) -> anyhow::Result<Vec<(&'static str, Instant)>> {
    let deadline = Instant::now() + within;
    let mut seen: Vec<(&str, Instant)> = Vec::new();
    loop {
        let lags = lags(context).await.into_iter();
        let stages = lags.len() - 1;
        let known = if seen.is_empty() { 1 } else { stages };
        for (stage, lag) in lags.filter(|(stage, _)| *stage != READS).take(known) {
            if matches!(lag, Ok(0)) && seen.iter().all(|(known, _)| *known != stage) {
                seen.push((stage, Instant::now()));
            }
        }
        if seen.len() == stages {
            return Ok(seen);
        }
        anyhow::ensure!(Instant::now() < deadline, "the stages do not settle");
        tokio::time::sleep(ASK_EVERY).await;
    }
}

type Lags = Vec<(&'static str, anyhow::Result<i64>)>;

/// How many records each stage is behind: the sequencer in `chat.inbound`, the others in `chat.events`.
async fn lags(context: &CommandContext) -> Lags {
    let (ends, backlog) = match context.reach_kafka().await {
        Ok(()) => (events_ends(context).await, backlog(context).await),
        Err(error) => (Err(anyhow::anyhow!("{error:#}")), Err(error)),
    };
    let behind = |done: anyhow::Result<PartitionMap<i64>>| -> anyhow::Result<i64> {
        let (ends, done) = (ends.as_ref().map_err(|e| anyhow::anyhow!("{e:#}"))?, done?);
        Ok(ends
            .iter()
            .map(|(p, end)| (end - done.get(p).copied().unwrap_or(0)).max(0))
            .sum())
    };
    vec![
        ("sequenced (chat.events)", backlog),
        (
            "unread counts (Redis)",
            behind(redis_offsets(context).await),
        ),
        (
            "messages (MySQL)",
            behind(mysql_offsets(context, Sink::Messages).await),
        ),
        (READS, behind(mysql_offsets(context, Sink::Reads).await)),
        (
            "conversation lists (MySQL)",
            behind(mysql_offsets(context, Sink::Contacts).await),
        ),
    ]
}

/// Warnings about stores that answer reads, but take no writes or drop what they have.
async fn warnings(context: &CommandContext) -> BTreeSet<String> {
    let mut warnings = BTreeSet::new();
    for (store, found) in [
        ("Redis", redis_warnings(context).await),
        ("MySQL", mysql_warnings(context).await),
    ] {
        warnings.extend(found.unwrap_or_else(|error| {
            vec![format!(
                "whether {store} takes writes is not known: {error:#}"
            )]
        }));
    }
    warnings
}

async fn redis_warnings(context: &CommandContext) -> anyhow::Result<Vec<String>> {
    let mut warnings = Vec::new();
    for connection in context.unread()?.connect().await? {
        let Some(MemoryLimit { policy, is_reached }) = connection.memory_limit().await? else {
            continue;
        };
        if policy != "noeviction" {
            warnings.push(format!("maxmemory-policy of Redis is {policy}; must be noeviction, or Redis drops keys that belong together one by one"));
        }
        if is_reached {
            warnings.push(
                "Redis has as much as its maxmemory: unread counts no longer move".to_owned(),
            );
        }
    }
    Ok(warnings)
}

async fn mysql_warnings(context: &CommandContext) -> anyhow::Result<Vec<String>> {
    let store = context.messages()?;
    let mut warnings = Vec::new();
    for shard in store.layout().shards() {
        if store.is_read_only(shard).await? {
            let n = shard.get();
            warnings.push(format!(
                "the server of database {n} is read-only: what is read there no longer moves"
            ));
        }
    }
    Ok(warnings)
}

/// How many records of `chat.inbound` are not sequenced.
async fn backlog(context: &CommandContext) -> anyhow::Result<i64> {
    let reader = LogReader::new(&context.kafka()?)?;
    let read = move || {
        // Events are read first, so that the sequencer never looks ahead of `chat.inbound`.
        let all: Vec<Partition> = Partition::all().collect();
        let newest = reader.newest_events(reader.bounds(Topic::Events, &all)?, NEWEST_EVENTS)?;
        let inbound = reader.bounds(Topic::Inbound, &all)?;
        Ok(inbound
            .into_iter()
            .map(|(partition, bounds)| not_sequenced(newest.get(partition), bounds))
            .sum())
    };
    tokio::task::spawn_blocking(read).await?
}

fn not_sequenced(newest: Option<&Sequenced>, inbound: OffsetRange) -> i64 {
    let next = newest.map_or(0, |newest| newest.last.offset.offset + 1);
    (inbound.end - next.max(inbound.start)).max(0)
}

async fn events_ends(context: &CommandContext) -> anyhow::Result<PartitionMap<i64>> {
    Ok(context.log_reader()?.ends(Topic::Events).await?)
}

async fn redis_offsets(context: &CommandContext) -> anyhow::Result<PartitionMap<i64>> {
    let lowest = lowest_positions(&context.unread()?.connect().await?).await?;
    Ok(lowest.map(|_, position| position.next.get()))
}

/// The lowest resume offset of each partition over the databases.
async fn mysql_offsets(context: &CommandContext, sink: Sink) -> anyhow::Result<PartitionMap<i64>> {
    let (store, topic) = (context.messages()?, context.kafka()?.topic(Topic::Events));
    let mut lowest: PartitionMap<i64> = PartitionMap::new();
    for shard in store.layout().shards() {
        let own: Vec<Partition> = store.layout().source_partitions(sink, shard).collect();
        for (partition, row) in store.read_resume_offsets(shard, sink, &topic, &own).await? {
            let low = lowest.get_or_insert_with(partition, || i64::MAX);
            *low = (*low).min(row.next.get());
        }
    }
    Ok(lowest)
}

fn lag_table(lags: &Lags) -> Table {
    let mut table = Table::new(["stage", "records behind"]).right(&[1]);
    for (stage, lag) in lags {
        let lag = match lag {
            Ok(lag) => grouped(lag.unsigned_abs()),
            Err(error) => format!("unknown: {error:#}"),
        };
        table.row([(*stage).to_owned(), lag]);
    }
    table
}

fn audit_line(audit: &anyhow::Result<Option<LastAudit>>) -> String {
    match audit {
        Ok(Some(audit)) => {
            let mut line = format!("{} differences at {}", audit.differences, audit.at);
            for unchecked in &audit.unchecked {
                line.push_str("; not checked: ");
                line.push_str(unchecked);
            }
            line
        }
        Ok(None) => "none yet".to_owned(),
        Err(error) => format!("{error:#}"),
    }
}

#[cfg(test)]
mod tests {
    use schemas::{
        TimestampMs,
        event::{Source, SourceOffset},
    };

    use super::*;

    fn behind(offset: Option<i64>, start: i64, end: i64) -> i64 {
        let newest = offset.map(|offset| Sequenced {
            last: Source {
                offset: SourceOffset { epoch: 1, offset },
                leader_epoch: 0,
            },
            clock: TimestampMs(0),
        });
        not_sequenced(newest.as_ref(), OffsetRange { start, end })
    }

    #[test]
    fn what_the_last_audit_did_not_check_is_shown() {
        let audit = |unchecked: &[&str]| {
            audit_line(&Ok(Some(LastAudit {
                at: "now".to_owned(),
                differences: 0,
                unchecked: unchecked.iter().map(ToString::to_string).collect(),
            })))
        };
        assert_eq!(audit(&[]), "0 differences at now");
        assert_eq!(
            audit(&["the last 7 events"]),
            "0 differences at now; not checked: the last 7 events"
        );
    }

    #[test]
    fn records_above_the_highest_source_are_behind() {
        assert_eq!(behind(None, 0, 5), 5);
        assert_eq!(behind(Some(-1), 0, 5), 5);
        assert_eq!(behind(Some(3), 0, 5), 1);
        assert_eq!(behind(Some(4), 0, 5), 0);
        assert_eq!(behind(Some(1), 4, 5), 1, "deleted unread");
        assert_eq!(behind(Some(9), 0, 5), 0, "a new topic");
    }
}
