//! Lines of a batch as they are posted.

use std::{borrow::Cow, collections::HashMap};

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, from_str, value::RawValue};

use crate::new_client_msg_id;

/// A message, with every field at most once, as ingest demands: so nothing is lost when it is written again.
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

#[derive(Deserialize)]
struct CommandFields {
    command_id: Option<IgnoredAny>,
}

/// The text to post, once and again: on one line, and with an id. What ingest will refuse stays as it is.
pub(crate) fn prepare(line: &str) -> Cow<'_, str> {
    let line = line.trim();
    let needs_id = from_str(line)
        .is_ok_and(|MessageLine { message }: MessageLine| message.client_msg_id.is_none());
    let with_id = match needs_id {
        true => add_id(line),
        false => add_command_id(line),
    };
    let line = with_id.map_or(Cow::Borrowed(line), Cow::Owned);
    // JSON has newlines only between its parts.
    if line.contains('\n') {
        return Cow::Owned(line.replace('\n', " "));
    }
    line
}

fn add_id(line: &str) -> Option<String> {
    let mut line: Value = from_str(line).ok()?;
    let id = new_client_msg_id().as_str().to_owned();
    line["message"]["client_msg_id"] = id.into();
    Some(line.to_string())
}

/// Adds the id of a command that is not a message in the text, so that everything else in it stays as it was written.
fn add_command_id(line: &str) -> Option<String> {
    let members: HashMap<&str, &RawValue> = from_str(line).ok()?;
    let (kind, fields) = members.iter().next()?;
    if members.len() > 1 || *kind == "message" {
        return None;
    }
    let others = fields.get().strip_prefix('{')?;
    let CommandFields { command_id } = from_str(fields.get()).ok()?;
    if command_id.is_some() || others.trim_start().starts_with('}') {
        return None;
    }
    let (before, after) = line.split_once(fields.get())?;
    let id = new_client_msg_id();
    let id = id.as_str();
    Some(format!(r#"{before}{{"command_id":"{id}",{others}{after}"#))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_gets_an_id_and_stays_as_it_was_written() {
        let line = r#"{"profile": { "uid":"1","nick":"A","extra":{"n":1.00} } }"#;
        let prepared = prepare(line);
        let id = from_str::<Value>(&prepared).unwrap()["profile"]["command_id"].clone();
        let without = prepared.replace(&format!(r#""command_id":{id},"#), "");
        assert_eq!(without, line);
        for kind in ["read_ack", "group"] {
            let line = format!(r#"{{"{kind}":{{"by":"1"}}}}"#);
            assert_eq!(
                prepare(&line).len(),
                line.len() + r#""command_id":"","#.len() + 36
            );
        }
    }

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
            r#"{"read_ack":{"uid":"1","peer":"2","device":"pc","command_id":"a"}}"#,
            r#"{"read_ack":{"uid":"1","command_id":"a","command_id":"b"}}"#,
            r#"{"read_ack":{"uid":"1"},"profile":{"uid":"1"}}"#,
            r#"{"read_ack":{}}"#,
            r#"{"message":{}}"#,
            "junk",
            "",
        ] {
            assert_eq!(prepare(line), line);
        }
        assert_eq!(prepare("{\n\"x\": 1}\n"), "{ \"x\": 1}");
    }
}
