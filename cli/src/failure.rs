//! How a command fails, and its exit code.

use std::process::ExitCode;

use audit::AuditError;
use client::ClientError;
use dev_stack::StackError;
use event_log::EventLogError;
use export::ExportError;
use message_store::StoreError;
use projection::SinkError;
use rebuild::RebuildError;
use sequencer::LoadFault;
use service_runtime::{ConfigError, WorkerFailed, with_causes};
use unread_rebuild::UnreadRebuildError;
use unread_store::UnreadError;

/// Shown in the help.
pub(crate) const EXIT_CODES: &str = "\
Exit codes: 0 success, 1 difference or negative answer, 2 usage, 3 configuration, 4 unreachable, 5 timeout, 130 interrupted, 141 output closed early";

/// The command ran and the answer is negative: a difference, or a record that does not exist.
pub(crate) const NEGATIVE: u8 = 1;
const USAGE: u8 = 2;
const CONFIG: u8 = ConfigError::EXIT_CODE;
const UNREACHABLE: u8 = 4;
const TIMEOUT: u8 = 5;

/// A failure whose kind decides the exit code.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The arguments are wrong or cannot be carried out.
    #[error("{0}")]
    Usage(String),
    /// A server or service cannot be reached.
    #[error("{0}")]
    Unreachable(String),
    /// A server or service did not answer in time.
    #[error("{0}")]
    Timeout(String),
    /// The topics or tables that the command needs were never created, or have other names.
    #[error("{0}")]
    NotSetUp(String),
    /// The requested item does not exist.
    #[error("{0}")]
    NotFound(String),
}

/// The exit code of a command that ran.
pub(crate) fn code_of_answer(is_positive: bool) -> ExitCode {
    ExitCode::from(if is_positive { 0 } else { NEGATIVE })
}

/// Prints why the command failed, unless it is logged already, and returns the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if !error.is::<WorkerFailed>() {
        eprintln!("tidemark: {}", text(error));
    }
    ExitCode::from(code(error))
}

/// The error, its causes, and a remedy if one is known.
pub(crate) fn text(error: &anyhow::Error) -> String {
    let hint = error.downcast_ref().map_or("", hint);
    format!("{}{hint}", with_causes(error))
}

fn hint(error: &ClientError) -> &'static str {
    match error {
        ClientError::Unreachable { cause, .. } if cause.contains("certificate") => {
            "; client.tls_ca names who may sign its certificate"
        }
        ClientError::Unreachable { .. } => "; `make up` starts the local stack",
        ClientError::Problem(problem) if problem.status == 401 => {
            " (commands take it from --token-file or TIDEMARK_TOKEN)"
        }
        _ => "",
    }
}

fn code(error: &anyhow::Error) -> u8 {
    let of_kafka = |_: &EventLogError| UNREACHABLE;
    (error.downcast_ref().map(of_failure))
        .or_else(|| error.downcast_ref().map(of_client))
        .or_else(|| error.downcast_ref().map(of_audit))
        .or_else(|| error.downcast_ref().map(of_rebuild))
        .or_else(|| error.downcast_ref().map(of_export))
        .or_else(|| error.downcast_ref().map(of_kafka))
        .or_else(|| error.downcast_ref().map(of_load))
        .or_else(|| error.downcast_ref().map(of_redis))
        .or_else(|| error.downcast_ref().map(of_mysql))
        .or_else(|| error.downcast_ref().map(of_stack))
        .unwrap_or_else(|| service_runtime::exit_code(error))
}

fn of_load(fault: &LoadFault) -> u8 {
    match fault {
        LoadFault::Kafka(_) => UNREACHABLE,
        LoadFault::Refused(_) => NEGATIVE,
    }
}

fn of_failure(failure: &Failure) -> u8 {
    match failure {
        Failure::Usage(_) => USAGE,
        Failure::Unreachable(_) => UNREACHABLE,
        Failure::Timeout(_) => TIMEOUT,
        Failure::NotSetUp(_) => CONFIG,
        Failure::NotFound(_) => NEGATIVE,
    }
}

fn of_client(error: &ClientError) -> u8 {
    match error {
        ClientError::Unreachable { .. } => UNREACHABLE,
        ClientError::Timeout { .. } => TIMEOUT,
        ClientError::Problem(problem) => match problem.status {
            503 => UNREACHABLE,
            504 => TIMEOUT,
            _ => NEGATIVE,
        },
        _ => NEGATIVE,
    }
}

fn of_audit(error: &AuditError) -> u8 {
    match error {
        AuditError::Kafka(_) => UNREACHABLE,
        AuditError::UnknownRules { .. } => NEGATIVE,
        AuditError::MySql(error) => of_mysql(error),
        AuditError::Redis(error) => of_redis(error),
        AuditError::Behind { .. } => TIMEOUT,
    }
}

fn of_rebuild(error: &RebuildError) -> u8 {
    match error {
        RebuildError::Kafka(_) | RebuildError::Sink(SinkError::Transient(_)) => UNREACHABLE,
        RebuildError::Store(error) => of_mysql(error),
        RebuildError::Redis(error) => of_redis(error),
        RebuildError::Audit(error) => of_audit(error),
        RebuildError::Unread(UnreadRebuildError::Transient(_)) => UNREACHABLE,
        RebuildError::NotSwapped(_)
        | RebuildError::Unread(UnreadRebuildError::TimedOut | UnreadRebuildError::UnresolvedRead) => {
            TIMEOUT
        }
        _ => NEGATIVE,
    }
}

fn of_export(error: &ExportError) -> u8 {
    if error.is_unreachable() {
        UNREACHABLE
    } else {
        NEGATIVE
    }
}

fn of_redis(error: &UnreadError) -> u8 {
    match error {
        UnreadError::Transient(_) | UnreadError::Broken | UnreadError::NotReady => UNREACHABLE,
        UnreadError::PositionsMoved | UnreadError::Malformed { .. } => NEGATIVE,
        UnreadError::Url(_) | UnreadError::Tls(_) => CONFIG,
    }
}

fn of_mysql(error: &StoreError) -> u8 {
    match error {
        StoreError::Transient(_) => UNREACHABLE,
        denied if denied.is_denied() => CONFIG,
        StoreError::Moved { .. } | StoreError::Fatal(_) => NEGATIVE,
    }
}

fn of_stack(error: &StackError) -> u8 {
    match error {
        StackError::MissingPrograms { .. }
        | StackError::PortTaken { .. }
        | StackError::BadReadyUrl { .. }
        | StackError::RunDirOfOthers { .. }
        | StackError::UnknownProcess { .. }
        | StackError::UnknownServers { .. }
        | StackError::NoCacheDir => CONFIG,
        StackError::NotReady { .. } | StackError::Busy { .. } => TIMEOUT,
        _ => NEGATIVE,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};

    use super::*;

    fn malformed() -> UnreadError {
        UnreadError::Malformed {
            key: "state-1".to_owned(),
            detail: "no number".to_owned(),
        }
    }

    #[test]
    fn the_kind_decides_the_code_through_any_context() {
        let timeout = anyhow!(Failure::Timeout("late".to_owned()));
        assert_eq!(code(&timeout), TIMEOUT);
        let broken: Result<(), _> = Err(UnreadError::Broken);
        let broken = broken.context("reading the counts").unwrap_err();
        assert_eq!(code(&broken), UNREACHABLE);
        assert_eq!(code(&anyhow!("anything else")), NEGATIVE);
    }

    #[test]
    fn what_redis_holds_is_an_answer_and_not_its_absence() {
        assert_eq!(code(&malformed().into()), NEGATIVE);
        assert_eq!(code(&AuditError::Redis(malformed()).into()), NEGATIVE);
        assert_eq!(
            code(&AuditError::Redis(UnreadError::Broken).into()),
            UNREACHABLE
        );
        let url = UnreadError::Url("has no host".to_owned());
        assert_eq!(code(&url.into()), CONFIG);
    }

    #[test]
    fn a_server_that_dies_is_no_fault_of_the_configuration() {
        let taken = StackError::PortTaken {
            service: "kafka".to_owned(),
            port: 7392,
            holder: "pid 1 (init)".to_owned(),
        };
        assert_eq!(code(&taken.into()), CONFIG);
        let died = StackError::WouldNotDie {
            name: "kafka".to_owned(),
            pid: 1,
        };
        assert_eq!(code(&died.into()), NEGATIVE);
    }
}
