//! Records in readable form: values as protobuf JSON, headers as text.

use event_log::Record;
use prost_reflect::{DescriptorPool, DynamicMessage};
use schemas::{FILE_DESCRIPTOR_SET, dead_letter, topics::Topic};
use serde_json::{Value, json};

/// Decodes the values of all topics.
pub(crate) struct Decoder {
    pool: DescriptorPool,
}

impl Decoder {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            pool: DescriptorPool::decode(FILE_DESCRIPTOR_SET)?,
        })
    }

    /// The value of a record of `topic`; null if it has none, and the bytes as text if they cannot be decoded.
    pub(crate) fn record(&self, topic: Topic, record: &Record) -> Value {
        let Some(value) = record.value.as_deref() else {
            return Value::Null;
        };
        match topic {
            Topic::Inbound => self.message("InboundCommand", value),
            Topic::Events => self.message("SequencedEvent", value),
            Topic::Snapshots => self.snapshot_chunk(value),
            Topic::DeadLetters => {
                let source = record.header(dead_letter::HEADER_TOPIC);
                let is_event = source.is_some_and(|topic| topic.ends_with(Topic::Events.name()));
                let name = if is_event {
                    "SequencedEvent"
                } else {
                    "InboundCommand"
                };
                self.message(name, value)
            }
        }
    }

    /// Shows a chunk's size instead of its bytes.
    fn snapshot_chunk(&self, value: &[u8]) -> Value {
        let mut chunk = self.message("SnapshotChunk", value);
        if let Some(payload) = chunk.get_mut("payload") {
            *payload = Value::from(format!("{} bytes", value.len()));
        }
        chunk
    }

    fn message(&self, name: &str, value: &[u8]) -> Value {
        self.pool
            .get_message_by_name(&format!("chat.v1.{name}"))
            .and_then(|descriptor| DynamicMessage::decode(descriptor, value).ok())
            .and_then(|message| serde_json::to_value(&message).ok())
            .unwrap_or_else(|| json!({ "undecodable": String::from_utf8_lossy(value) }))
    }
}

pub(crate) fn headers(record: &Record) -> Value {
    let text = |value: &Option<Vec<u8>>| {
        value
            .as_deref()
            .map(|v| String::from_utf8_lossy(v).into_owned())
    };
    record
        .headers
        .iter()
        .map(|(name, value)| (name.clone(), Value::from(text(value))))
        .collect()
}

#[cfg(test)]
mod tests {
    use schemas::proto;

    use super::*;

    #[test]
    fn values_are_decoded_and_junk_is_shown() {
        let decoder = Decoder::new().unwrap();
        let send = proto::SendMessage {
            by_user: false,
            srcid: i64::MAX,
            ..proto::SendMessage::default()
        };
        let command = Some(proto::inbound_command::Command::SendMessage(send));
        let value = prost::Message::encode_to_vec(&proto::InboundCommand {
            command,
            ..proto::InboundCommand::default()
        });
        let json = decoder.message("InboundCommand", &value);
        assert_eq!(json["sendMessage"]["srcid"], "9223372036854775807");
        let recall = proto::MessageChanged {
            by: 1001,
            peer: 1000,
            mid: 3,
            kind: proto::ChangeKind::Recall.into(),
            chg: 1,
            ..proto::MessageChanged::default()
        };
        let event = Some(proto::sequenced_event::Event::MessageChange(recall));
        let value = prost::Message::encode_to_vec(&proto::SequencedEvent {
            src: None,
            event,
            ..proto::SequencedEvent::default()
        });
        let json = decoder.message("SequencedEvent", &value);
        assert_eq!(json["messageChange"]["kind"], "CHANGE_KIND_RECALL");
        assert_eq!(
            decoder.message("InboundCommand", b"junk!")["undecodable"],
            "junk!"
        );
    }
}
