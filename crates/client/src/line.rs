//! Lines of a batch as they are posted.

use std::borrow::Cow;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, from_str};

use crate::new_client_msg_id;

/// A message, with every field at most once, as ingest demands: so nothing is lost where it is written again.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageLine {
    message: MessageFields,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageFields {
    #[serde(rename = "srcid")]
    _srcid: IgnoredAny,
    #[serde(rename = "destid")]
    _destid: Option<IgnoredAny>,
    #[serde(rename = "gid")]
    _gid: Option<IgnoredAny>,
    #[serde(rename = "msg")]
    _msg: IgnoredAny,
    client_msg_id: Option<IgnoredAny>,
}

/// The text to post, once and again: on one line, and a message with an id. What ingest will refuse stays as it is.
pub(crate) fn prepare(line: &str) -> Cow<'_, str> {
    let line = line.trim();
    let needs_id = from_str(line)
        .is_ok_and(|MessageLine { message }: MessageLine| message.client_msg_id.is_none());
    let with_id = needs_id.then(|| add_id(line)).flatten();
    match with_id {
        Some(line) => Cow::Owned(line),
        // JSON has newlines only between its parts.
        None if line.contains('\n') => Cow::Owned(line.replace('\n', " ")),
        None => Cow::Borrowed(line),
    }
}

fn add_id(line: &str) -> Option<String> {
    let mut line: Value = from_str(line).ok()?;
    let id = new_client_msg_id().as_str().to_owned();
    line["message"]["client_msg_id"] = id.into();
    Some(line.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_without_an_id_gets_one() {
        for id in ["", r#""client_msg_id":null,"#] {
            let line =
                format!(r#"{{"message":{{{id}"srcid":"1","destid":2,"msg":"client_msg_id"}}}}"#);
            let prepared: Value = from_str(&prepare(&line)).unwrap();
            assert_eq!(prepared["message"]["destid"], 2);
            assert_eq!(
                prepared["message"]["client_msg_id"].as_str().unwrap().len(),
                36
            );
        }
    }

    #[test]
    fn a_message_to_a_group_without_an_id_gets_one() {
        let line = r#"{"message":{"srcid":"1","gid":"5","msg":"x"}}"#;
        let prepared: Value = from_str(&prepare(line)).unwrap();
        assert_eq!(prepared["message"]["gid"], "5");
        assert!(prepared["message"]["client_msg_id"].is_string());
    }

    #[test]
    fn everything_else_is_posted_as_it_is() {
        for line in [
            r#"{"message":{"srcid":"1","destid":"2","client_msg_id":"a","msg":"x"}}"#,
            r#"{"message":{"srcid":"1","srcid":"3","destid":"2","msg":"x"}}"#,
            r#"{"message":{"srcid":"1","destid":"2","msg":"x","other":1}}"#,
            r#"{"read_ack":{"uid":"1","peer":"2","device":"pc"}}"#,
            r#"{"message":{}}"#,
            "junk",
            "",
        ] {
            assert_eq!(prepare(line), line);
        }
        assert_eq!(prepare("{\n\"x\": 1}\n"), "{ \"x\": 1}");
    }
}
