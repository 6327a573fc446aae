//! Exit codes: 0 fine, 1 difference or negative answer, 2 usage, 3 configuration, 4 unreachable, 5 timeout,
//! 130 interrupted.

use std::process::ExitCode;

use native_stack::StackError;

/// The command ran, and the answer is no: a difference, a record that is not there.
pub(crate) const NEGATIVE: u8 = 1;
const USAGE: u8 = 2;
const UNREACHABLE: u8 = 4;
const TIMEOUT: u8 = 5;

/// A failure whose kind decides the exit code.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// What was asked for is impossible as asked.
    #[error("{0}")]
    Usage(String),
    /// Somebody does not answer.
    #[error("{0}")]
    Unreachable(String),
    /// Somebody did not answer in time.
    #[error("{0}")]
    Timeout(String),
    /// A service answered with a problem.
    #[error("{0}")]
    Refused(String),
}

/// Says in one line why the command failed, and gives the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        eprintln!("tidemark: {error:#}");
        return ExitCode::from(match failure {
            Failure::Usage(_) => USAGE,
            Failure::Unreachable(_) => UNREACHABLE,
            Failure::Timeout(_) => TIMEOUT,
            Failure::Refused(_) => NEGATIVE,
        });
    }
    if error.is::<event_log::KafkaFault>() || error.is::<unread_store::UnreadError>() {
        eprintln!("tidemark: {error:#}");
        return ExitCode::from(UNREACHABLE);
    }
    if let Some(message_store::StoreError::Transient(_)) = error.downcast_ref() {
        eprintln!("tidemark: {error:#}");
        return ExitCode::from(UNREACHABLE);
    }
    if error.is::<StackError>() {
        eprintln!("tidemark: {error:#}");
        return ExitCode::from(service_runtime::ConfigError::EXIT_CODE);
    }
    service_runtime::report("tidemark", error)
}
