//! The closed list of problem types: one stable URI reference, one title and one status each.

use std::fmt;

use axum::http::StatusCode;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Declares [`ProblemKind`] from one row for each kind: its name, its `type`, its `title` and its status.
macro_rules! problem_kinds {
    ($($(#[$doc:meta])* $kind:ident = $uri:literal, $title:literal, $status:ident;)*) => {
        /// The kind of a problem. Callers branch on it (on the wire: on `type`), never on words.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ProblemKind {
            $($(#[$doc])* $kind,)*
        }

        impl ProblemKind {
            /// All kinds.
            pub const ALL: [Self; [$($uri),*].len()] = [$(Self::$kind),*];

            fn row(self) -> (&'static str, &'static str, StatusCode) {
                match self {
                    $(Self::$kind => ($uri, $title, StatusCode::$status),)*
                }
            }
        }
    };
}

problem_kinds! {
    /// 400: a field of the body, the path or the query breaks a rule.
    InvalidField = "/problems/invalid-field", "A field is not valid", BAD_REQUEST;
    /// 400: the body, or the line, is not JSON.
    InvalidJson = "/problems/invalid-json", "Not valid JSON", BAD_REQUEST;
    /// 400: the body is not the protobuf message that it should be.
    InvalidProtobuf = "/problems/invalid-protobuf", "Not a valid protobuf message", BAD_REQUEST;
    /// 401: the request does not say who calls, or says it with an invalid token or key.
    Unauthenticated = "/problems/unauthenticated", "Not authenticated", UNAUTHORIZED;
    /// 403: the caller is known, and may not do this.
    Forbidden = "/problems/forbidden", "Not allowed", FORBIDDEN;
    /// 404: it does not exist.
    NotFound = "/problems/not-found", "Not found", NOT_FOUND;
    /// 405: the path exists, the method does not.
    MethodNotAllowed = "/problems/method-not-allowed", "Method not allowed", METHOD_NOT_ALLOWED;
    /// 408: the request did not arrive in time.
    RequestTimeout = "/problems/request-timeout", "The request did not arrive in time", REQUEST_TIMEOUT;
    /// 413: the body, or one line of it, is larger than the limit.
    PayloadTooLarge = "/problems/payload-too-large", "Too large", PAYLOAD_TOO_LARGE;
    /// 415: this call does not read the media type.
    UnsupportedMediaType = "/problems/unsupported-media-type", "Unsupported media type", UNSUPPORTED_MEDIA_TYPE;
    /// 422: a field is valid, but asks for something that cannot be done.
    Unprocessable = "/problems/unprocessable-field", "A field asks for what cannot be done", UNPROCESSABLE_ENTITY;
    /// 426: the call is a WebSocket.
    UpgradeRequired = "/problems/upgrade-required", "A WebSocket is required", UPGRADE_REQUIRED;
    /// 429: the limit on work in progress is reached; nothing was done.
    TooManyRequests = "/problems/too-many-requests", "Too many requests", TOO_MANY_REQUESTS;
    /// 429: the caller asks for more than it may at a time; nothing was done.
    RateLimited = "/problems/rate-limited", "The caller's rate limit is reached", TOO_MANY_REQUESTS;
    /// 431: request line and headers are larger than the limit.
    HeadersTooLarge = "/problems/headers-too-large", "Request line and headers too large", REQUEST_HEADER_FIELDS_TOO_LARGE;
    /// 500: a defect of the server.
    Internal = "/problems/internal", "The server failed", INTERNAL_SERVER_ERROR;
    /// 503: a component that this call needs is down; nothing was done.
    Unavailable = "/problems/unavailable", "Temporarily unavailable", SERVICE_UNAVAILABLE;
    /// 503: the call may or may not have been carried out; repeating it with the same id is safe.
    UnknownOutcome = "/problems/unknown-outcome", "The outcome is unknown", SERVICE_UNAVAILABLE;
    /// 504: the answer did not become available in time.
    Timeout = "/problems/timeout", "The answer did not arrive in time", GATEWAY_TIMEOUT;
}

impl ProblemKind {
    /// The `type` member: a URI reference, relative to the service that answered.
    pub fn uri(self) -> &'static str {
        self.row().0
    }

    /// The last part of the URI.
    pub fn name(self) -> &'static str {
        let uri = self.uri();
        uri.strip_prefix("/problems/").unwrap_or(uri)
    }

    /// The `title` member: the same words for every problem of this kind.
    pub fn title(self) -> &'static str {
        self.row().1
    }

    /// The HTTP status that goes with this kind.
    pub fn status(self) -> StatusCode {
        self.row().2
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.uri())
    }
}

impl Serialize for ProblemKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.uri())
    }
}

impl<'de> Deserialize<'de> for ProblemKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let uri = String::deserialize(deserializer)?;
        let kind = Self::ALL.into_iter().find(|kind| kind.uri() == uri);
        kind.ok_or_else(|| {
            de::Error::custom(format_args!("{uri:?} is not a problem type of Tidemark"))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_has_a_uri_of_its_own_that_reads_back() {
        let uris: BTreeSet<_> = ProblemKind::ALL.map(ProblemKind::uri).into();
        assert_eq!(uris.len(), ProblemKind::ALL.len());
        for kind in ProblemKind::ALL {
            let uri = serde_json::to_value(kind).unwrap();
            assert_eq!(serde_json::from_value::<ProblemKind>(uri).unwrap(), kind);
            assert!(kind.status().is_client_error() || kind.status().is_server_error());
        }
        assert!(serde_json::from_str::<ProblemKind>(r#""/problems/nonsense""#).is_err());
    }
}
