//! What one device got, and what it made of that: both cores of a device, in Rust and in TypeScript, are tested with it.

use std::{fmt::Write as _, fs};

use client::device::{Chat, ChatWith, DeviceState};
use schemas::Recipient;
use serde_json::{Map, Value, json};

use super::Simulation;

/// How many devices are recorded.
const VECTORS: u64 = 30;
/// After how many steps the chats are recorded.
const INTERVAL: usize = 25;

/// The steps of a device, with its chats now and then.
#[derive(Default)]
pub(super) struct Recording(Vec<Value>);

impl Recording {
    /// Adds what the device has just taken.
    pub(super) fn add(&mut self, step: Value, state: &DeviceState) {
        self.0.push(step);
        if self.0.len().is_multiple_of(INTERVAL) {
            self.add_chats(state);
        }
    }

    /// Adds what the device knows.
    pub(super) fn add_chats(&mut self, state: &DeviceState) {
        let chats = state.chats().iter();
        let chats: Map<_, _> = chats
            .map(|(key, chat)| (key_text(*key), chat_json(chat)))
            .collect();
        let token = state.token().map(ToString::to_string);
        self.0
            .push(json!({"chats": chats, "token": token, "full_syncs": state.full_syncs()}));
    }

    /// A step a line.
    fn text(&self, uid: &str) -> String {
        let mut text = format!("{{\"uid\":\"{uid}\",\"steps\":[");
        for (number, step) in self.0.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            write!(text, "{comma}\n{step}").unwrap();
        }
        text + "\n]}"
    }
}

/// `user:1001` or `group:5000`.
pub(super) fn key_text(key: Recipient) -> String {
    match key {
        Recipient::User(peer) => format!("user:{peer}"),
        Recipient::Group(gid) => format!("group:{gid}"),
    }
}

/// A chat, with the names of a sync.
pub(super) fn chat_json(chat: &Chat) -> Value {
    let mut json = match &chat.with {
        ChatWith::User {
            flags,
            deleted,
            peer_ordinal,
        } => json!({
            "favourite": flags.favourite, "pinned": flags.pinned, "muted": flags.muted, "blocked": flags.blocked,
            "deleted": deleted, "peer_n": peer_ordinal,
        }),
        ChatWith::Group {
            name,
            role,
            muted,
            dissolved,
            member_count,
            whole_history,
            join_mid,
        } => json!({
            "name": name, "role": role.as_str(), "muted": muted, "dissolved": dissolved, "member_count": member_count,
            "whole_history": whole_history, "join_mid": join_mid,
        }),
    };
    let messages = chat.messages.values();
    let missing = chat.missing();
    let more = json!({
        "last": chat.last, "last_mid": chat.last_mid, "chg": chat.change_seq, "own_pos": chat.own_pos, "unread": chat.unread, "read_mid": chat.read_mid,
        "messages": messages.collect::<Vec<_>>(),
        "missing": missing.map(|missing| json!({
            "after_mid": missing.after_mid, "after_chg": missing.after_changes.change_seq, "after_own_pos": missing.after_changes.own_pos,
        })),
    });
    let Value::Object(more) = more else {
        unreachable!()
    };
    json.as_object_mut().unwrap().extend(more);
    json
}

/// Each device of another run.
fn vectors() -> String {
    let devices = (0..VECTORS).map(|seed| {
        let device = Simulation::new(seed).recorded(seed as usize);
        device.recording().text(&device.user().to_string())
    });
    let devices: Vec<String> = devices.collect();
    format!("[{}]\n", devices.join(",\n"))
}

#[test]
fn the_committed_vectors_are_what_devices_do() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tests/device-vectors/simulated.json"
    );
    let text = vectors();
    if std::env::var_os("TIDEMARK_WRITE_VECTORS").is_some() {
        fs::write(path, &text).unwrap();
    }
    let committed = fs::read_to_string(path).unwrap_or_default();
    let parse = |text: &str| serde_json::from_str::<Value>(text).ok();
    assert!(
        parse(&committed) == parse(&text),
        "{path} is of another version: write it again (tests/device-vectors/README.md)"
    );
}
