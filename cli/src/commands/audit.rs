//! Compares every projection with the log.

use std::{process::ExitCode, time::Duration};

use audit::{Options, Progress, Report, Scope, Sources};
use dev_stack::StackConfig;
use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    answers,
    args::AuditArgs,
    context::CommandContext,
    failure::{self, Failure},
    last_audit::LastAudit,
};

pub(super) async fn run(
    context: &CommandContext,
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
        context,
        Options {
            scope,
            wait,
            ..Options::default()
        },
    )
    .await?;
    answers::show(as_json, serde_json::to_string(&report)?, &report);
    code(&report)
}

/// Audits the projections of a scratch, which nothing writes any more.
pub(super) async fn of_scratch(
    context: &CommandContext,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let args = AuditArgs {
        conversation: None,
        user: None,
        no_wait: true,
        wait_s: 0,
    };
    run(context, &args, as_json).await
}

/// Audits everything, waiting at most `wait` for the projections.
pub(super) async fn whole(context: &CommandContext, wait: Duration) -> anyhow::Result<ExitCode> {
    println!("\nComparing every projection with the log (read positions are written every 30 s):");
    let report = audit(
        context,
        Options {
            wait: Some(wait),
            ..Options::default()
        },
    )
    .await?;
    println!("{report}");
    code(&report)
}

/// # Errors
/// Not a single record of a partition was compared, although the partition has events.
fn code(report: &Report) -> anyhow::Result<ExitCode> {
    if report.differences() > 0 {
        return Ok(ExitCode::from(failure::NEGATIVE));
    }
    let partitions = report.not_compared.len();
    if partitions > 0 {
        let why = format!(
            "nothing was compared of {partitions} partitions: not every projection has passed any event of theirs; without --no-wait the audit waits for them"
        );
        return Err(Failure::Timeout(why).into());
    }
    Ok(ExitCode::SUCCESS)
}

async fn audit(context: &CommandContext, options: Options) -> anyhow::Result<Report> {
    let sources = Sources {
        kafka: context.kafka()?,
        messages: context.messages()?,
        unread: context.unread()?,
    };
    let bar =
        ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{spinner} {msg}")?);
    bar.enable_steady_tick(Duration::from_millis(200));
    let show = |progress: Progress| bar.set_message(progress.to_string());
    // Boxed, since the compiler limits the size of a nested future.
    let outcome = Box::pin(audit::run(&sources, &options, show)).await;
    bar.finish_and_clear();
    let report = outcome?;
    if options.scope == Scope::All {
        save_result(context, &report)?;
    }
    Ok(report)
}

/// Stores the result in the local stack's run directory, if there is one.
fn save_result(context: &CommandContext, report: &Report) -> anyhow::Result<()> {
    let config: StackConfig = context.source.section("stack")?;
    if config.run_dir.is_dir() {
        LastAudit::now(report).write(&config.run_dir)?;
    }
    Ok(())
}
