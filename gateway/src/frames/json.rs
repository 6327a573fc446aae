//! Frames as JSON.

use api::{
    ClientFrame, FocusFrame, Hello, Object, ReadFrame, Resume, SendFrame, ServerFrame, ShortText,
    TypingFrame,
};
use problem::{
    Problem,
    json::{from_slice, from_value},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::encoded::Encoded;

/// What a frame may be.
const TYPES: &str = "hello, resume, send, read, pong, typing or focus";

/// Why a text is not a frame, for the developer of the device, and the `ref` of a send or a read if that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoFrame {
    pub(crate) reference: Option<ShortText>,
    pub(crate) detail: String,
}

impl From<String> for NoFrame {
    fn from(detail: String) -> Self {
        Self {
            reference: None,
            detail,
        }
    }
}

/// Reads a frame.
///
/// # Errors
/// What is wrong, for the developer of the device.
pub(crate) fn parse(text: &str) -> Result<ClientFrame, NoFrame> {
    // An editor may have added a byte order mark, as to a body over HTTP.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    serde_json::from_str(text).map_err(|_| no_frame(text.as_bytes()))
}

pub(crate) fn encode(frame: &ServerFrame<'_>) -> Encoded {
    let json = serde_json::to_string(frame);
    Encoded::new(json.expect("frames have string keys and no other failures"))
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
enum Kind {
    Hello,
    Resume,
    Send,
    Read,
    Pong,
    Typing,
    Focus,
}

/// Written by hand: serde's derive for an enum reports a number in place of the text as a syntax error.
impl TryFrom<String> for Kind {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Ok(match name.as_str() {
            "hello" => Self::Hello,
            "resume" => Self::Resume,
            "send" => Self::Send,
            "read" => Self::Read,
            "pong" => Self::Pong,
            "typing" => Self::Typing,
            "focus" => Self::Focus,
            _ => return Err(format!("is {name:?}; must be {TYPES}")),
        })
    }
}

/// What can be read of a frame whose other members are wrong.
#[derive(Deserialize)]
struct Head {
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(default, rename = "ref")]
    reference: Option<ShortText>,
}

/// For an enum with a tag serde does not say which member is wrong, so a text that is not a frame is read once more, as the frame that its type
/// names.
fn no_frame(text: &[u8]) -> NoFrame {
    let Object(Head { kind, reference }) = match from_slice(text) {
        Ok(head) => head,
        Err(problem) => return of_frame(&problem).into(),
    };
    let wrong = match kind {
        Kind::Hello => wrong_in::<Hello>(text),
        Kind::Resume => wrong_in::<Resume>(text),
        Kind::Send => wrong_in::<SendFrame>(text),
        Kind::Read => wrong_in::<ReadFrame>(text),
        Kind::Typing => wrong_in::<TypingFrame>(text),
        Kind::Focus => wrong_in::<FocusFrame>(text),
        Kind::Pong => None,
    };
    // If a member is there twice, only reading the whole frame shows it.
    let wrong = wrong.or_else(|| from_slice::<ClientFrame>(text).err());
    NoFrame {
        reference: reference.filter(|_| [Kind::Send, Kind::Read].contains(&kind)),
        detail: wrong.as_ref().map_or_else(String::new, of_frame),
    }
}

/// Says "frame" where the problem of an HTTP call says "body".
fn of_frame(Problem { detail, .. }: &Problem) -> String {
    for (body, frame) in [("the body ", "the frame "), ("body ", "frame ")] {
        if let Some(wrong) = detail.strip_prefix(body) {
            return format!("{frame}{wrong}");
        }
    }
    detail.clone()
}

fn wrong_in<T: DeserializeOwned>(frame: &[u8]) -> Option<Problem> {
    let members = from_slice::<Map<String, Value>>(frame).map(|mut members| {
        members.remove("type");
        members
    });
    members
        .and_then(|members| from_value::<T>(members.into()))
        .err()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> (Option<String>, String) {
        let NoFrame { reference, detail } = parse(text).unwrap_err();
        (reference.map(|ShortText(text)| text), detail)
    }

    #[test]
    fn a_byte_order_mark_is_passed_over() {
        assert!(parse("\u{feff}{\"type\":\"pong\"}").is_ok());
        assert_eq!(wrong("\u{feff}{}").1, "type is missing; must be present");
    }

    #[test]
    fn what_is_no_frame_names_the_field_and_what_is_right() {
        let long = "x".repeat(65);
        let hello = |device: &str| format!(r#"{{"type":"hello","device":{device}}}"#);
        let named = |name: &str| hello(&format!(r#"{{"id":"a","class":"pc","name":"{name}"}}"#));
        for (text, detail) in [
            (
                "",
                "the frame is not valid JSON: EOF while parsing a value at column 0",
            ),
            (
                r#"{"type":"send","ref":"1""#,
                "the frame is not valid JSON: EOF while parsing an object at column 24",
            ),
            ("[]", "frame is an array; must be an object"),
            (
                r#"{"type":"focus","peer":1e400}"#,
                "the frame is not valid JSON: number out of range at column 28",
            ),
            ("{}", "type is missing; must be present"),
            (r#"{"type":5}"#, "type is integer `5`; must be a string"),
            (
                r#"{"type":"dance"}"#,
                "type is \"dance\"; must be hello, resume, send, read, pong, typing or focus",
            ),
            (
                r#"{"type":"pong","token":"a"}"#,
                "token is not known here; must be absent",
            ),
            (r#"{"type":"hello"}"#, "device is missing; must be present"),
            (&hello("7"), "device is integer `7`; must be an object"),
            (
                &hello(r#"["a","pc"]"#),
                "device is an array; must be an object",
            ),
            (
                &hello(r#"{"id":5,"class":"pc"}"#),
                "device.id is integer `5`; must be a string",
            ),
            (
                &hello(r#"{"id":"a","class":"tv"}"#),
                "device.class is `tv`; must be `pc` or `mobile`",
            ),
            (
                &hello(r#"{"id":"a","class":1}"#),
                "device.class is integer `1`; must be a string",
            ),
            (
                &named(&long),
                "device.name has 65 characters; must be 64 at most",
            ),
            (
                &named(r"\ud83d"),
                "device.name has half of a surrogate pair; must be whole characters",
            ),
            (
                r#"{"type":"hello","device":{"id":"a","class":"pc"},"since":5}"#,
                "since is integer `5`; must be a string",
            ),
            (
                r#"{"type":"resume","since":null}"#,
                "since is null; must be a string",
            ),
            (
                r#"{"type":"typing","to":"x"}"#,
                "to is \"x\"; must be a uid, a decimal integer from 1 to 9223372036854775807",
            ),
            (
                r#"{"type":"focus","gid":"0"}"#,
                "gid is \"0\"; must be a gid, a decimal integer from 1 to 9223372036854775807",
            ),
            (
                r#"{"type":"focus","gid":"1","gid":"1"}"#,
                "gid is there more than once; must be there once",
            ),
        ] {
            assert_eq!(wrong(text), (None, detail.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_send_or_a_read_is_named_where_its_ref_can_be_read() {
        let send = r#"{"type":"send","ref":"7","to":"2","client_msg_id":"a","msg":"b"}"#;
        assert!(parse(send).is_ok());
        let long = format!("\"ref\":\"{}\"", "x".repeat(65));
        for (part, other, reference, detail) in [
            (
                r#""to":"2""#,
                r#""to":"abc""#,
                Some("7"),
                "to is \"abc\"; must be a uid, a decimal integer from 1 to 9223372036854775807",
            ),
            (
                r#","msg":"b""#,
                "",
                Some("7"),
                "msg is missing; must be present",
            ),
            (
                "\"b\"",
                "5",
                Some("7"),
                "msg is integer `5`; must be a string",
            ),
            (
                "\"b\"",
                r#""\ud83d""#,
                Some("7"),
                "msg has half of a surrogate pair; must be whole characters",
            ),
            (
                "\"a\"",
                "\"\"",
                Some("7"),
                "client_msg_id is empty; must be 1 to 64 bytes of UTF-8 without control characters",
            ),
            (
                "\"msg\"",
                "\"mgs\"",
                Some("7"),
                "mgs is not known here; must be one of `ref`, `to`, `gid`, `client_msg_id`, `msg`",
            ),
            ("\"7\"", "7", None, "ref is integer `7`; must be a string"),
            (r#""ref":"7","#, "", None, "ref is missing; must be present"),
            (
                r#""ref":"7""#,
                &long,
                None,
                "ref has 65 characters; must be 64 at most",
            ),
        ] {
            let text = send.replace(part, other);
            let expected = (reference.map(str::to_owned), detail.to_owned());
            assert_eq!(wrong(&text), expected, "{text}");
        }
        for mid in ["\"3\"", "1.5", "null", "0", "-1", "9223372036854775808"] {
            let read = format!(r#"{{"type":"read","ref":"8","peer":"2","mid":{mid}}}"#);
            let detail = format!("mid is {mid}; must be a message's number, 1 or more");
            assert_eq!(wrong(&read), (Some("8".to_owned()), detail));
        }
    }
}
