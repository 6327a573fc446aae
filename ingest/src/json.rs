//! The JSON bodies, as producers write them.

use std::fmt;

use problem::{Problem, json::Object};
use schemas::{DeviceClass, Mid, UserId, command::ReadAck, proto};
use serde::{Deserialize, Deserializer, de};
use utoipa::ToSchema;

use crate::post::{EventKind, Post};

/// A text from one user to another.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageBody {
    /// The sender: 1 to 9223372036854775807. A number is taken up to 2^53.
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "1001")]
    srcid: UserId,
    /// The receiver; the sender too, in a note to oneself.
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "1000")]
    destid: UserId,
    /// The sender's own id of this send, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it is the same message. Made
    /// up and returned where it is absent.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64)]
    client_msg_id: Option<String>,
    /// 1 byte to 16 KiB (as configured) of UTF-8 without NUL.
    #[schema(min_length = 1, example = "hello")]
    msg: String,
}

/// "uid, on this device class, has read the conversation with peer up to mid."
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadAckBody {
    /// Who read.
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "1000")]
    uid: UserId,
    /// Whose messages.
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "1001")]
    peer: UserId,
    /// `pc` or `mobile`.
    #[serde(deserialize_with = "device")]
    #[schema(value_type = String, pattern = "^(pc|mobile)$", example = "mobile")]
    device: DeviceClass,
    /// Up to which message, 1 or more, as a number or a string; absent or `latest` for everything sequenced so far, and
    /// a repeat then covers more.
    #[serde(default, deserialize_with = "read_up_to")]
    #[schema(value_type = Option<i64>, minimum = 1, example = 3)]
    mid: Option<Mid>,
}

/// One line of a batch: exactly one of the two.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventBody {
    /// A text.
    #[schema(value_type = Option<MessageBody>)]
    message: Option<Object<MessageBody>>,
    /// A read position.
    #[schema(value_type = Option<ReadAckBody>)]
    read_ack: Option<Object<ReadAckBody>>,
}

/// Reads the body of `POST /v1/messages`.
pub(crate) fn message(body: &[u8], max_msg_bytes: usize) -> Result<Post, Problem> {
    let Object(body): Object<MessageBody> = parse(body)?;
    body.into_post(max_msg_bytes)
}

/// Reads the body of `POST /v1/read-acks`.
pub(crate) fn read_ack(body: &[u8]) -> Result<Post, Problem> {
    let Object(body): Object<ReadAckBody> = parse(body)?;
    Ok(body.into())
}

/// Reads one line of `POST /v1/events`.
pub(crate) fn event(line: &[u8], max_msg_bytes: usize) -> Result<Post, Problem> {
    let Object(body): Object<EventBody> = parse(line)?;
    match (body.message, body.read_ack) {
        (Some(Object(message)), None) => message
            .into_post(max_msg_bytes)
            .map_err(|problem| problem.within(EventKind::Message.member())),
        (None, Some(Object(ack))) => Ok(ack.into()),
        (None, None) => Err(one_of_two("has neither")),
        (Some(_), Some(_)) => Err(one_of_two("has both")),
    }
}

fn one_of_two(wrong: &str) -> Problem {
    Problem::invalid_field(
        "body",
        wrong,
        "an object with either \"message\" or \"read_ack\"",
    )
}

/// UTF-8 is checked once for the whole text: that is cheaper than for each string, and the parser would report a syntax error. Tracking the
/// path to a field costs time, so only a text that was refused is parsed again with it.
fn parse<T: de::DeserializeOwned>(text: &[u8]) -> Result<T, Problem> {
    let utf8 = str::from_utf8(text).map_err(|error| {
        let byte = error.valid_up_to() + 1;
        Problem::invalid_json(format_args!("byte {byte} is not UTF-8"))
    })?;
    serde_json::from_str(utf8).map_err(|_| match problem::json::from_slice::<T>(text) {
        Err(problem) => problem,
        Ok(_) => Problem::invalid_json("it is not valid"),
    })
}

impl MessageBody {
    fn into_post(self, max_msg_bytes: usize) -> Result<Post, Problem> {
        let send = proto::SendMessage {
            by_user: false,
            srcid: self.srcid.get(),
            destid: self.destid.get(),
            client_msg_id: String::new(),
            msg: self.msg,
        };
        Post::message(send, self.client_msg_id, max_msg_bytes)
    }
}

impl From<ReadAckBody> for Post {
    fn from(body: ReadAckBody) -> Self {
        Self::from(ReadAck {
            uid: body.uid,
            peer: body.peer,
            device: body.device,
            mid: body.mid,
        })
    }
}

/// A visitor, since serde's derive for an enum reports a number in its place as a syntax error without the field.
fn device<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DeviceClass, D::Error> {
    struct Visitor;

    impl de::Visitor<'_> for Visitor {
        type Value = DeviceClass;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("\"pc\" or \"mobile\"")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<DeviceClass, E> {
            text.parse()
                .map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
        }
    }

    deserializer.deserialize_any(Visitor)
}

fn read_up_to<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Mid>, D::Error> {
    struct Visitor;

    impl<'de> de::Visitor<'de> for Visitor {
        type Value = Option<Mid>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a message's number, 1 or more, or \"latest\"")
        }

        fn visit_unit<E: de::Error>(self) -> Result<Option<Mid>, E> {
            Ok(None)
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<Option<Mid>, E> {
            i64::try_from(number)
                .ok()
                .filter(|mid| *mid >= 1)
                .and_then(|mid| Mid::try_from(mid).ok())
                .map(Some)
                .ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(number), &self))
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<Option<Mid>, E> {
            // serde_json hands positive numbers to visit_u64.
            Err(E::invalid_value(de::Unexpected::Signed(number), &self))
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Option<Mid>, E> {
            if text == "latest" {
                return Ok(None);
            }
            let canonical = text.bytes().all(|c| c.is_ascii_digit()) && !text.starts_with('0');
            match text.parse::<u64>() {
                Ok(number) if canonical => self.visit_u64(number),
                _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
            }
        }
    }

    deserializer.deserialize_any(Visitor)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use schemas::command::Command;
    use serde_json::json;

    use super::*;

    const MAX: usize = 16;

    fn field_at_fault(line: &str) -> (String, String) {
        let problem = event(line.as_bytes(), MAX).unwrap_err();
        assert_eq!(problem.errors.len(), 1, "{line}: {problem:?}");
        let error = problem.errors[0].clone();
        (error.field, error.message)
    }

    #[test]
    fn the_field_at_fault_is_named() {
        let message = |fields: &str| {
            format!(r#"{{"message":{{"srcid":"1","destid":"2","msg":"a",{fields}}}}}"#)
        };
        let ack = |fields: &str| format!(r#"{{"read_ack":{{"uid":"1","peer":"2",{fields}}}}}"#);
        let cases = [
            (message(r#""extra":1"#), "message.extra"),
            (message(r#""client_msg_id":5"#), "message.client_msg_id"),
            (message(r#""client_msg_id":"""#), "message.client_msg_id"),
            (
                r#"{"message":{"destid":"2","msg":"a"}}"#.into(),
                "message.srcid",
            ),
            (
                r#"{"message":{"srcid":0,"destid":"2","msg":"a"}}"#.into(),
                "message.srcid",
            ),
            (
                r#"{"message":{"srcid":9007199254740993,"destid":"2","msg":"a"}}"#.into(),
                "message.srcid",
            ),
            (
                r#"{"message":{"srcid":"9223372036854775808","destid":"2","msg":"a"}}"#.into(),
                "message.srcid",
            ),
            (
                r#"{"message":{"srcid":"1","destid":1.5,"msg":"a"}}"#.into(),
                "message.destid",
            ),
            (
                r#"{"message":{"srcid":"1","destid":"2","msg":["a"]}}"#.into(),
                "message.msg",
            ),
            (
                r#"{"message":{"srcid":"1","destid":"2","msg":"12345678901234567"}}"#.into(),
                "message.msg",
            ),
            (
                r#"{"message":{"srcid":"1","destid":"2","msg":"a\u0000b"}}"#.into(),
                "message.msg",
            ),
            (ack(r#""device":"tv""#), "read_ack.device"),
            (ack(r#""device":1"#), "read_ack.device"),
            (ack(r#""mid":1"#), "read_ack.device"),
            (ack(r#""device":"pc","mid":0"#), "read_ack.mid"),
            (ack(r#""device":"pc","mid":-1"#), "read_ack.mid"),
            (ack(r#""device":"pc","mid":1.5"#), "read_ack.mid"),
            (ack(r#""device":"pc","mid":"newest""#), "read_ack.mid"),
            (ack(r#""device":"pc","mid":"01""#), "read_ack.mid"),
            (
                ack(r#""device":"pc","mid":9223372036854775808"#),
                "read_ack.mid",
            ),
            (r#"{"typing":{}}"#.into(), "typing"),
            ("{}".into(), "body"),
            ("[]".into(), "body"),
            (r#"{"message":["1","2",null,"a"]}"#.into(), "message"),
            (r#"{"read_ack":["1","2","pc",1]}"#.into(), "read_ack"),
            (message(r#""srcid":"1""#), "message.srcid"),
        ];
        for (line, field) in cases {
            assert_eq!(field_at_fault(&line).0, field, "{line}");
        }
    }

    #[test]
    fn wrong_and_right_are_both_said() {
        let (_, words) = field_at_fault(r#"{"read_ack":{"uid":"1","peer":"2","device":"tv"}}"#);
        assert_eq!(words, "is string \"tv\"; must be \"pc\" or \"mobile\"");
        let both = r#"{"message":{"srcid":"1","destid":"2","msg":"a"},"read_ack":{"uid":"1","peer":"2","device":"pc"}}"#;
        assert_eq!(
            field_at_fault(both).1,
            "has both; must be an object with either \"message\" or \"read_ack\""
        );
    }

    #[test]
    fn bytes_that_are_not_utf8_are_pointed_at() {
        let problem = event(b"{\"message\":\xff}", MAX).unwrap_err();
        assert_eq!(
            problem.detail,
            "the body is not valid JSON: byte 12 is not UTF-8"
        );
    }

    #[test]
    fn a_mid_is_a_number_a_string_or_everything() {
        for (mid, expected) in [
            ("3", Some(3)),
            ("\"3\"", Some(3)),
            ("9223372036854775807", Some(i64::MAX)),
            ("\"latest\"", None),
            ("null", None),
        ] {
            let body = format!(r#"{{"uid":"1","peer":"2","device":"mobile","mid":{mid}}}"#);
            let Command::ReadAck(ack) = read_ack(body.as_bytes()).unwrap().command else {
                panic!("a read-ack was posted");
            };
            assert_eq!(ack.mid.map(Mid::get), expected, "{mid}");
        }
    }

    proptest! {
        #[test]
        fn what_was_posted_is_what_is_appended(
            srcid in 1..=i64::MAX,
            destid in 1..=i64::MAX,
            id in "[^\\p{Cc}]{1,16}",
            msg in "[^\0]{1,200}",
        ) {
            let body = json!({
                "srcid": srcid.to_string(), "destid": destid.to_string(), "client_msg_id": id, "msg": msg,
            });
            let post = message(body.to_string().as_bytes(), 1_000).unwrap();
            let value = post.command.encode();
            let Command::Send(send) = Command::parse(&value).unwrap() else {
                panic!("a message was posted");
            };
            prop_assert_eq!(send.srcid.get(), srcid);
            prop_assert_eq!(send.destid.get(), destid);
            prop_assert_eq!(send.client_msg_id.as_str(), id);
            prop_assert_eq!(send.msg, msg);
        }

        #[test]
        fn no_bytes_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = event(&line, MAX);
        }
    }
}
