//! What the rows must be: written here once more, from the log's events alone.

use std::collections::BTreeMap;

use message_store::{ContactDelta, LastMessage, MessageRow, ReadUpTo};
use schemas::{DirectConversation, Mid, PerDevice, TableNumber, UserId, event::Body};

use crate::log::Appended;

/// All rows of a deployment.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rows {
    pub messages: BTreeMap<(TableNumber, i64), MessageRow>,
    pub reads: BTreeMap<(UserId, DirectConversation), PerDevice<Mid>>,
    pub contacts: BTreeMap<(UserId, UserId), ContactDelta>,
}

impl Rows {
    pub fn of(events: &[Appended]) -> Self {
        let mut rows = Self::default();
        for event in events {
            rows.add(event);
        }
        rows
    }

    fn add(
        &mut self,
        Appended {
            partition,
            offset,
            event,
        }: &Appended,
    ) {
        match &event.body {
            Body::Message(message) => {
                let row = MessageRow {
                    id: *offset,
                    ts: event.ts,
                    message: message.clone(),
                };
                let last = LastMessage {
                    mid: message.mid,
                    ts: event.ts,
                    srcid: message.srcid,
                    preview: message.msg.chars().take(200).collect(),
                };
                let own = self.contact(message.srcid, message.destid);
                own.last = Some(last.clone());
                own.own_n = message.n;
                if message.srcid != message.destid {
                    let theirs = self.contact(message.destid, message.srcid);
                    theirs.last = Some(last);
                    theirs.peer_n = message.n;
                }
                self.messages.insert(((*partition).into(), *offset), row);
            }
            Body::ReadPosition(position) => {
                let n = position
                    .n
                    .or_else(|| self.ordinal(position.peer, position.uid, position.mid.get()));
                let read = ReadUpTo {
                    mid: position.mid,
                    n,
                };
                self.contact(position.uid, position.peer).read[position.device] = read;
                let key = (position.uid, position.conversation());
                self.reads.entry(key).or_default()[position.device] = position.mid;
            }
            Body::Control(_) | Body::Progress => {}
        }
    }

    fn contact(&mut self, uid: UserId, peer: UserId) -> &mut ContactDelta {
        self.contacts
            .entry((uid, peer))
            .or_insert_with(|| ContactDelta::new(uid, peer))
    }

    fn ordinal(&self, srcid: UserId, destid: UserId, mid: i64) -> Option<schemas::Ordinal> {
        let sent = self.messages.values().filter(|row| {
            let message = &row.message;
            (message.srcid, message.destid) == (srcid, destid) && message.mid.get() <= mid
        });
        Some(sent.map(|row| row.message.n).max().unwrap_or_default())
    }
}
