//! Replays the log.

mod decisions;
mod into;
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
    match &args.command {
        Some(ReplayCommand::Decisions(args)) => args.range.check(),
        None => into::check(args),
    }
}

pub(super) async fn run(
    context: &CommandContext,
    args: ReplayArgs,
    json: bool,
) -> anyhow::Result<ExitCode> {
    match args.command {
        Some(ReplayCommand::Decisions(args)) => decisions::run(context, args, json).await,
        None => {
            into::run(context, &args, json).await?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
