//! Which encoding a request's body has; its answer has the same.

use axum::http::{HeaderMap, HeaderName, header};
use problem::Problem;
use utoipa::ToSchema;

pub(crate) const NDJSON: &str = "application/x-ndjson";
pub(crate) const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";

/// What descriptions call a body in protobuf.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "it is only described")]
pub(crate) struct ProtobufBody(Vec<u8>);

/// The encoding of a single post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SingleEncoding {
    Json,
    Protobuf,
}

/// The encoding of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchEncoding {
    Ndjson,
    Protobuf,
}

impl SingleEncoding {
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        refuse_compressed(headers)?;
        refuse_other_charsets(headers)?;
        match essence(headers).as_str() {
            JSON => Ok(Self::Json),
            PROTOBUF => Ok(Self::Protobuf),
            _ => Err(unsupported(headers, &format!("{JSON} or {PROTOBUF}"))),
        }
    }
}

impl BatchEncoding {
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        refuse_compressed(headers)?;
        refuse_other_charsets(headers)?;
        match essence(headers).as_str() {
            NDJSON => Ok(Self::Ndjson),
            PROTOBUF => Ok(Self::Protobuf),
            _ => Err(unsupported(headers, &format!("{NDJSON} or {PROTOBUF}"))),
        }
    }

    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Ndjson => NDJSON,
            Self::Protobuf => PROTOBUF,
        }
    }
}

/// The media type without its parameters.
fn essence(headers: &HeaderMap) -> String {
    let value = text(headers, header::CONTENT_TYPE).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

fn unsupported(headers: &HeaderMap, supported: &str) -> Problem {
    Problem::unsupported_media_type(text(headers, header::CONTENT_TYPE), supported)
}

/// The header is a list, which may be on several lines.
fn refuse_compressed(headers: &HeaderMap) -> Result<(), Problem> {
    let lines = headers.get_all(header::CONTENT_ENCODING).iter();
    let mut codings = lines
        .flat_map(|line| line.to_str().unwrap_or("unreadable").split(','))
        .map(str::trim)
        .filter(|coding| !coding.is_empty());
    match codings.find(|coding| !coding.eq_ignore_ascii_case("identity")) {
        None => Ok(()),
        Some(coding) => Err(Problem::new(
            problem::ProblemKind::UnsupportedMediaType,
            format!("content-encoding is {coding}; must be absent: bodies are not decompressed"),
        )),
    }
}

fn refuse_other_charsets(headers: &HeaderMap) -> Result<(), Problem> {
    let value = text(headers, header::CONTENT_TYPE).unwrap_or_default();
    let charset = value.split(';').skip(1).find_map(|parameter| {
        let (name, charset) = parameter.split_once('=')?;
        let is_charset = name.trim().eq_ignore_ascii_case("charset");
        is_charset.then(|| charset.trim().trim_matches('"'))
    });
    match charset {
        Some(other) if !other.eq_ignore_ascii_case("utf-8") => Err(Problem::new(
            problem::ProblemKind::UnsupportedMediaType,
            format!("the charset of content-type is {other}; must be utf-8 or absent"),
        )),
        _ => Ok(()),
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    fn content_type(value: &'static str) -> HeaderMap {
        with(header::CONTENT_TYPE, value)
    }

    #[test]
    fn parameters_and_case_do_not_matter() {
        let headers = content_type("Application/JSON; charset=utf-8");
        assert_eq!(SingleEncoding::of(&headers).unwrap(), SingleEncoding::Json);
        let headers = content_type("application/x-ndjson;charset=utf-8");
        assert_eq!(BatchEncoding::of(&headers).unwrap(), BatchEncoding::Ndjson);
    }

    #[test]
    fn the_right_types_are_named() {
        let problem = BatchEncoding::of(&content_type("application/json")).unwrap_err();
        assert_eq!(
            problem.detail,
            "content-type is application/json; must be application/x-ndjson or application/x-protobuf"
        );
        assert!(SingleEncoding::of(&HeaderMap::new()).is_err());
    }

    #[test]
    fn texts_are_utf8() {
        let headers = content_type("application/json; charset=\"UTF-8\"");
        assert!(SingleEncoding::of(&headers).is_ok());
        let problem = SingleEncoding::of(&content_type("application/json; charset=latin1"));
        let problem = problem.unwrap_err();
        assert!(
            problem.detail.contains("is latin1; must be utf-8"),
            "{problem}"
        );
    }

    #[test]
    fn compressed_bodies_are_refused() {
        let mut headers = content_type(JSON);
        headers.extend(with(header::CONTENT_ENCODING, "gzip"));
        let problem = SingleEncoding::of(&headers).unwrap_err();
        assert!(
            problem.detail.contains("content-encoding is gzip"),
            "{problem}"
        );
        for (lines, is_refused) in [
            (&["identity", "gzip"][..], true),
            (&["Identity , br"], true),
            (&["identity", "", "IDENTITY"], false),
        ] {
            let mut headers = content_type(JSON);
            for line in lines {
                headers.append(header::CONTENT_ENCODING, line.parse().unwrap());
            }
            let encoding = SingleEncoding::of(&headers);
            assert_eq!(encoding.is_err(), is_refused, "{lines:?}");
        }
    }
}
