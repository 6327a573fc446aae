use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rdkafka::{
    ClientContext,
    config::RDKafkaLogLevel,
    consumer::ConsumerContext,
    error::{KafkaError, RDKafkaErrorCode},
};

/// Logs librdkafka's errors under the client's name, for operators. Callers get theirs from their calls.
pub(crate) struct NamedContext(pub(crate) &'static str);

impl ClientContext for NamedContext {
    fn error(&self, error: KafkaError, reason: &str) {
        report(self.0, &error, reason);
    }

    fn log(&self, level: RDKafkaLogLevel, _facility: &str, message: &str) {
        log(self.0, level, message);
    }
}

impl ConsumerContext for NamedContext {}

/// Logs an error that librdkafka reports outside of calls.
pub(crate) fn report(client: &str, error: &KafkaError, reason: &str) {
    match error {
        // The end of a partition is not an error.
        KafkaError::PartitionEOF(_) => {}
        KafkaError::Global(RDKafkaErrorCode::PartitionEOF) => {}
        _ => tracing::warn!(client, %error, reason, hint = hint(error), "Kafka"),
    }
}

/// A warning of librdkafka at every start about a setting that we need (ADR 3).
const EXPECTED: &str = "enable.gapless.guarantee is experimental";

/// Takes a line of librdkafka's log. Only the log says why a broker refused a client; the calls time out.
pub(crate) fn log(client: &str, level: RDKafkaLogLevel, message: &str) {
    if let Some(hint) = refusal_hint(message) {
        *REFUSAL.lock() = Some((Instant::now(), hint));
    }
    match level {
        _ if message.contains(EXPECTED) => tracing::debug!(client, "librdkafka: {message}"),
        RDKafkaLogLevel::Emerg
        | RDKafkaLogLevel::Alert
        | RDKafkaLogLevel::Critical
        | RDKafkaLogLevel::Error => {
            tracing::error!(
                client,
                hint = refusal_hint(message),
                "librdkafka: {message}"
            );
        }
        RDKafkaLogLevel::Warning => tracing::warn!(client, "librdkafka: {message}"),
        RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
            tracing::info!(client, "librdkafka: {message}");
        }
        RDKafkaLogLevel::Debug => tracing::debug!(client, "librdkafka: {message}"),
    }
}

/// A level as syslog numbers them.
pub(crate) fn level(number: i32) -> RDKafkaLogLevel {
    match number {
        ..=3 => RDKafkaLogLevel::Error,
        4 => RDKafkaLogLevel::Warning,
        5 | 6 => RDKafkaLogLevel::Info,
        _ => RDKafkaLogLevel::Debug,
    }
}

/// The setting that may be wrong, judging by the error and by recent refusals.
pub(crate) fn hint(error: &KafkaError) -> Option<&'static str> {
    use RDKafkaErrorCode as Code;
    let code = match error {
        KafkaError::AdminOp(code) => *code,
        other => other.rdkafka_error_code()?,
    };
    match code {
        Code::TopicAuthorizationFailed
        | Code::GroupAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::TransactionalIdAuthorizationFailed => Some(MISSING_ACL),
        Code::SaslAuthenticationFailed | Code::Authentication => Some(WRONG_USER),
        // librdkafka does not say who closed a connection, or why.
        Code::BrokerTransportFailure => Some(recent_refusal().unwrap_or(DISCONNECTED)),
        Code::SSL
        | Code::AllBrokersDown
        | Code::OperationTimedOut
        | Code::MessageTimedOut
        | Code::RequestTimedOut
        | Code::Resolve => recent_refusal(),
        _ => None,
    }
}

/// The error with [`hint`].
pub(crate) fn explained(error: &KafkaError) -> String {
    format!("{error}{}", in_brackets(hint(error)))
}

pub(crate) fn in_brackets(hint: Option<&str>) -> String {
    hint.map(|hint| format!(" ({hint})")).unwrap_or_default()
}

const MISSING_ACL: &str =
    "the user of kafka.username lacks an ACL; docs/SECURITY.md has those that each service needs";
const WRONG_USER: &str =
    "the broker refuses kafka.username with kafka.password, or kafka.sasl_mechanism";
const WRONG_AUTHORITY: &str = "no authority of kafka.tls_ca has signed the broker's certificate, or it is for another \
     name than the one in kafka.brokers";
const WRONG_PROTOCOL: &str =
    "the broker expects another kafka.security_protocol, or a client's kafka.tls_cert";

const DISCONNECTED: &str =
    "nobody is there, or a broker hangs up that expects another kafka.security_protocol";

/// Longer than librdkafka waits between two messages of the same kind.
const RECENT: Duration = Duration::from_secs(60);

/// The last refusal of a client of this process: all clients have the same settings.
static REFUSAL: Mutex<Option<(Instant, &str)>> = Mutex::new(None);

fn recent_refusal() -> Option<&'static str> {
    let (when, hint) = (*REFUSAL.lock())?;
    (when.elapsed() < RECENT).then_some(hint)
}

fn refusal_hint(message: &str) -> Option<&'static str> {
    if message.contains("certificate verify failed") || message.contains("broker certificate") {
        Some(WRONG_AUTHORITY)
    } else if message.contains("SSL handshake failed") || message.contains("security.protocol") {
        Some(WRONG_PROTOCOL)
    } else if message.contains("SASL") && message.contains("authentication") {
        Some(WRONG_USER)
    } else {
        None
    }
}
