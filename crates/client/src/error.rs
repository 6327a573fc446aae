use std::fmt;

use reqwest::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Why a call failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No response within the client's timeout. Whether the call was carried out is not known.
    #[error("{url} did not answer in time")]
    Timeout {
        /// What was called.
        url: String,
    },
    /// No connection, or it broke before the response began. Whether the call was carried out is not known.
    #[error("{url} cannot be reached ({cause})")]
    Unreachable {
        /// What was called.
        url: String,
        /// The error of the network or of TLS.
        cause: String,
    },
    /// The response began and was not received whole. Whether the call was carried out is not known.
    #[error("the response of {url} broke off ({cause})")]
    BrokenResponse {
        /// What was called.
        url: String,
        /// The error of the network.
        cause: String,
    },
    /// The service refused the call.
    #[error("{0}")]
    Problem(Box<Problem>),
    /// The response is not what this version of the client understands.
    #[error("the response of {url} cannot be read: {detail}")]
    InvalidResponse {
        /// What was called.
        url: String,
        /// What is wrong with it.
        detail: String,
    },
    /// A connection to a gateway has ended. After a code from 4100 to 4199 the device is not to come back as it is.
    #[error("{url} closed the connection with {code}: {reason}")]
    Closed {
        /// The gateway.
        url: String,
        /// The close code; 1006 if it sent none.
        code: u16,
        /// The reason that the gateway gave, or what else has happened.
        reason: String,
    },
    /// A gateway would refuse the field at each attempt.
    #[error("{} {}", .0.field, .0.message)]
    InvalidField(FieldError),
    /// The client cannot be built from these settings.
    #[error("{0}")]
    InvalidSettings(String),
}

impl ClientError {
    /// Whether the same call may succeed later: no connection, one that has ended with a code outside of 4100 to 4199, no whole response in time,
    /// 429, 503 and 504.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Timeout { .. } | Self::Unreachable { .. } | Self::BrokenResponse { .. } => true,
            Self::Problem(problem) => matches!(problem.status, 429 | 503 | 504),
            Self::Closed { code, .. } => !(4100..4200).contains(code),
            Self::InvalidResponse { .. } | Self::InvalidField(_) | Self::InvalidSettings(_) => {
                false
            }
        }
    }

    /// Whether a service said that it did nothing, and the same call may succeed later.
    pub(crate) fn did_nothing(&self) -> bool {
        // Other 503s and 504s may come from a proxy, which does not know.
        self.problem().is_some_and(|problem| {
            matches!(problem.status, 429 | 503)
                && problem.kind.starts_with("/problems/")
                && !problem.is_unknown_outcome()
        })
    }

    /// What the service said, if it answered.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem(problem) => Some(problem),
            _ => None,
        }
    }

    pub(crate) fn of_request(error: &reqwest::Error, url: &str) -> Self {
        let url = url.to_owned();
        if error.is_timeout() {
            return Self::Timeout { url };
        }
        let cause = root_cause(error);
        Self::Unreachable { url, cause }
    }

    pub(crate) fn of_response(error: &reqwest::Error, url: &str) -> Self {
        Self::BrokenResponse {
            url: url.to_owned(),
            cause: root_cause(error),
        }
    }

    pub(crate) fn invalid_field(field: &str, message: impl Into<String>) -> Self {
        let (field, message) = (field.to_owned(), message.into());
        Self::InvalidField(FieldError { field, message })
    }

    pub(crate) fn invalid_response(url: &str, detail: impl fmt::Display) -> Self {
        Self::InvalidResponse {
            url: url.to_owned(),
            detail: detail.to_string(),
        }
    }
}

fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// A refusal as the service wrote it (RFC 9457). Programs branch on `kind`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The member `type`: `/problems/unknown-outcome`, say. The description at `/openapi.json` lists them.
    #[serde(rename = "type")]
    pub kind: String,
    /// The same words for every problem of this kind.
    #[serde(default)]
    pub title: String,
    /// The HTTP status.
    #[serde(default)]
    pub status: u16,
    /// What went wrong this time, and what would be right.
    #[serde(default)]
    pub detail: String,
    /// The fields at fault.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// Seconds to wait before the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u64>,
    /// The id to repeat the call with, if its outcome is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_msg_id: Option<String>,
    /// Members that this version of the client does not know.
    #[serde(flatten)]
    pub extensions: Map<String, Value>,
}

/// A field at fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldError {
    /// Its path: `srcid`, `message.msg`.
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Problem {
    /// The `type` of a response that does not say whether the call was carried out.
    pub const UNKNOWN_OUTCOME: &str = "/problems/unknown-outcome";

    /// Whether the call may or may not have been carried out. Repeating it with the same id is safe.
    #[must_use]
    pub fn is_unknown_outcome(&self) -> bool {
        self.kind == Self::UNKNOWN_OUTCOME
    }

    /// The problem of a response: a body that is not problem+json, from a proxy say, becomes one of type `about:blank`.
    pub(crate) fn of_response(status: StatusCode, body: &str) -> Self {
        let problem: Option<Self> = serde_json::from_str(body).ok();
        let problem = problem.unwrap_or_else(|| Self {
            kind: "about:blank".to_owned(),
            title: String::new(),
            status: 0,
            detail: body.chars().take(200).collect(),
            errors: vec![],
            retry_after_s: None,
            client_msg_id: None,
            extensions: Map::new(),
        });
        Self {
            status: status.as_u16(),
            ..problem
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match StatusCode::from_u16(self.status) {
            Ok(status) => write!(f, "{status}")?,
            Err(_) => write!(f, "{}", self.status)?,
        }
        for text in [&self.title, &self.detail] {
            if !text.is_empty() {
                write!(f, ": {text}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_printed_in_one_line() {
        let body = r#"{"type":"/problems/forbidden","title":"Not allowed","status":403,"detail":"srcid is not the caller"}"#;
        let problem = Problem::of_response(StatusCode::FORBIDDEN, body);
        let text = "403 Forbidden: Not allowed: srcid is not the caller";
        assert_eq!(problem.to_string(), text);
    }

    #[test]
    fn a_response_without_a_problem_keeps_its_status_and_text() {
        let problem = Problem::of_response(StatusCode::BAD_GATEWAY, "<html>");
        assert_eq!((problem.status, &*problem.kind), (502, "about:blank"));
        assert_eq!(problem.to_string(), "502 Bad Gateway: <html>");
    }

    #[test]
    fn what_may_succeed_later_is_retryable() {
        for (status, retryable) in [(400, false), (429, true), (500, false), (503, true)] {
            let status = StatusCode::from_u16(status).unwrap();
            let problem = Problem::of_response(status, "");
            let error = ClientError::Problem(Box::new(problem));
            assert_eq!(error.is_retryable(), retryable, "{status}");
        }
    }
}
