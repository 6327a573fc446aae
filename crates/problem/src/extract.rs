//! Extractors that behave as axum's of the same names, but refuse with a [`Problem`].

use axum::extract::path::ErrorKind;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::{Problem, serde_words, serde_words::plain};

/// The parameters of the matched path: a struct with their names, or the type of the only one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Path<T>(pub T);

/// The query string. A key that may be repeated is a `Vec` with `#[serde(default)]`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Query<T>(pub T);

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
            .map_err(|error| {
                let complaint = error.inner().to_string();
                // A parameter that takes one value was given twice; the message comes from a visitor of our own types.
                let complaint = match complaint.starts_with("invalid type: sequence") {
                    true => "unsupported value".to_owned(),
                    false => complaint,
                };
                serde_words::field_problem(error.path(), &complaint)
            })
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
        } => Problem::invalid_field(key, format_args!("is {value:?}"), plain(expected_type)),
        ErrorKind::ParseErrorAtIndex {
            index,
            value,
            expected_type,
        } => Problem::invalid_field(
            names.get(index).map_or("path", String::as_str),
            format_args!("is {value:?}"),
            plain(expected_type),
        ),
        ErrorKind::ParseError {
            value,
            expected_type,
        } => Problem::invalid_field(
            sole(names),
            format_args!("is {value:?}"),
            plain(expected_type),
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

/// The wrong parameter, if axum names none: it is clear only if there is just one.
fn sole(names: &[String]) -> &str {
    match names {
        [name] => name,
        _ => "path",
    }
}
