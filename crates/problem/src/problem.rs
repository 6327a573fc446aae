//! The problem itself: plain data, with a constructor for each way to refuse.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ProblemKind;

/// One refusal, in the shape of RFC 9457 plus the extensions that the crate's page names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct Problem {
    /// Stable URI reference of what sort of problem this is.
    #[serde(rename = "type")]
    #[schema(value_type = String, example = "/problems/invalid-field")]
    pub kind: ProblemKind,
    /// The same words for every problem of this type.
    pub title: String,
    /// The HTTP status, repeated so that a problem is complete on a line of NDJSON.
    pub status: u16,
    /// What went wrong this time and what would be right.
    pub detail: String,
    /// The fields at fault, where fields are at fault.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// Seconds to wait before trying again, where trying again makes sense.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u64>,
    /// The id to repeat a message with, where the outcome is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_msg_id: Option<String>,
    /// The id to repeat any other command with, where the outcome is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_id: Option<String>,
}

/// One field at fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldError {
    /// The field's path as the caller wrote it: `srcid`, `message.msg`, `items[3].mid`.
    pub field: String,
    /// What was wrong and what is right: "is 0; must be …".
    pub message: String,
}

impl Problem {
    /// A problem of this kind with these words; the constructors below are easier to get right.
    pub fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            title: kind.title().to_owned(),
            status: kind.status().as_u16(),
            detail: detail.into(),
            errors: Vec::new(),
            retry_after_s: None,
            client_msg_id: None,
            command_id: None,
        }
    }

    /// 400: `wrong` completes "*field* …" ("is 0", "is missing"), `right` completes "must be …".
    pub fn invalid_field(
        field: impl Into<String>,
        wrong: impl fmt::Display,
        right: impl fmt::Display,
    ) -> Self {
        Self::invalid_fields(vec![FieldError::new(field, wrong, right)])
    }

    /// 400 for several fields at once; `detail` repeats them all.
    pub fn invalid_fields(errors: Vec<FieldError>) -> Self {
        Self::of_fields(ProblemKind::InvalidField, errors)
    }

    fn of_fields(kind: ProblemKind, errors: Vec<FieldError>) -> Self {
        let sentences: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Self {
            errors,
            ..Self::new(kind, sentences.join(". "))
        }
    }

    /// The same problem for the fields of the member `parent`: `msg` becomes `message.msg`. A problem without fields is unchanged.
    #[must_use]
    pub fn within(self, parent: &str) -> Self {
        if self.errors.is_empty() {
            return self;
        }
        let errors = self.errors.into_iter().map(|error| FieldError {
            field: format!("{parent}.{}", error.field),
            ..error
        });
        Self::of_fields(self.kind, errors.collect())
    }

    /// 400: not JSON at all; `why` says where the text stops being JSON.
    pub fn invalid_json(why: impl fmt::Display) -> Self {
        Self::new(
            ProblemKind::InvalidJson,
            format!("the body is not valid JSON: {why}"),
        )
    }

    /// 400: the bytes are not the named protobuf `message`.
    pub fn invalid_protobuf(message: &str, why: impl fmt::Display) -> Self {
        Self::new(
            ProblemKind::InvalidProtobuf,
            format!("the body does not decode as {message}: {why}"),
        )
    }

    /// 401: `detail` says what is wrong with the caller's token or key.
    pub fn unauthenticated(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::Unauthenticated, detail)
    }

    /// 403: `detail` says what the caller may not do, and which callers may.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::Forbidden, detail)
    }

    /// 403 because of one field: `wrong` and `right` as in [`Problem::invalid_field`].
    pub fn forbidden_field(
        field: impl Into<String>,
        wrong: impl fmt::Display,
        right: impl fmt::Display,
    ) -> Self {
        Self::of_fields(
            ProblemKind::Forbidden,
            vec![FieldError::new(field, wrong, right)],
        )
    }

    /// 422: `field` asks for something that cannot be done.
    pub fn unprocessable_field(
        field: impl Into<String>,
        wrong: impl fmt::Display,
        right: impl fmt::Display,
    ) -> Self {
        Self::of_fields(
            ProblemKind::Unprocessable,
            vec![FieldError::new(field, wrong, right)],
        )
    }

    /// 404: `what` completes "… was not found".
    pub fn not_found(what: impl fmt::Display) -> Self {
        Self::new(ProblemKind::NotFound, format!("{what} was not found"))
    }

    /// 405: the `Allow` header of the response names the methods that exist.
    pub fn method_not_allowed(method: impl fmt::Display) -> Self {
        Self::new(
            ProblemKind::MethodNotAllowed,
            format!("{method} is not a method of this path; the Allow header lists those that are"),
        )
    }

    /// 408: `detail` says what did not arrive, and in what time.
    pub fn request_timeout(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::RequestTimeout, detail)
    }

    /// 413: larger than `limit_bytes`.
    pub fn payload_too_large(limit_bytes: u64) -> Self {
        Self::new(
            ProblemKind::PayloadTooLarge,
            format!("larger than the limit of {limit_bytes} bytes"),
        )
    }

    /// 415: `got` is the request's media type if it named one, `supported` what this call reads.
    pub fn unsupported_media_type(got: Option<&str>, supported: &str) -> Self {
        let got = got.unwrap_or("missing");
        Self::new(
            ProblemKind::UnsupportedMediaType,
            format!("content-type is {got}; must be {supported}"),
        )
    }

    /// 431: request line and headers have `bytes` bytes, more than `limit_bytes`.
    pub fn headers_too_large(bytes: usize, limit_bytes: usize) -> Self {
        Self::new(
            ProblemKind::HeadersTooLarge,
            format!("request line and headers have {bytes} bytes; must be {limit_bytes} at most"),
        )
    }

    /// 431: there are `count` headers, more than `limit`.
    pub fn too_many_headers(count: usize, limit: usize) -> Self {
        Self::new(
            ProblemKind::HeadersTooLarge,
            format!("the request has {count} headers; must have {limit} at most"),
        )
    }

    /// 503: the service has the most connections that it takes; nothing was done.
    pub fn too_many_connections(limit: usize) -> Self {
        Self::new(
            ProblemKind::Unavailable,
            format!(
                "the service has {limit} connections open and takes no more; nothing was done, try again later"
            ),
        )
        .with_retry_after_s(1)
    }

    /// 429: nothing was done; try again after this many seconds.
    pub fn too_many_requests(retry_after_s: u64) -> Self {
        Self::new(
            ProblemKind::TooManyRequests,
            "the service has as much work in progress as it takes on; nothing was done, try again later",
        )
        .with_retry_after_s(retry_after_s)
    }

    /// 429: this caller has as much in progress as one caller may have; nothing was done; try again after this many seconds.
    pub fn own_share_in_use(retry_after_s: u64) -> Self {
        Self::new(
            ProblemKind::TooManyRequests,
            "this caller has as much work in progress as one caller may; nothing was done, try again later",
        )
        .with_retry_after_s(retry_after_s)
    }

    /// 429: the caller has reached its limit of `of` (requests, events) a second; nothing was done.
    pub fn rate_limited(of: &str, retry_after_s: u64) -> Self {
        Self::new(
            ProblemKind::RateLimited,
            format!(
                "more {of} a second than this caller may send; nothing was done, try again later"
            ),
        )
        .with_retry_after_s(retry_after_s)
    }

    /// 503: nothing was done; `detail` says what is down, in words for the caller.
    pub fn unavailable(detail: impl Into<String>, retry_after_s: u64) -> Self {
        Self::new(ProblemKind::Unavailable, detail).with_retry_after_s(retry_after_s)
    }

    /// 503: the event may or may not be on the log; `advice` completes "unknown: …" and says what is safe to do. `client_msg_id` is returned if the
    /// caller may not know it.
    pub fn unknown_outcome(advice: &str, client_msg_id: Option<String>) -> Self {
        Self {
            client_msg_id,
            ..Self::new(ProblemKind::UnknownOutcome, format!("unknown: {advice}"))
        }
    }

    /// 504: `detail` says what the call waited for, and for how long.
    pub fn timeout(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::Timeout, detail)
    }

    /// 500: tells the caller nothing about the cause; the log line with the request's id does.
    pub fn internal() -> Self {
        Self::new(
            ProblemKind::Internal,
            "the server failed; its log has the cause under the id in the x-request-id header",
        )
    }

    /// Says when to try again, as a member and as the `Retry-After` header.
    #[must_use]
    pub fn with_retry_after_s(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }
}

impl FieldError {
    /// `wrong` completes "*field* …", `right` completes "must be …".
    pub fn new(
        field: impl Into<String>,
        wrong: impl fmt::Display,
        right: impl fmt::Display,
    ) -> Self {
        Self {
            field: field.into(),
            message: format!("{wrong}; must be {right}"),
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.field, self.message)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.status, self.title, self.detail)
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_problem_names_the_field_the_fault_and_the_remedy() {
        let problem = Problem::invalid_field("srcid", "is 0", "1 or more");
        let wire = serde_json::to_value(&problem).unwrap();
        assert_eq!(
            wire,
            json!({
                "type": "/problems/invalid-field",
                "title": "A field is not valid",
                "status": 400,
                "detail": "srcid is 0; must be 1 or more",
                "errors": [{"field": "srcid", "message": "is 0; must be 1 or more"}],
            })
        );
        assert_eq!(serde_json::from_value::<Problem>(wire).unwrap(), problem);
    }

    #[test]
    fn an_unknown_outcome_hands_back_the_id_to_retry_with() {
        let advice = "retry with the same client_msg_id";
        let problem = Problem::unknown_outcome(advice, Some("m-1".to_owned()));
        let wire = serde_json::to_value(problem.with_retry_after_s(2)).unwrap();
        assert_eq!(
            wire,
            json!({
                "type": "/problems/unknown-outcome",
                "title": "The outcome is unknown",
                "status": 503,
                "detail": "unknown: retry with the same client_msg_id",
                "retry_after_s": 2,
                "client_msg_id": "m-1",
            })
        );
    }
}
