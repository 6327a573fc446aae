//! Reading JSON so that a refusal names the field.

use serde::de::DeserializeOwned;
use serde_json::{Value, error::Category};

use crate::{Problem, serde_words};

/// The bytes that some editors and libraries put before a text; RFC 8259 allows to ignore them.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Parses one whole JSON text (a body, or a line of NDJSON), which may begin with a byte order mark.
///
/// # Errors
/// That of the first fault in the text: [`Problem::invalid_json`] with line and column if the text is not JSON there, [`Problem::invalid_field`] with
/// the field's path if it is JSON but not what a `T` has there.
pub fn from_slice<T: DeserializeOwned>(text: &[u8]) -> Result<T, Problem> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| match error
        .inner()
        .classify()
    {
        Category::Syntax if !is_surrogate(error.inner()) => not_json(text, error.inner()),
        Category::Eof | Category::Io => not_json(text, error.inner()),
        Category::Data | Category::Syntax => {
            serde_words::field_problem(error.path(), &error.inner().to_string())
        }
    })?;
    deserializer.end().map_err(|error| not_json(text, &error))?;
    Ok(value)
}

/// Deserializes a value that was parsed before.
///
/// # Errors
/// [`Problem::invalid_field`] with the field's path.
pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, Problem> {
    serde_path_to_error::deserialize(value)
        .map_err(|error| serde_words::field_problem(error.path(), &error.inner().to_string()))
}

/// Whether the error is about half of a surrogate pair: JSON by its grammar, but not text. serde_json's messages about that, and only these, end in
/// "hex escape", before the position.
fn is_surrogate(error: &serde_json::Error) -> bool {
    error.to_string().contains("hex escape")
}

/// A text of one line may be one of many lines of NDJSON, where a line number of its own would mislead.
fn not_json(text: &[u8], error: &serde_json::Error) -> Problem {
    let words = error.to_string();
    match words.rfind(" at line ") {
        Some(at) if !text.contains(&b'\n') => Problem::invalid_json(format_args!(
            "{} at column {}",
            &words[..at],
            error.column()
        )),
        _ => Problem::invalid_json(words),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::{FieldError, ProblemKind};

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Line {
        #[allow(dead_code)]
        message: Option<Message>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Message {
        srcid: Uid,
        msg: String,
    }

    #[derive(Debug, Deserialize)]
    #[serde(try_from = "u64")]
    struct Uid;

    impl TryFrom<u64> for Uid {
        type Error = String;

        fn try_from(number: u64) -> Result<Self, String> {
            match number {
                0 => Err("is 0; must be 1 or more".to_owned()),
                _ => Ok(Self),
            }
        }
    }

    fn field_error(text: &str) -> FieldError {
        let problem = from_slice::<Line>(text.as_bytes()).unwrap_err();
        assert_eq!(problem.kind, ProblemKind::InvalidField, "{problem:?}");
        problem.errors[0].clone()
    }

    #[test]
    fn a_wrong_type_names_the_nested_field_and_both_types() {
        let error = field_error(r#"{"message":{"srcid":1,"msg":5}}"#);
        assert_eq!(error.field, "message.msg");
        assert_eq!(error.message, "is integer `5`; must be a string");
    }

    #[test]
    fn a_missing_field_is_named_with_its_parent() {
        let error = field_error(r#"{"message":{"srcid":1}}"#);
        assert_eq!(error.field, "message.msg");
        assert_eq!(error.message, "is missing; must be present");
    }

    #[test]
    fn an_unknown_field_is_named_with_the_known_ones() {
        let error = field_error(r#"{"message":{"srcid":1,"msg":"a","mgs":"b"}}"#);
        assert_eq!(error.field, "message.mgs");
        assert_eq!(error.message, "is not known here; must be `srcid` or `msg`");
    }

    #[test]
    fn the_words_of_a_newtype_are_kept() {
        let error = field_error(r#"{"message":{"srcid":0,"msg":"a"}}"#);
        assert_eq!(error.field, "message.srcid");
        assert_eq!(error.message, "is 0; must be 1 or more");
    }

    #[test]
    fn a_long_value_is_not_echoed_whole() {
        let long = "x".repeat(16 * 1024);
        let error = field_error(&format!(r#"{{"message":{{"srcid":"{long}","msg":"a"}}}}"#));
        assert_eq!(error.field, "message.srcid");
        assert!(error.message.len() < 300, "{}", error.message.len());
        let error = field_error(&format!(r#"{{"message":{{"{long}":1}}}}"#));
        assert!(error.field.starts_with("message.xxx"));
        assert!(error.field.len() < 300, "{}", error.field.len());
    }

    #[test]
    fn a_byte_order_mark_is_not_part_of_the_text() {
        let error = field_error("\u{feff}{\"message\":{\"srcid\":0,\"msg\":\"a\"}}");
        assert_eq!(error.field, "message.srcid");
        let twice = from_slice::<Line>("\u{feff}\u{feff}{}".as_bytes());
        assert_eq!(twice.unwrap_err().kind, ProblemKind::InvalidJson);
    }

    #[test]
    fn the_whole_body_is_called_body() {
        assert_eq!(field_error("5").field, "body");
    }

    #[test]
    fn a_syntax_error_says_where() {
        for text in ["", "{", r#"{"message":nope}"#, "{} x"] {
            let problem = from_slice::<Line>(text.as_bytes()).unwrap_err();
            assert_eq!(problem.kind, ProblemKind::InvalidJson, "{text}");
            assert!(problem.detail.contains("at column"), "{problem}");
        }
        let problem = from_slice::<Line>(b"{\n\"message\":nope}").unwrap_err();
        assert!(problem.detail.contains("at line 2 column"), "{problem}");
    }

    #[test]
    fn half_of_a_surrogate_pair_is_an_error_of_its_field() {
        for half in [
            r"\ud83d",
            r"\ud83d.",
            r"\ude00",
            r"\ud83d\n",
            r"\ud83d\u0041",
        ] {
            let error = field_error(&format!(r#"{{"message":{{"srcid":1,"msg":"{half}"}}}}"#));
            assert_eq!(error.field, "message.msg", "{half}");
            let message = "has half of a surrogate pair; must be whole characters";
            assert_eq!(error.message, message, "{half}");
        }
    }

    #[test]
    fn what_was_parsed_before_is_read_with_the_same_words() {
        for text in [
            r#"{"message":{"srcid":1,"msg":5}}"#,
            r#"{"message":{"srcid":0,"msg":"a"}}"#,
            r#"{"message":"x"}"#,
            r#"{"message":{"srcid":1}}"#,
            r#"{"massage":1}"#,
        ] {
            let value = serde_json::from_str(text).unwrap();
            let problem = from_value::<Line>(value).unwrap_err();
            assert_eq!(problem.errors, [field_error(text)], "{text}");
        }
    }

    #[test]
    fn words_are_those_of_json() {
        assert_eq!(
            field_error(r#"{"message":7}"#).message,
            "is integer `7`; must be an object"
        );
        let problem = from_slice::<u8>(b"[]").unwrap_err();
        let message = "is an array; must be a whole number, 0 or more, in range";
        assert_eq!(problem.errors[0].message, message);
    }

    #[test]
    fn a_field_that_comes_twice_is_named() {
        let error = field_error(r#"{"message":{"srcid":1,"srcid":2,"msg":"a"}}"#);
        assert_eq!(error.field, "message.srcid");
        assert_eq!(error.message, "is there more than once; must be there once");
    }
}
