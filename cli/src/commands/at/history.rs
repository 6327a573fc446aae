//! The messages of a conversation as a user saw them at a time.

use std::{collections::BTreeMap, ops::ControlFlow};

use api::MessageItem;
use audit::ViewAt;
use event_log::LogReader;
use schemas::{
    Change, MessageChange, Mid, PartitionMap, Reactions, SourceWatermark, TimestampMs,
    event::{Body, Message, SourceOffset},
    topics::Topic,
};
use serde_json::{Value, json};

use crate::{args::AtHistoryArgs, commands::history::table, output::Table, times};

/// The newest messages that the user saw, oldest first. Blocks.
pub(super) fn answer(
    reader: &LogReader,
    ends: &PartitionMap<i64>,
    asked: &AtHistoryArgs,
    view: &ViewAt,
) -> anyhow::Result<(Value, Table)> {
    let conversation = asked.with().conversation_with(asked.uid);
    let partition = conversation.partition();
    let mut watermark = SourceWatermark::above(SourceOffset::START);
    let mut shown = Shown {
        view,
        messages: BTreeMap::new(),
    };
    reader.scan(
        Topic::Events,
        &[(partition, 0..ends[partition])],
        |record| {
            if let Ok(event) = record.event()
                && watermark.admit(event.src.offset)
                && event.conversation() == Some(conversation)
            {
                shown.take(event.body, event.ts);
            }
            ControlFlow::Continue(())
        },
    )?;
    let skipped = shown.messages.len().saturating_sub(asked.limit.into());
    let items: Vec<MessageItem> = shown.messages.into_values().skip(skipped).collect();
    let answer = json!({ "items": items });
    let table = table(&answer);
    Ok((answer, table))
}

struct Shown<'a> {
    view: &'a ViewAt,
    messages: BTreeMap<Mid, MessageItem>,
}

impl Shown<'_> {
    fn take(&mut self, body: Body, ts: TimestampMs) {
        match body {
            Body::Message(message) => {
                let mid = message.mid.get();
                if mid > self.view.begins_after_mid && !self.view.hidden.contains(&mid) {
                    self.messages.insert(message.mid, item(message, ts));
                }
            }
            Body::MessageChange(change) => self.change(change, ts),
            _ => {}
        }
    }

    fn change(&mut self, change: MessageChange, ts: TimestampMs) {
        let Some(message) = self.messages.get_mut(&change.mid) else {
            return;
        };
        match change.change {
            Change::Recall => {
                message.recalled = true;
                message.msg.clear();
            }
            Change::Delete => {
                self.messages.remove(&change.mid);
            }
            Change::Edit(text) => {
                message.msg = text;
                message.edited_ts = Some(times::rfc3339(ts));
            }
            Change::React(emoji) if emoji.is_empty() => {
                message.reactions.remove(&change.by);
            }
            Change::React(emoji) => {
                message.reactions.insert(change.by, emoji);
            }
            // The view already has the user's hides and clears.
            Change::Hide | Change::Clear => {}
        }
    }
}

fn item(message: Message, ts: TimestampMs) -> MessageItem {
    let (destid, gid) = message.to.uid_or_gid();
    MessageItem {
        mid: message.mid,
        srcid: message.srcid,
        destid,
        gid,
        msg: message.msg,
        ts: times::rfc3339(ts),
        client_msg_id: Some(message.client_msg_id.into_string()),
        recalled: false,
        edited_ts: None,
        reactions: Reactions::new(),
    }
}
