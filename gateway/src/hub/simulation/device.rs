//! A device: the core of the client in Rust, with the frames as they are written. It moves its token with all that it handles (W8), and takes nothing
//! below it (W9).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{HeadFrame, ServerFrame};
use client::{SyncAnswer, device::DeviceState};
use schemas::{
    ConversationId, DirectConversation, EventPosition, Mid, NextOffset, Partition, Recipient,
    SyncToken, UserId, event::Body,
};
use serde_json::{Value, json};

use super::{
    conversation::{Seen, recipient},
    log::{Log, Logged},
    stores::Stores,
    told::Told,
    vector::{Recording, chat_json, key_text},
};
use crate::{
    frames,
    hub::{Connection, Outgoing, test_events::uid},
};

/// Messages and changes of a page.
const PAGE: usize = 3;

pub(super) struct Device {
    state: DeviceState,
    /// Events that were handed to it, and heads in place of others.
    handled: BTreeSet<EventPosition>,
    heads: Vec<HeadFrame>,
    /// The last event that a page of a sync had of a chat, if another page followed.
    paged: BTreeMap<Recipient, i64>,
    /// The newest message of each group of which it was told, and how: what comes has no gap.
    told: Told,
    /// The gateway, and the connection.
    pub(super) connection: Option<(usize, Arc<Connection>)>,
    /// What it got, and what it made of that.
    pub(super) recording: Option<Recording>,
}

impl Device {
    pub(super) fn new(user: i64) -> Self {
        Self {
            state: DeviceState::new(uid(user)),
            handled: BTreeSet::new(),
            heads: Vec::new(),
            paged: BTreeMap::new(),
            told: Told::default(),
            connection: None,
            recording: None,
        }
    }

    pub(super) fn user(&self) -> UserId {
        self.state.uid()
    }

    /// Absent before the first sync.
    pub(super) fn token(&self) -> Option<&SyncToken> {
        self.state.token()
    }

    fn record(&mut self, step: Value) {
        if let Some(recording) = &mut self.recording {
            recording.add(step, &self.state);
        }
    }

    /// Whether it was told messages of a group that it had left, as a sync had said before.
    pub(super) fn was_told_what_it_had_left(&self) -> bool {
        self.told.of_left > 0
    }

    /// Takes a page of a sync; whether there are more.
    pub(super) fn synced(&mut self, answer: Value) -> bool {
        let page: SyncAnswer = serde_json::from_value(answer.clone()).unwrap();
        if page.more {
            let users = page.conversations.iter();
            let users = users.filter_map(|row| {
                let peer = row.item.peer?;
                Some((Recipient::User(peer), row.at?.offset))
            });
            let groups = page.groups.iter();
            let groups = groups.map(|row| (Recipient::Group(row.gid), row.at.offset));
            self.paged.extend(users.chain(groups));
        }
        self.told.take_sync(&page);
        let more = self.state.take_sync(page);
        self.record(json!({"sync": answer}));
        more
    }

    /// Handles a frame. Returns whether it is of an event that a page of a sync had before.
    pub(super) fn take(&mut self, item: &Outgoing, log: &Log) -> bool {
        let before = self.token().unwrap().clone();
        let mut is_overtaken = false;
        let frame = match item {
            Outgoing::Event(event) => {
                self.assert_not_below(event.at);
                self.handled.insert(event.at);
                is_overtaken = self.is_overtaken(event.at, log);
                self.told.take_event(event, self.state.uid());
                event.frame_for(self.user())
            }
            Outgoing::Head(head) => {
                self.assert_not_below(head.at);
                self.heads.push(*head);
                self.told.take_head(head);
                frames::encode(&ServerFrame::Head(*head))
            }
            Outgoing::Ping(token) => frames::encode(&ServerFrame::Ping {
                token: Some((&**token).into()),
            }),
            other => panic!("{other:?}"),
        };
        let frame: Value = serde_json::from_str(frame.into_message().to_text().unwrap()).unwrap();
        match serde_json::from_value(frame.clone()).unwrap() {
            ServerFrame::Event(event) => drop(self.state.take_event(event)),
            ServerFrame::Head(head) => drop(self.state.take_head(head)),
            ServerFrame::Ping { token } => self.state.take_ping(&token.unwrap().parse().unwrap()),
            other => panic!("{other:?}"),
        }
        self.record(json!({"frame": frame}));
        for partition in log.used() {
            self.cover(partition, before.get(partition), log);
        }
        is_overtaken
    }

    fn assert_not_below(&self, at: EventPosition) {
        let token = self.token().unwrap();
        assert!(
            !token.covers(at.partition, at.offset),
            "{at} is below the token"
        );
    }

    /// Checks the events that the token moves over: each that is the user's was handed over, or a head or a later change stands for it.
    fn cover(&self, partition: Partition, from: NextOffset, log: &Log) {
        let covered = from.get()..self.token().unwrap().get(partition).get();
        for offset in covered {
            let at = EventPosition { partition, offset };
            let logged = log.event(at);
            assert!(
                self.handled.contains(&at)
                    || !logged.users.contains(&self.user())
                    || self.is_stood_for(logged, offset)
                    || self.is_said_later(logged, at, log),
                "user {} lacks {at}: {:?}",
                self.user(),
                logged.body
            );
        }
    }

    /// Whether a head stands for an event: it has the newest of what concerns all members.
    fn is_stood_for(&self, logged: &Logged, offset: i64) -> bool {
        let mut heads = self.heads.iter().filter(|head| {
            ConversationId::Group(head.gid) == logged.conversation
                && (head.at.offset..=head.until.offset).contains(&offset)
        });
        heads.any(|head| match &logged.body {
            Body::Message(message) => message.mid <= head.mid,
            Body::MessageChange(change) => {
                !change.change.is_for_one() && change.change_seq <= head.change_seq
            }
            _ => false,
        })
    }

    /// Whether an event is a change of a group that does not name the user, and a later change follows: that was handed over, or is still to come.
    fn is_said_later(&self, logged: &Logged, at: EventPosition, log: &Log) -> bool {
        let changes_group = |logged: &Logged| matches!(logged.body, Body::GroupChange(_));
        let end = log.end(at.partition).get();
        let later = (at.offset + 1..end).map(|offset| log.event(EventPosition { offset, ..at }));
        let mut of_group = later.filter(|later| later.conversation == logged.conversation);
        changes_group(logged) && !logged.names(self.user()) && of_group.any(changes_group)
    }

    /// Whether a page of a sync had the event before the stream.
    fn is_overtaken(&self, at: EventPosition, log: &Log) -> bool {
        let key = recipient(log.event(at).conversation, self.user());
        self.paged.get(&key).is_some_and(|last| at.offset <= *last)
    }

    /// Fetches what is missing of a chat, as far as the stores have it and the connection lasts.
    pub(super) fn fetch(&mut self, which: usize, log: &Log, stores: &Stores, pages: usize) {
        let chats = self.state.chats().iter();
        let lacking = chats.filter_map(|(key, chat)| Some((*key, chat.missing()?)));
        let lacking: Vec<_> = lacking.collect();
        let Some((key, missing)) = lacking.get(which % lacking.len().max(1)).copied() else {
            return;
        };
        let mut left = pages;
        let mut next = Some(missing.after_mid);
        while let (Some(after), Some(seen)) = (next, self.seen(key, log, stores)) {
            if left == 0 {
                return;
            }
            left -= 1;
            let page = seen.messages(after, PAGE);
            let taken = serde_json::from_value(page.clone()).unwrap();
            next = self.state.take_messages(key, taken);
            self.record(json!({"messages": page, "of": key_text(key)}));
        }
        let missing = self.state.chats().get(&key).and_then(|chat| chat.missing());
        let mut next = missing
            .map(|missing| missing.after_changes)
            .filter(|_| next.is_none());
        while let (Some(after), Some(seen)) = (next, self.seen(key, log, stores)) {
            if left == 0 {
                return;
            }
            left -= 1;
            let page = seen.changes(after, PAGE);
            let taken = serde_json::from_value(page.clone()).unwrap();
            next = self.state.take_changes(key, after, taken);
            let after = json!({"chg": after.change_seq, "own_pos": after.own_pos});
            self.record(json!({"changes": page, "of": key_text(key), "after": after}));
        }
    }

    fn seen<'a>(&self, key: Recipient, log: &'a Log, stores: &Stores) -> Option<Seen<'a>> {
        stores.seen(log, self.user(), key, &self.state.known_of(key)?)
    }

    /// Checks that the device knows what there is in each partition that its token covers whole. Returns whether it covers all of them.
    pub(super) fn check(&self, log: &Log) -> bool {
        let Some(token) = self.token() else {
            return false;
        };
        let is_behind = |partition: &Partition| token.get(*partition) < log.end(*partition);
        let (behind, covered): (Vec<_>, Vec<_>) = log.used().partition(is_behind);
        let end = Stores::at_end(log);
        for partition in covered {
            let truth = end.chats(log, self.user(), partition);
            let known = self.state.chats().keys().copied();
            let known: Vec<_> = known
                .filter(|key| self.partition_of(*key) == partition)
                .collect();
            let keys: Vec<_> = truth.keys().copied().collect();
            assert_eq!(known, keys, "user {}, {partition:?}", self.user());
            for (key, row) in truth {
                self.check_chat(key, row, &self.seen(key, log, &end).unwrap());
            }
        }
        behind.is_empty()
    }

    fn partition_of(&self, key: Recipient) -> Partition {
        match key {
            Recipient::User(peer) => DirectConversation::new(self.user(), peer).partition(),
            Recipient::Group(gid) => gid.partition(),
        }
    }

    /// Compares a chat with what a sync and pages would return.
    fn check_chat(&self, key: Recipient, mut row: Value, seen: &Seen<'_>) {
        let whose = format!("user {}, {key:?}", self.user());
        let chat = &self.state.chats()[&key];
        let (mut known, lasts) = (chat_json(chat), seen.last_chgs());
        assert!(
            lasts.contains(&chat.change_seq),
            "{whose}: {}, not {lasts:?}",
            chat.change_seq
        );
        let own = seen.own_pos();
        assert!(
            own.contains(&chat.own_pos),
            "{whose}: {}, not {own:?}",
            chat.own_pos
        );
        let [mut last, messages] = ["last", "messages"].map(|field| known[field].take());
        let newest: Option<client::MessageItem> =
            serde_json::from_value(row["last"].take()).unwrap();
        let mut newest = json!(newest);
        // A list does not have `edited_ts`.
        for message in [&mut last, &mut newest] {
            message
                .as_object_mut()
                .into_iter()
                .for_each(|message| drop(message.remove("edited_ts")));
        }
        if known["missing"].is_null() {
            assert_eq!(last, newest, "{whose}");
            let all: client::MessagesPage =
                serde_json::from_value(seen.messages(Mid::ZERO, usize::MAX)).unwrap();
            assert_eq!(messages, json!(all.items), "{whose}");
        }
        for field in [
            "last", "messages", "missing", "chg", "own_pos", "peer", "gid", "at",
        ] {
            for side in [&mut known, &mut row] {
                side.as_object_mut().unwrap().remove(field);
            }
        }
        if let Recipient::User(_) = key {
            row["deleted"] = (row["deleted"] == true).into();
        }
        assert_eq!(known, row, "{whose}");
    }

    /// Fetches all that is missing: then it has everything.
    pub(super) fn settle(&mut self, log: &Log, stores: &Stores) {
        for _ in 0..100 {
            self.fetch(0, log, stores, 1_000);
        }
        assert!(
            self.state
                .chats()
                .values()
                .all(|chat| chat.missing().is_none()),
            "user {}",
            self.user()
        );
        self.check(log);
        if let Some(recording) = &mut self.recording {
            recording.add_chats(&self.state);
        }
    }

    pub(super) fn recording(&self) -> &Recording {
        self.recording.as_ref().unwrap()
    }
}
