use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use client::{AcceptedLine, Batch, Client, ClientError, RejectedLine, Retry};
use futures::future::try_join_all;
use indicatif::{ProgressBar, ProgressStyle};
use schemas::Partition;
use serde_json::json;

use crate::{
    args::LoadArgs,
    context::CommandContext,
    failure,
    input::{self, Input, Line},
    output::{grouped, per_second},
};

/// How many requests are open at a time.
const CONNECTIONS: usize = 4;

pub(super) async fn run(
    context: &CommandContext,
    args: &LoadArgs,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let options = input::Options {
        shift_uids: args.shift_uids,
        acks: args.acks,
        limit: args.limit,
    };
    let input = input::read(&args.file, &options)?;
    let client = context.client_with(Retry::default())?;
    let loaded = post(&client, &input, args.batch).await?;
    report(&loaded, as_json);
    let all_accepted = loaded.rejected().next().is_none();
    Ok(failure::code_of_answer(all_accepted))
}

/// The posted events of a file, in two phases: first the events, then the generated read-acks.
pub(super) struct Loaded {
    pub(super) events: Phase,
    pub(super) acks: Phase,
}

pub(super) struct Phase {
    pub(super) batch: Batch,
    pub(super) took: Duration,
}

impl Phase {
    pub(super) fn per_second(&self) -> f64 {
        per_second(self.batch.accepted.len() as u64, self.took)
    }
}

impl Loaded {
    fn phases(&self) -> [&Phase; 2] {
        [&self.events, &self.acks]
    }

    pub(super) fn accepted(&self) -> impl Iterator<Item = &AcceptedLine> {
        self.phases()
            .into_iter()
            .flat_map(|phase| &phase.batch.accepted)
    }

    pub(super) fn rejected(&self) -> impl Iterator<Item = &RejectedLine> {
        self.phases()
            .into_iter()
            .flat_map(|phase| &phase.batch.rejected)
    }
}

/// Posts `input`, with a progress bar on a terminal.
pub(super) async fn post(client: &Client, input: &Input, batch: usize) -> anyhow::Result<Loaded> {
    let bar = bar(input.len());
    let post = async |lines| {
        let started = Instant::now();
        let progress = |lines| bar.inc(lines as u64);
        let batch = post_parallel(client, lines, batch, &progress).await?;
        anyhow::Ok(Phase {
            batch,
            took: started.elapsed(),
        })
    };
    let events = post(&input.events).await?;
    let acks = post(&input.acks).await?;
    bar.finish_and_clear();
    Ok(Loaded { events, acks })
}

/// Posts `lines` over several connections at once. A conversation's lines keep their order: they share a connection.
/// `progress` is called with the number of lines that are accepted or rejected.
async fn post_parallel(
    client: &Client,
    lines: &[Line],
    per_request: usize,
    progress: &impl Fn(usize),
) -> Result<Batch, ClientError> {
    let mut by_connection = vec![Vec::new(); CONNECTIONS];
    for line in lines {
        let connection = line.partition.map_or(0, Partition::index) % CONNECTIONS;
        by_connection[connection].push(line);
    }
    let posts = by_connection
        .iter()
        .map(|lines| client.post_batch(lines, per_request, progress));
    let mut all = Batch::default();
    for (batch, lines) in try_join_all(posts).await?.into_iter().zip(&by_connection) {
        let number = |index: usize| lines[index - 1].number;
        let accepted = batch.accepted.into_iter().map(|one| AcceptedLine {
            line: number(one.line),
            ..one
        });
        all.accepted.extend(accepted);
        let rejected = batch.rejected.into_iter().map(|one| RejectedLine {
            line: number(one.line),
            ..one
        });
        all.rejected.extend(rejected);
    }
    all.rejected.sort_by_key(|one| one.line);
    Ok(all)
}

fn report(loaded: &Loaded, as_json: bool) {
    let accepted = loaded.accepted().count() as u64;
    let rate = per_second(accepted, loaded.events.took + loaded.acks.took);
    if as_json {
        let problems: Vec<_> = loaded
            .rejected()
            .map(|one| json!({ "line": one.line, "problem": one.problem }))
            .collect();
        let value = json!({ "accepted": accepted, "rejected": problems, "per_second": rate });
        println!("{value}");
        return;
    }
    for one in loaded.rejected().take(20) {
        eprintln!("line {}: {}", one.line, one.problem);
    }
    println!(
        "{} accepted, {} rejected, {} a second",
        grouped(accepted),
        grouped(loaded.rejected().count() as u64),
        grouped(rate as u64)
    );
    if !loaded.acks.batch.accepted.is_empty() {
        println!(
            "{} messages a second, then {} acks a second",
            grouped(loaded.events.per_second() as u64),
            grouped(loaded.acks.per_second() as u64)
        );
    }
}

/// Shown on a terminal only.
fn bar(lines: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} {per_sec} {eta}")
        .expect("the template is fixed");
    ProgressBar::new(lines as u64).with_style(style)
}
