use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::{
    args::LoadArgs,
    client::Client,
    failure,
    handles::Handles,
    input::{self, Input},
    output::grouped,
    posting::{self, Accepted, Posted, Rejected},
    stages::per_second,
};

pub(super) async fn run(
    handles: &Handles,
    args: &LoadArgs,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let options = input::Options {
        shift_uids: args.shift_uids,
        acks: args.acks,
        limit: args.limit,
    };
    let input = input::read(&args.file, &options)?;
    let client = handles.client()?;
    let loaded = post(&client, &input, args.batch).await?;
    report(&loaded, as_json);
    let all_accepted = loaded.rejected().next().is_none();
    Ok(ExitCode::from(if all_accepted {
        0
    } else {
        failure::NEGATIVE
    }))
}

/// The events of a file, posted: first all that are not acks of the file's readers, then those.
pub(super) struct Loaded {
    pub(super) events: Phase,
    pub(super) acks: Phase,
}

pub(super) struct Phase {
    pub(super) posted: Posted,
    pub(super) took: Duration,
}

impl Phase {
    pub(super) fn per_second(&self) -> f64 {
        per_second(self.posted.accepted.len(), self.took)
    }
}

impl Loaded {
    fn phases(&self) -> [&Phase; 2] {
        [&self.events, &self.acks]
    }

    pub(super) fn accepted(&self) -> impl Iterator<Item = &Accepted> {
        self.phases()
            .into_iter()
            .flat_map(|phase| &phase.posted.accepted)
    }

    pub(super) fn rejected(&self) -> impl Iterator<Item = &Rejected> {
        self.phases()
            .into_iter()
            .flat_map(|phase| &phase.posted.rejected)
    }
}

/// Posts everything in `input`; on a terminal a bar shows how far it is.
pub(super) async fn post(client: &Client, input: &Input, batch: usize) -> anyhow::Result<Loaded> {
    let bar = bar(input.len());
    let post = async |lines| {
        let began = Instant::now();
        let progress = |lines| bar.inc(lines as u64);
        let posted = posting::post_parallel(client, lines, batch, &progress).await?;
        anyhow::Ok(Phase {
            posted,
            took: began.elapsed(),
        })
    };
    let events = post(&input.events).await?;
    let acks = post(&input.acks).await?;
    bar.finish_and_clear();
    Ok(Loaded { events, acks })
}

fn report(loaded: &Loaded, as_json: bool) {
    let accepted = loaded.accepted().count();
    let rate = per_second(accepted, loaded.events.took + loaded.acks.took);
    if as_json {
        let problems: Vec<_> = loaded
            .rejected()
            .map(|one| json!({ "line": one.line, "problem": one.problem }))
            .collect();
        println!(
            "{}",
            json!({ "accepted": accepted, "rejected": problems, "per_second": rate })
        );
        return;
    }
    for one in loaded.rejected().take(20) {
        eprintln!("line {}: {}", one.line, one.problem);
    }
    println!(
        "{} accepted, {} rejected, {} a second",
        grouped(accepted as u64),
        grouped(loaded.rejected().count() as u64),
        grouped(rate as u64)
    );
    if !loaded.acks.posted.accepted.is_empty() {
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
