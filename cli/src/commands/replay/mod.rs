//! Replays the log.

mod as_of;
mod decisions;
mod judge;

use std::process::ExitCode;

use crate::{
    args::{ReplayArgs, ReplayCommand},
    context::CommandContext,
    failure::Failure,
};

/// # Errors
/// The arguments contradict each other, or ask for nothing.
pub(super) fn check(args: &ReplayArgs) -> Result<(), Failure> {
    match (&args.command, &args.as_of) {
        (Some(ReplayCommand::Decisions(args)), _) => args.range.check(),
        (None, Some(_)) => Ok(()),
        (None, None) => Err(Failure::Usage(
            "nothing is asked for: give --as-of and --into, or `decisions`".to_owned(),
        )),
    }
}

pub(super) async fn run(
    context: &CommandContext,
    args: ReplayArgs,
    json: bool,
) -> anyhow::Result<ExitCode> {
    if let Some(ReplayCommand::Decisions(args)) = args.command {
        return decisions::run(context, args, json).await;
    }
    if let Some(args) = &args.as_of {
        as_of::run(context, args, json).await?;
    }
    Ok(ExitCode::SUCCESS)
}
