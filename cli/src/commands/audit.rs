//! Compares every projection with the log.

use std::{process::ExitCode, time::Duration};

use audit::{Options, Progress, Report, Scope, Sources};
use dev_stack::StackConfig;
use indicatif::{ProgressBar, ProgressStyle};

use crate::{args::AuditArgs, failure, handles::Handles, last_audit::LastAudit};

pub(super) async fn run(
    handles: &Handles,
    args: &AuditArgs,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let scope = match (args.conversation, args.user) {
        (Some(conversation), _) => Scope::Conversation(conversation),
        (None, Some(uid)) => Scope::User(uid),
        (None, None) => Scope::All,
    };
    let wait = (!args.no_wait).then(|| Duration::from_secs(args.wait_s));
    let report = audit(
        handles,
        Options {
            scope,
            wait,
            ..Options::default()
        },
    )
    .await?;
    if as_json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        println!("{report}");
    }
    Ok(code(&report))
}

/// Audits everything, waiting for the projections at most so long.
pub(super) async fn whole(handles: &Handles, wait: Duration) -> anyhow::Result<ExitCode> {
    println!("\nComparing every projection with the log (read positions are written every 30 s):");
    let report = audit(
        handles,
        Options {
            wait: Some(wait),
            ..Options::default()
        },
    )
    .await?;
    println!("{report}");
    Ok(code(&report))
}

fn code(report: &Report) -> ExitCode {
    ExitCode::from(if report.differences() == 0 {
        0
    } else {
        failure::NEGATIVE
    })
}

async fn audit(handles: &Handles, options: Options) -> anyhow::Result<Report> {
    let sources = Sources {
        kafka: handles.kafka()?,
        messages: handles.messages()?,
        unread: handles.unread()?,
    };
    let bar =
        ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{spinner} {msg}")?);
    bar.enable_steady_tick(Duration::from_millis(200));
    let show = |progress: Progress| bar.set_message(progress.to_string());
    // Boxed: it is deep, and what the compiler lays out in one piece has a limit.
    let outcome = Box::pin(audit::run(&sources, &options, show)).await;
    bar.finish_and_clear();
    let report = outcome?;
    if options.scope == Scope::All {
        remember(handles, &report)?;
    }
    Ok(report)
}

/// Where there is a run directory, the local stack's, the verdict is kept in it.
fn remember(handles: &Handles, report: &Report) -> anyhow::Result<()> {
    let config: StackConfig = handles.source.section("stack")?;
    if config.run_dir.is_dir() {
        LastAudit::now(report.differences()).write(&config.run_dir)?;
    }
    Ok(())
}
