//! The state that a device of a load's user must have, from everything but the device's SDK: from the REST API, as JSON, and from the load's model,
//! which is a fold of the accepted events. The chain continues to the log: the same judgement compares pages, counts and flags with that model
//! (`FinishedLoad::verify`), and the tables from which they are read with the audit's own fold of the log. A device keeps no profiles.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use client::device::{Chat, DeviceState};
use schemas::{DeviceClass, PerDevice, Recipient};
use serde_json::{Map, Value, json};

use crate::{Client, Model};

/// The compared fields of a group's settings, which have the same names on both sides.
const OF_GROUP: [&str; 7] = [
    "name",
    "role",
    "muted",
    "dissolved",
    "member_count",
    "whole_history",
    "join_mid",
];
/// A read position that is further below the newest message than this may come without its count (PROTOCOL R5).
const COUNTED: i64 = 128;

/// The differences between a device's state and the expected one.
pub(super) async fn differences(
    state: &DeviceState,
    client: &Client,
    model: &Model,
) -> Result<Vec<String>> {
    let uid = state.uid().get();
    let mut expected = rows(client, model, uid).await?;
    let keys: BTreeSet<Recipient> = state
        .chats()
        .keys()
        .chain(expected.keys())
        .copied()
        .collect();
    let mut differences = Vec::new();
    for key in keys {
        let mut found = match state.chats().get(&key) {
            Some(chat) => known(chat)?,
            None => Value::Null,
        };
        let mut expected = expected.remove(&key).unwrap_or_default();
        if !found.is_null() && !expected.is_null() {
            complete(client, uid, key, &found, &mut expected).await?;
            excuse_uncounted(&mut found, &expected);
        }
        compare(&format!("{key:?}"), &found, &expected, &mut differences);
    }
    Ok(differences)
}

/// A chat without the fields that only fetching needs, and those from which counts are computed.
fn known(chat: &Chat) -> Result<Value> {
    let mut chat = serde_json::to_value(chat)?;
    for own in ["fetched", "fetched_own_pos", "known_to"] {
        chat[own].take();
    }
    // The field is absent in a row.
    if chat["own_pos"] == 0 {
        chat["own_pos"].take();
    }
    if let Some(with) = chat["with"].get_mut("User") {
        with["peer_n"].take();
    }
    Ok(chat)
}

/// All chats of a user, without their messages.
async fn rows(client: &Client, model: &Model, uid: i64) -> Result<BTreeMap<Recipient, Value>> {
    let mut rows = BTreeMap::new();
    for row in client.groups(uid, &[]).await? {
        let with: Map<_, _> = OF_GROUP
            .map(|name| (name.to_owned(), row[name].clone()))
            .into_iter()
            .collect();
        let chat = json!({
            "with": {"Group": with}, "last_mid": row["last_mid"], "chg": row["chg"], "own_pos": row["own_pos"],
            "read_mid": row["read_mid"], "unread": row["unread"],
        });
        let gid = serde_json::from_value(row["gid"].clone())?;
        rows.insert(Recipient::Group(gid), chat);
    }
    let listed = client.conversations(uid, &[]).await?;
    let listed = listed
        .into_iter()
        .filter_map(|row| Some((row["peer"].as_str()?.parse().ok()?, row)));
    let mut listed: BTreeMap<i64, Value> = listed.collect();
    // A contact without messages is not in any list.
    for peer in model.peers(uid) {
        let nothing = json!({"last_mid": 0, "chg": 0, "read_mid": PerDevice::<i64>::default()});
        listed.entry(peer).or_insert(nothing);
    }
    for (peer, row) in listed {
        rows.insert(
            Recipient::User(peer.try_into()?),
            with_user(model, uid, peer, &row),
        );
    }
    Ok(rows)
}

/// A chat with a user: values that the model has come from the model. It lacks the messages that devices themselves write; such a chat has no flags
/// and nothing unread.
fn with_user(model: &Model, uid: i64, peer: i64, row: &Value) -> Value {
    let flags = model.flags(uid, peer).into_iter();
    let flags: BTreeMap<&str, bool> = flags.map(|flag| (flag, true)).collect();
    let unread = |class| model.unread(uid, class).remove(&peer).unwrap_or(0);
    let last_mid = match model.messages(uid, peer).len() {
        0 => row["last_mid"].clone(),
        sent => sent.into(),
    };
    json!({
        "with": {"User": {"flags": flags}}, "last_mid": last_mid, "chg": row["chg"], "own_pos": row["own_pos"],
        "read_mid": row["read_mid"], "unread": PerDevice::from_fn(unread),
    })
}

/// Adds the messages. The number of the last change also counts changes that only other users see, so a device may have a lower number if there is no
/// change above it that the device must know.
async fn complete(
    client: &Client,
    uid: i64,
    key: Recipient,
    found: &Value,
    chat: &mut Value,
) -> Result<()> {
    let (items, path) = match key {
        Recipient::User(peer) => (
            client.history(uid, peer.get(), &[]).await?,
            format!("/v1/users/{uid}/conversations/{peer}/changes?"),
        ),
        Recipient::Group(gid) => (
            client.group_history(gid.get(), uid, &[]).await?,
            format!("/v1/groups/{gid}/changes?uid={uid}&"),
        ),
    };
    let last = items.iter().find(|item| item["mid"] == chat["last_mid"]);
    chat["last"] = last.cloned().unwrap_or_default();
    if !chat["last"].is_null() {
        chat["last"]["client_msg_id"].take();
    }
    let by_mid = items
        .into_iter()
        .map(|item| (item["mid"].to_string(), item));
    chat["messages"] = by_mid.collect::<Map<_, _>>().into();
    // A user who has joined a group again may know nothing from before; the messages show what is hidden.
    if matches!(key, Recipient::Group(_)) && found["own_pos"].is_null() {
        chat["own_pos"].take();
    }
    if found["chg"].as_i64() < chat["chg"].as_i64() {
        let after = format!("after_chg={}&after_own_pos={}", found["chg"], i64::MAX);
        let above = format!("{path}{after}&limit=200");
        let above = client.ask(&above).await?;
        if above["items"] == json!([]) && above["next"].is_null() {
            chat["chg"] = found["chg"].clone();
        }
    }
    Ok(())
}

/// Accepts a missing count that a device cannot have.
fn excuse_uncounted(found: &mut Value, expected: &Value) {
    let last_mid = expected["last_mid"].as_i64();
    for class in DeviceClass::ALL.map(DeviceClass::as_str) {
        let read_mid = expected["read_mid"][class].as_i64();
        let behind = last_mid.zip(read_mid).map(|(last, read)| last - read);
        if found["unread"][class].is_null() && behind > Some(COUNTED) {
            found["unread"][class] = expected["unread"][class].clone();
        }
    }
}

/// Names every field that differs. Absent, null and false are equal.
fn compare(at: &str, found: &Value, expected: &Value, differences: &mut Vec<String>) {
    let is_nothing = |value: &Value| value.is_null() || *value == false;
    match (found, expected) {
        (Value::Object(one), Value::Object(other)) => {
            for name in one.keys().chain(other.keys()).collect::<BTreeSet<_>>() {
                let at = format!("{at}.{name}");
                compare(&at, &found[name], &expected[name], differences);
            }
        }
        _ if found == expected || is_nothing(found) && is_nothing(expected) => {}
        _ => differences.push(format!("{at}: {found}, expected {expected}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_its_field() {
        let found = json!({"last": null, "read_mid": {"pc": 3, "mobile": 0}, "muted": false});
        let expected = json!({"read_mid": {"pc": 4, "mobile": 0}, "unread": {"pc": 0}});
        let mut differences = Vec::new();
        compare("chat", &found, &expected, &mut differences);
        let named = [
            "chat.read_mid.pc: 3, expected 4",
            "chat.unread: null, expected {\"pc\":0}",
        ];
        assert_eq!(differences, named);
    }

    #[test]
    fn a_count_is_unknown_only_far_below_the_newest_message() {
        let mut found = json!({"unread": {"pc": null, "mobile": null}});
        let counts = json!({"pc": 7, "mobile": 6});
        let expected =
            json!({"last_mid": 200, "read_mid": {"pc": 71, "mobile": 72}, "unread": counts});
        excuse_uncounted(&mut found, &expected);
        assert_eq!(found["unread"], json!({"pc": 7, "mobile": null}));
    }
}
