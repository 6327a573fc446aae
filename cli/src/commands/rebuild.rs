//! Rebuilds projections.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use message_store::{MessageStore, MySqlConfig, Sink};
use rebuild::{Context, Progress, Rebuilt};
use serde_json::json;

use crate::{
    args::{RebuildArgs, RebuildCommand},
    context::CommandContext,
    output::{grouped, per_second, progress_bar},
};

/// A rebuild holds locks on separate connections.
const FEWEST_CONNECTIONS: u32 = 24;

pub(super) async fn run(
    context: &CommandContext,
    command: &RebuildCommand,
    as_json: bool,
) -> anyhow::Result<()> {
    let mut mysql: MySqlConfig = context.source.section("mysql")?;
    mysql.connections_per_server = mysql.connections_per_server.max(FEWEST_CONNECTIONS);
    let store = MessageStore::connect(&mysql);
    let rebuild = Context::new(&context.kafka()?, store, context.unread()?)?;
    let started = Instant::now();
    let bar = progress_bar()?;
    let show = |progress| show(&bar, progress);
    let tables = |sink, args: &RebuildArgs| {
        rebuild::tables(&rebuild, sink, args.partition.map(Into::into), &show)
    };
    let rebuilt = match command {
        RebuildCommand::Unread(args) => {
            rebuild::unread(&rebuild, args.partition.map(Into::into), &show).await
        }
        RebuildCommand::Reads(args) => tables(Sink::Reads, args).await,
        RebuildCommand::Messages(args) => tables(Sink::Messages, args).await,
        RebuildCommand::Contacts(args) => tables(Sink::Contacts, args).await,
    };
    let read = bar.position();
    bar.finish_and_clear();
    report(&rebuilt?, read, started.elapsed(), as_json);
    Ok(())
}

pub(super) fn show(bar: &ProgressBar, progress: Progress) {
    match progress {
        Progress::Begun {
            wanted,
            left_over,
            steps,
        } => {
            bar.set_length(steps);
            if left_over.is_some() {
                let text = format!("continuing an interrupted rebuild: {wanted} are left");
                bar.suspend(|| eprintln!("{text}"));
            }
        }
        Progress::Advanced(steps) => {
            bar.inc(steps);
            if bar.length().is_some_and(|length| bar.position() > length) {
                bar.set_length(bar.position());
            }
        }
        Progress::At(what) => bar.set_message(what),
    }
}

fn report(rebuilt: &Rebuilt, read: u64, took: Duration, as_json: bool) {
    let rate = per_second(read, took);
    let Rebuilt {
        replaced,
        in_progress,
        compared,
        held,
        longest_hold,
    } = rebuilt;
    if as_json {
        let report = json!({
            "replaced": replaced,
            "in_progress": in_progress,
            "read": read,
            "compared": compared,
            "seconds": took.as_secs_f64(),
            "per_second": rate,
            "held_ms": held.as_millis(),
            "longest_hold_ms": longest_hold.as_millis(),
        });
        println!("{report}");
        return;
    }
    println!(
        "{} replaced; {} read in {:.1} s, {} a second; {} compared with the log\n\
         the live projection was held for {:.1} s in all, {:.1} s at most",
        grouped(*replaced as u64),
        grouped(read),
        took.as_secs_f64(),
        grouped(rate as u64),
        grouped(*compared),
        held.as_secs_f64(),
        longest_hold.as_secs_f64()
    );
    if *in_progress > 0 {
        let users = grouped(*in_progress as u64);
        println!("{users} are being rebuilt by another process");
    }
}
