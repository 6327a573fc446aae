use std::{process::ExitCode, time::Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::{
    args::LoadArgs,
    failure,
    handles::Handles,
    input,
    output::grouped,
    posting::{self, Posted},
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
    let lines = input::read(&args.file, &options)?;
    let began = Instant::now();
    let bar = bar(lines.len());
    let client = handles.client()?;
    let posted = posting::post(&client, &lines, args.batch, |n| bar.inc(n as u64)).await?;
    bar.finish_and_clear();
    let rate = per_second(posted.accepted.len(), began.elapsed());
    report(&posted, rate, as_json);
    Ok(ExitCode::from(if posted.rejected.is_empty() {
        0
    } else {
        failure::NEGATIVE
    }))
}

fn report(posted: &Posted, rate: f64, as_json: bool) {
    let (accepted, rejected) = (posted.accepted.len(), posted.rejected.len());
    if as_json {
        let problems: Vec<_> = posted
            .rejected
            .iter()
            .map(|one| json!({ "line": one.line, "problem": one.problem }))
            .collect();
        println!(
            "{}",
            json!({ "accepted": accepted, "rejected": problems, "per_second": rate })
        );
        return;
    }
    for one in posted.rejected.iter().take(20) {
        eprintln!("line {}: {}", one.line, one.problem);
    }
    println!(
        "{} accepted, {} rejected, {} a second",
        grouped(accepted as u64),
        grouped(rejected as u64),
        grouped(rate as u64)
    );
}

/// Shown on a terminal only.
pub(super) fn bar(lines: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} {per_sec} {eta}")
        .expect("the template is fixed");
    ProgressBar::new(lines as u64).with_style(style)
}
