//! Extractors that behave as axum's of the same names, but refuse with a [`Problem`].

use axum::body::Bytes;
use axum::extract::path::ErrorKind;
use axum::extract::rejection::{BytesRejection, FailedToBufferBody, PathRejection};
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::{HeaderMap, header, request::Parts};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Problem, ProblemKind, json, serde_words};

/// A JSON body in either direction. Wants `application/json` (or `+json`); honours axum's `DefaultBodyLimit`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Json<T>(pub T);

/// The parameters of the matched path: a struct with their names, or the type of the only one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Path<T>(pub T);

/// The query string. A key that may be repeated is a `Vec` with `#[serde(default)]`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        require_json(request.headers())?;
        let body = Bytes::from_request(request, state)
            .await
            .map_err(|rejection| body_problem(&rejection))?;
        json::from_slice(&body).map(Self)
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(value)) => Ok(Self(value)),
            Err(rejection) => Err(path_problem(rejection, &parameter_names(parts).await)),
        }
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let query = parts.uri.query().unwrap_or_default();
        let deserializer = serde_html_form::Deserializer::from_bytes(query.as_bytes());
        serde_path_to_error::deserialize(deserializer)
            .map(Self)
            .map_err(|error| serde_words::field_problem(error.path(), &error.inner().to_string()))
    }
}

fn require_json(headers: &HeaderMap) -> Result<(), Problem> {
    let got = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = got
        .and_then(|value| value.split(';').next())
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let is_json = essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"));
    if is_json {
        Ok(())
    } else {
        Err(Problem::unsupported_media_type(got, "application/json"))
    }
}

fn body_problem(rejection: &BytesRejection) -> Problem {
    match rejection {
        BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)) => {
            Problem::new(
                ProblemKind::PayloadTooLarge,
                "the body is larger than this call takes",
            )
        }
        _ => Problem::new(
            ProblemKind::InvalidJson,
            "the body ended before it was complete",
        ),
    }
}

/// The names of the matched path's parameters, in the order of the path.
async fn parameter_names(parts: &mut Parts) -> Vec<String> {
    match RawPathParams::from_request_parts(parts, &()).await {
        Ok(parameters) => parameters.iter().map(|(name, _)| name.to_owned()).collect(),
        Err(_) => Vec::new(),
    }
}

fn path_problem(rejection: PathRejection, names: &[String]) -> Problem {
    let PathRejection::FailedToDeserializePathParams(error) = rejection else {
        // The route has no parameters: a handler's defect, not the caller's.
        return Problem::internal();
    };
    match error.into_kind() {
        ErrorKind::ParseErrorAtKey {
            key,
            value,
            expected_type,
        } => Problem::invalid_field(key, format_args!("is {value:?}"), of_type(expected_type)),
        ErrorKind::ParseErrorAtIndex {
            index,
            value,
            expected_type,
        } => Problem::invalid_field(
            names.get(index).map_or("path", String::as_str),
            format_args!("is {value:?}"),
            of_type(expected_type),
        ),
        ErrorKind::ParseError {
            value,
            expected_type,
        } => Problem::invalid_field(
            sole(names),
            format_args!("is {value:?}"),
            of_type(expected_type),
        ),
        ErrorKind::DeserializeError { key, message, .. } => {
            serde_words::complaint_problem(key, &message)
        }
        ErrorKind::InvalidUtf8InPathParam { key } => {
            Problem::invalid_field(key, "is not UTF-8", "percent-encoded UTF-8")
        }
        other => serde_words::complaint_problem(sole(names), &other.to_string()),
    }
}

/// The parameter at fault where axum names none: clear only if there is just one.
fn sole(names: &[String]) -> &str {
    match names {
        [name] => name,
        _ => "path",
    }
}

/// Rust's name of a type, in words for a caller.
fn of_type(name: &'static str) -> &'static str {
    match name {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more, in range",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number in range",
        "bool" => "true or false",
        other => other,
    }
}
