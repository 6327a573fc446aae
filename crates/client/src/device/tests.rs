use schemas::{DeviceClass, NextOffset, PartitionMap, SyncToken, UserId};
use serde_json::{Value, json};

use super::*;
use crate::ChangesAfter;

const ME: i64 = 1000;
const GROUP: i64 = 5000;

fn user(uid: i64) -> UserId {
    uid.try_into().unwrap()
}

fn peer() -> Recipient {
    Recipient::User(user(1001))
}

fn group() -> Recipient {
    Recipient::Group(GROUP.try_into().unwrap())
}

/// A device that has synced, and knows everything below offset 10.
fn device() -> DeviceState {
    let mut device = DeviceState::new(user(ME));
    assert!(!device.take_sync(answer(json!({}))));
    device
}

fn token(next: i64) -> SyncToken {
    let next = PartitionMap::full(|_| NextOffset::new(next));
    SyncToken::new(1, &next)
}

fn answer(with: Value) -> SyncAnswer {
    let mut answer = json!({
        "conversations": [], "groups": [], "left": [], "next": token(10), "more": false, "full": false,
    });
    let with = with.as_object().unwrap().clone();
    answer.as_object_mut().unwrap().extend(with);
    serde_json::from_value(answer).unwrap()
}

fn take(device: &mut DeviceState, offset: i64, body: Value) -> Option<Recipient> {
    let mut frame = json!({"type": "event", "at": format!("17:{offset}")});
    frame
        .as_object_mut()
        .unwrap()
        .extend(body.as_object().unwrap().clone());
    match serde_json::from_value(frame).unwrap() {
        ServerFrame::Event(event) => device.take_event(event),
        other => panic!("{other:?}"),
    }
}

fn message(mid: i64, srcid: i64, destid: i64, n: i64) -> Value {
    let id = format!("id-{mid}");
    json!({"message": {
        "mid": mid, "n": n, "srcid": srcid.to_string(), "destid": destid.to_string(),
        "msg": format!("text {mid}"), "ts": "2026-11-26T00:00:00Z", "client_msg_id": id,
    }})
}

fn group_message(mid: i64, srcid: i64) -> Value {
    json!({"message": {
        "mid": mid, "srcid": srcid.to_string(), "gid": GROUP.to_string(),
        "msg": format!("text {mid}"), "ts": "2026-11-26T00:00:00Z", "client_msg_id": "c",
    }})
}

fn change(kind: &str, mid: i64, change_seq: i64, by: i64, other: i64) -> Value {
    json!({"message_change": {
        "by": by.to_string(), "peer": other.to_string(), "mid": mid, "kind": kind, "chg": change_seq,
        "ts": "2026-11-26T00:00:01Z", "msg": (kind == "edit").then_some("edited"), "n": 2,
    }})
}

fn members(role: Option<&str>, joined: bool) -> Value {
    settings(role, joined, false)
}

fn settings(role: Option<&str>, joined: bool, dissolved: bool) -> Value {
    json!({"group_change": {
        "gid": GROUP.to_string(), "by": "1001", "kind": "join", "owner": "1001", "open": true, "muted": false,
        "name": "Lunch", "whole_history": false, "dissolved": dissolved, "member_count": 3, "last_mid": 7,
        "members": [{"uid": ME.to_string(), "role": role, "muted": false, "joined": joined}],
    }})
}

fn unread(device: &DeviceState, of: Recipient) -> [Option<i64>; 2] {
    DeviceClass::ALL.map(|class| device.chats()[&of].unread[class])
}

#[test]
fn what_is_below_the_token_is_ignored_and_what_is_handled_moves_it() {
    let mut device = device();
    assert_eq!(take(&mut device, 9, message(1, 1001, ME, 1)), None);
    assert!(device.chats().is_empty());
    assert_eq!(take(&mut device, 10, message(1, 1001, ME, 1)), Some(peer()));
    assert_eq!(take(&mut device, 10, message(1, 1001, ME, 1)), None);
    assert_eq!(unread(&device, peer()), [Some(1); 2]);
    let partition = 17.try_into().unwrap();
    assert_eq!(device.token().unwrap().get(partition).get(), 11);
    device.take_ping(&token(30));
    assert_eq!(take(&mut device, 29, message(2, 1001, ME, 2)), None);
}

#[test]
fn nothing_is_taken_before_the_first_sync() {
    let mut device = DeviceState::new(user(ME));
    assert_eq!(take(&mut device, 10, message(1, 1001, ME, 1)), None);
}

#[test]
fn the_users_own_profile_is_the_newest_that_a_sync_or_an_event_had() {
    let steps = include_str!("../../../../tests/device-vectors/profile.json");
    let steps: Vec<serde_json::Map<String, Value>> = serde_json::from_str(steps).unwrap();
    let mut device = DeviceState::new(user(ME));
    for (name, mut step) in steps.into_iter().flatten() {
        match name.as_str() {
            "sync" => {
                step["next"] = json!(token(step["next"].as_i64().unwrap()));
                device.take_sync(serde_json::from_value(step).unwrap());
            }
            "frame" => {
                let event: EventFrame<'_> = serde_json::from_value(step).unwrap();
                device.take_event(event);
            }
            _ => assert_eq!(json!(device.profile()), step),
        }
        // The program ends after each step, and begins again.
        let stored = serde_json::to_string(&device).unwrap();
        device = serde_json::from_str(&stored).unwrap();
    }
}

#[test]
fn unread_counts_follow_from_ordinals() {
    let mut device = device();
    let sent = [(1001, ME, 1), (ME, 1001, 1), (1001, ME, 2), (1001, ME, 3)];
    for (mid, (srcid, destid, n)) in (1..).zip(sent) {
        take(&mut device, 10 + mid, message(mid, srcid, destid, n));
    }
    assert_eq!(unread(&device, peer()), [Some(3); 2]);
    let read = |mid: i64, n: Option<i64>| json!({"read_position": {"uid": ME.to_string(), "peer": "1001", "device": "pc", "mid": mid, "n": n}});
    take(&mut device, 20, read(3, Some(2)));
    assert_eq!(unread(&device, peer()), [Some(1), Some(3)]);
    take(&mut device, 21, read(4, None));
    assert_eq!(unread(&device, peer()), [None, Some(3)]);
    take(&mut device, 22, change("clear", 4, 1, ME, 1001));
    assert_eq!(unread(&device, peer()), [None, Some(1)]);
}

#[test]
fn a_note_to_oneself_has_no_read_positions() {
    let mut device = device();
    let own = Recipient::User(user(ME));
    take(&mut device, 11, message(1, ME, ME, 1));
    take(&mut device, 12, change("clear", 1, 1, ME, ME));
    assert_eq!(device.chats()[&own].read_mid.pc.get(), 0);
    assert_eq!(unread(&device, own), [Some(0); 2]);
}

#[test]
fn changes_show_in_messages_and_in_the_newest() {
    let mut device = device();
    for mid in 1..=3 {
        take(&mut device, 10 + mid, message(mid, 1001, ME, mid));
    }
    let last = |device: &DeviceState| device.chats()[&peer()].last.clone();
    take(&mut device, 20, change("edit", 3, 1, 1001, ME));
    assert_eq!(last(&device).unwrap().msg, "edited");
    take(&mut device, 21, change("recall", 3, 2, 1001, ME));
    let recalled = last(&device).unwrap();
    assert!(recalled.recalled && recalled.msg.is_empty());
    take(&mut device, 22, change("hide", 3, 3, ME, 1001));
    assert_eq!(last(&device), None);
    take(&mut device, 23, change("clear", 1, 4, ME, 1001));
    let mids: Vec<i64> = device.chats()[&peer()]
        .messages
        .keys()
        .map(|mid| mid.get())
        .collect();
    assert_eq!(mids, [2]);
    assert_eq!(device.chats()[&peer()].missing(), None);
    // A change in between was for the other user alone, and is not sent.
    take(&mut device, 24, change("edit", 2, 6, 1001, ME));
    assert!(device.chats()[&peer()].missing().is_some());
}

#[test]
fn nothing_is_unread_in_a_group_that_has_ended() {
    let mut device = device();
    take(&mut device, 11, members(Some("member"), true));
    take(&mut device, 12, group_message(8, 1001));
    take(&mut device, 13, settings(Some("member"), false, true));
    assert_eq!(unread(&device, group()), [Some(0); 2]);
}

/// Its members still hide, clear and leave, and admins recall and delete (PROTOCOL G7).
#[test]
fn a_dissolved_group_is_cleared_up_until_the_user_leaves_it() {
    let mut device = device();
    take(&mut device, 11, members(Some("member"), true));
    for mid in 8..=10 {
        take(&mut device, 4 + mid, group_message(mid, 1001));
    }
    take(&mut device, 15, settings(Some("member"), false, true));
    let changed = |kind: &str, mid: i64, change_seq: i64, by: i64| {
        json!({"message_change": {
            "by": by.to_string(), "gid": GROUP.to_string(), "mid": mid, "kind": kind, "chg": change_seq, "ts": "2026-11-26T00:00:01Z",
        }})
    };
    take(&mut device, 16, changed("recall", 9, 1, 1001));
    take(&mut device, 17, changed("delete", 8, 2, 1001));
    let shown = |device: &DeviceState| {
        let messages = device.chats()[&group()].messages.values();
        let shown = messages.map(|one| (one.mid.get(), one.recalled));
        shown.collect::<Vec<_>>()
    };
    let expected = [(9, true), (10, false)];
    assert_eq!(shown(&device), expected);

    let mut other = settings(None, false, true);
    other["group_change"]["members"][0]["uid"] = json!("1001");
    assert_eq!(take(&mut device, 18, other), Some(group()));
    assert_eq!(shown(&device), expected, "another has left");
    take(&mut device, 19, changed("clear", 10, 3, ME));
    assert_eq!(shown(&device), []);
    assert_eq!(unread(&device, group()), [Some(0); 2]);

    let left = settings(None, false, true);
    assert_eq!(take(&mut device, 20, left), Some(group()));
    assert!(device.chats().is_empty());
    let late = changed("recall", 10, 4, 1001);
    assert_eq!(take(&mut device, 21, late), None);
}

#[test]
fn a_contact_without_messages_is_not_left_out_when_it_is_deleted() {
    let mut device = device();
    let deleted = json!({"contact_change": {"uid": ME.to_string(), "peer": "1001", "favourite": false,
        "pinned": true, "muted": false, "blocked": false, "deleted_mid": 0, "deleted_n": 0}});
    take(&mut device, 11, deleted);
    let with = &device.chats()[&peer()].with;
    assert!(matches!(with, ChatWith::User { deleted: false, .. }));
}

#[test]
fn a_group_is_there_between_join_and_leave() {
    let mut device = device();
    assert_eq!(take(&mut device, 10, group_message(7, 1001)), None);
    take(&mut device, 11, members(Some("member"), true));
    assert_eq!(unread(&device, group()), [Some(0); 2]);
    take(&mut device, 12, group_message(8, 1001));
    assert_eq!(unread(&device, group()), [Some(1); 2]);
    take(&mut device, 13, group_message(9, ME));
    assert_eq!(unread(&device, group()), [Some(0); 2]);
    take(&mut device, 14, members(Some("admin"), false));
    assert_eq!(
        device.chats()[&group()].messages.len(),
        2,
        "a role is no join"
    );
    take(&mut device, 15, members(None, false));
    assert!(device.chats().is_empty());
}

fn take_head(device: &mut DeviceState, mid: i64, change_seq: i64, own_mid: i64) {
    let head = json!({"type": "head", "at": "8:15", "until": "8:19", "gid": GROUP.to_string(), "mid": mid,
        "chg": change_seq, "own_mid": own_mid});
    let ServerFrame::Head(head) = serde_json::from_value(head).unwrap() else {
        panic!("no head");
    };
    device.take_head(head);
}

#[test]
fn what_a_head_stands_for_is_counted_and_fetched() {
    let mut device = device();
    take(&mut device, 11, members(Some("member"), true));
    take_head(&mut device, 10, 1, 9);
    assert_eq!(unread(&device, group()), [Some(1); 2]);
    // A page that is older would be taken for all there is.
    let known = device.known_of(group()).unwrap();
    assert_eq!(known.get(8.try_into().unwrap()).get(), 20);
    let missing = device.chats()[&group()].missing().unwrap();
    assert_eq!(
        (missing.after_mid, missing.after_changes),
        (Mid::ZERO, ChangesAfter::default())
    );
    let item = |mid: i64, srcid: i64| group_message(mid, srcid)["message"].clone();
    let page = json!({"items": [item(8, 1001), item(9, ME), item(10, 1001)], "next": null});
    device.take_messages(group(), serde_json::from_value(page).unwrap());
    assert_eq!(unread(&device, group()), [Some(1); 2]);
    let changed = json!({"chg": 1, "mid": 10, "kind": "recall", "ts": "2026-11-26T00:00:02Z"});
    let page = json!({"items": [changed], "next": null});
    device.take_changes(
        group(),
        ChangesAfter::default(),
        serde_json::from_value(page).unwrap(),
    );
    let chat = &device.chats()[&group()];
    assert!(chat.last.as_ref().unwrap().recalled);
    assert_eq!(chat.missing(), None);
}

/// A head has the offset of the first event that it stands for, and a sync may have moved the token past it.
#[test]
fn a_head_below_the_token_counts() {
    let mut device = device();
    take(&mut device, 11, members(Some("member"), true));
    device.take_ping(&token(30));
    take_head(&mut device, 9, 3, 0);
    let chat = &device.chats()[&group()];
    assert_eq!((chat.last_mid.get(), chat.change_seq.get()), (9, 3));
}

/// A change may have collapsed into a head that came before the message.
#[test]
fn a_page_is_not_overwritten_by_the_message_as_it_was_sent() {
    let mut device = device();
    take(&mut device, 11, members(Some("member"), true));
    let mut edited = group_message(8, 1001)["message"].clone();
    edited["msg"] = json!("edited");
    let page = json!({"items": [edited], "next": null});
    assert_eq!(
        device.take_messages(group(), serde_json::from_value(page).unwrap()),
        None
    );
    take(&mut device, 12, group_message(8, 1001));
    let messages = &device.chats()[&group()].messages;
    assert_eq!(messages.values().next().unwrap().msg, "edited");
    assert_eq!(unread(&device, group()), [Some(1); 2]);
}

/// All messages of a page may be hidden, and all changes of one may be the other user's own.
#[test]
fn a_page_without_items_is_not_the_last() {
    let mut device = device();
    take(&mut device, 11, members(Some("member"), true));
    let page = json!({"items": [], "next": "after_mid=5"});
    let next = device.take_messages(group(), serde_json::from_value(page).unwrap());
    assert_eq!(next.map(|next| next.get()), Some(5));
    let missing = device.chats()[&group()].missing().unwrap();
    assert_eq!(missing.after_mid.get(), 5);
}

/// Between two syncs the user left and joined again.
#[test]
fn what_was_before_the_last_join_is_dropped() {
    let mut device = device();
    take(&mut device, 11, members(Some("member"), true));
    take(&mut device, 12, group_message(8, 1001));
    let row = |whole_history: bool| {
        json!([{"gid": GROUP.to_string(), "name": "Lunch", "role": "member", "muted": false,
            "dissolved": false, "member_count": 3, "whole_history": whole_history, "join_mid": 20, "last": null,
            "last_mid": 20, "chg": 0, "unread": {"pc": 0, "mobile": 0}, "read_mid": {"pc": 20, "mobile": 20}, "at": "8:9"}])
    };
    device.take_sync(answer(json!({ "groups": row(false) })));
    assert!(device.chats()[&group()].messages.is_empty());
    device.take_sync(answer(json!({ "groups": row(true) })));
    let missing = device.chats()[&group()].missing().unwrap();
    assert_eq!(missing.after_mid, Mid::ZERO);
}

/// The rows of a sync may be newer than its token.
#[test]
fn what_a_sync_had_already_counts_once() {
    let mut device = device();
    let users = json!([{"peer": "1001", "last": null, "last_mid": 2, "chg": 0, "peer_n": 2,
        "unread": {"pc": 2, "mobile": 2}, "read_mid": {"pc": 0, "mobile": 0}, "at": "17:14"}]);
    let groups = json!([{"gid": GROUP.to_string(), "name": "Lunch", "role": "member", "muted": false,
        "dissolved": false, "member_count": 3, "whole_history": false, "join_mid": 0, "last": null, "last_mid": 2, "chg": 0,
        "unread": {"pc": 2, "mobile": 2}, "read_mid": {"pc": 0, "mobile": 0}, "at": "8:12"}]);
    device.take_sync(answer(json!({"conversations": users, "groups": groups})));
    // What is fetched is as new as the rows.
    let known = |of, partition: i64| {
        let token = device.known_of(of).unwrap();
        token.get(partition.try_into().unwrap()).get()
    };
    assert_eq!((known(peer(), 17), known(group(), 8)), (15, 13));
    let deleted = json!({"contact_change": {"uid": ME.to_string(), "peer": "1001", "favourite": false,
        "pinned": false, "muted": false, "blocked": false, "deleted_mid": 1, "deleted_n": 0}});
    take(&mut device, 10, deleted);
    for mid in 1..=3 {
        take(&mut device, 10 + 2 * mid, message(mid, 1001, ME, mid));
        take(&mut device, 11 + 2 * mid, group_message(mid, 1001));
    }
    assert_eq!(unread(&device, peer()), [Some(3); 2]);
    assert_eq!(unread(&device, group()), [Some(3); 2]);
    let ChatWith::User { deleted, .. } = device.chats()[&peer()].with else {
        panic!("no user");
    };
    assert!(!deleted);
}

#[test]
fn a_full_sync_drops_what_none_of_its_pages_has() {
    let mut device = device();
    take(&mut device, 10, message(1, 1001, ME, 1));
    take(&mut device, 11, message(1, 1002, ME, 1));
    let row = |peer: &str| {
        json!([{"peer": peer, "last": null, "last_mid": 1, "chg": 0, "peer_n": 1,
            "unread": {"pc": 1, "mobile": 1}, "read_mid": {"pc": 0, "mobile": 0}}])
    };
    let first = json!({"conversations": row("1001"), "more": true, "full": true});
    assert!(device.take_sync(answer(first)));
    assert_eq!(device.chats().len(), 2);
    let second = json!({"conversations": row("1003"), "full": true});
    assert!(!device.take_sync(answer(second)));
    let peers: Vec<Recipient> = device.chats().keys().copied().collect();
    assert_eq!(peers, [peer(), Recipient::User(user(1003))]);
    assert_eq!(device.full_syncs(), 1);
}

/// A page may be newer than the stream, which then ends before the last of what the page had.
#[test]
fn a_change_that_a_page_had_does_not_undo_a_later_one() {
    for (kind, text) in [("edit", "newest"), ("recall", "")] {
        let mut device = device();
        take(&mut device, 10, message(1, 1001, ME, 1));
        take(&mut device, 11, change("edit", 1, 1, 1001, ME));
        device.take_sync(answer(json!({"conversations": [row_of(1, 3, "newest")]})));
        let known = |mid: i64, change_seq: i64, kind: &str| json!({"chg": change_seq, "mid": mid, "kind": kind, "ts": "2026-11-26T00:00:02Z", "msg": "newest"});
        let page = json!({"items": [known(1, 2, "edit"), known(1, 3, kind)], "next": null});
        let after = device.chats()[&peer()].missing().unwrap().after_changes;
        device.take_changes(peer(), after, serde_json::from_value(page).unwrap());
        // A sync that is older than the page.
        device.take_sync(answer(json!({"conversations": [row_of(1, 1, "edited")]})));
        take(&mut device, 12, change("edit", 1, 2, 1001, ME));
        let chat = &device.chats()[&peer()];
        assert_eq!((chat.change_seq.get(), chat.missing()), (2, None));
        for message in [
            &chat.messages[&1.try_into().unwrap()],
            chat.last.as_ref().unwrap(),
        ] {
            assert_eq!(
                (message.msg.as_str(), message.recalled),
                (text, kind == "recall")
            );
        }
        // The other user's own change is not sent.
        take(&mut device, 13, change("edit", 1, 5, 1001, ME));
        let missing = device.chats()[&peer()].missing().unwrap();
        assert_eq!(missing.after_changes.change_seq.get(), 3);
    }
}

/// A sync has said of a hide without a number, a page has it and one of a message that has yet to be fetched, and then the stream has both.
#[test]
fn what_has_no_number_is_fetched_up_to_its_offset() {
    let mut device = device();
    for mid in 1..=3 {
        take(&mut device, 9 + mid, message(mid, 1001, ME, mid));
    }
    let (own_pos, missing) = (
        |device: &DeviceState| device.chats()[&peer()].own_pos,
        |device: &DeviceState| device.chats()[&peer()].missing(),
    );
    take(&mut device, 13, change("hide", 1, 0, ME, 1001));
    assert_eq!((own_pos(&device), missing(&device)), (13, None));
    let mut row = row_of(3, 0, "hello");
    row["own_pos"] = 20.into();
    device.take_sync(answer(json!({"conversations": [row]})));
    let after = missing(&device).unwrap().after_changes;
    assert_eq!((after.change_seq.get(), after.own_pos), (0, 13));
    let own = |mid: i64, own_pos: i64| json!({"chg": 0, "own_pos": own_pos, "mid": mid, "kind": "hide", "ts": "2026-11-26T00:00:02Z"});
    let page = json!({"items": [own(2, 20), own(4, 24)], "next": null});
    device.take_changes(peer(), after, serde_json::from_value(page).unwrap());
    let mids = |device: &DeviceState| -> Vec<i64> {
        let messages = &device.chats()[&peer()].messages;
        messages.keys().map(|mid| mid.get()).collect()
    };
    assert_eq!((mids(&device), missing(&device)), (vec![3], None));
    take(&mut device, 23, message(4, 1001, ME, 4));
    take(&mut device, 24, change("hide", 4, 0, ME, 1001));
    assert_eq!((mids(&device), own_pos(&device)), (vec![3], 24));
}

/// A page of changes has a hide of a message that has yet to be fetched, and the message comes from a store that had not hidden it yet.
#[test]
fn a_hide_of_what_has_yet_to_be_fetched_is_fetched_again() {
    let mut device = device();
    for mid in 1..=3 {
        take(&mut device, 9 + mid, message(mid, 1001, ME, mid));
    }
    let mut row = row_of(4, 0, "hello");
    row["own_pos"] = 24.into();
    device.take_sync(answer(json!({"conversations": [row]})));
    let missing = |device: &DeviceState| device.chats()[&peer()].missing();
    let fetch_changes = |device: &mut DeviceState| {
        let hide = json!({"chg": 0, "own_pos": 24, "mid": 4, "kind": "hide", "ts": "2026-11-26T00:00:02Z"});
        let after = missing(device).unwrap().after_changes;
        let page = json!({"items": [hide], "next": null});
        device.take_changes(peer(), after, serde_json::from_value(page).unwrap());
    };
    fetch_changes(&mut device);
    let page = json!({"items": [message(4, 1001, ME, 4)["message"]], "next": null});
    device.take_messages(peer(), serde_json::from_value(page).unwrap());
    assert_eq!(missing(&device).unwrap().after_changes.own_pos, 23);
    fetch_changes(&mut device);
    assert_eq!(missing(&device), None);
    assert_eq!(device.chats()[&peer()].messages.len(), 3);
}

fn row_of(last_mid: i64, change_seq: i64, msg: &str) -> Value {
    let mut last = message(last_mid, 1001, ME, 1)["message"].take();
    last["msg"] = json!(msg);
    json!({"peer": "1001", "last": last, "last_mid": last_mid, "chg": change_seq, "peer_n": 1,
        "unread": {"pc": 1, "mobile": 1}, "read_mid": {"pc": 0, "mobile": 0}, "at": "17:10"})
}

/// The page of messages had it, and the one of changes is not there yet.
#[test]
fn a_recalled_message_does_not_get_its_text_back() {
    let mut device = device();
    take(&mut device, 11, members(Some("member"), true));
    let mut recalled = group_message(8, 1001)["message"].clone();
    recalled["msg"] = json!("");
    recalled["recalled"] = json!(true);
    let page = json!({"items": [recalled], "next": null});
    device.take_messages(group(), serde_json::from_value(page).unwrap());
    let mut edit = change("edit", 8, 1, 1001, ME);
    edit["message_change"]["gid"] = json!(GROUP.to_string());
    take(&mut device, 12, edit);
    let chat = &device.chats()[&group()];
    assert_eq!(chat.messages.values().next().unwrap().msg, "");
    assert_eq!(chat.last.as_ref().unwrap().msg, "");
}

/// A head says nothing of a message, and the sync before it may be older than a page.
#[test]
fn a_head_of_what_is_there_shows_the_newest_message() {
    let mut device = device();
    take(&mut device, 11, members(Some("member"), true));
    let page = json!({"items": [group_message(8, 1001)["message"]], "next": null});
    device.take_messages(group(), serde_json::from_value(page).unwrap());
    device.take_sync(answer(json!({"groups": [group_row(7, 7, 0, false)]})));
    take_head(&mut device, 8, 0, 0);
    let chat = &device.chats()[&group()];
    assert_eq!(chat.missing(), None);
    assert_eq!(chat.last.as_ref().unwrap().mid.get(), 8);
}

/// As of an older page a message is as it was before a change that is known.
#[test]
fn what_is_fetched_anew_is_changed_anew() {
    let mut device = device();
    device.take_sync(answer(json!({"groups": [group_row(0, 1, 1, false)]})));
    let page = json!({"items": [group_message(1, 1001)["message"]], "next": null});
    device.take_messages(group(), serde_json::from_value(page).unwrap());
    let changed = json!({"chg": 2, "mid": 1, "kind": "recall", "ts": "2026-11-26T00:00:02Z"});
    let page = json!({"items": [changed], "next": null});
    device.take_changes(
        group(),
        ChangesAfter::default(),
        serde_json::from_value(page).unwrap(),
    );
    device.take_sync(answer(json!({"groups": [group_row(1, 1, 1, true)]})));
    let missing = device.chats()[&group()].missing().unwrap();
    assert_eq!(
        (missing.after_mid, missing.after_changes),
        (Mid::ZERO, ChangesAfter::default())
    );
}

fn group_row(join_mid: i64, last_mid: i64, change_seq: i64, whole_history: bool) -> Value {
    json!({"gid": GROUP.to_string(), "name": "Lunch", "role": "member", "muted": false, "dissolved": false, "member_count": 3,
        "whole_history": whole_history, "join_mid": join_mid, "last": null, "last_mid": last_mid, "chg": change_seq,
        "unread": {"pc": 0, "mobile": 0}, "read_mid": {"pc": last_mid, "mobile": last_mid}, "at": "8:10"})
}

/// The epoch was raised, or the token is ahead of the log, in the middle of the pages of another sync.
#[test]
fn a_full_sync_begins_anew_between_the_pages_of_another() {
    let row = |peer: i64| {
        let mut row = row_of(1, 0, "text");
        row["peer"] = json!(peer.to_string());
        row
    };
    let of_epoch = |epoch: u32, next: i64| {
        SyncToken::new(epoch, &PartitionMap::full(|_| NextOffset::new(next)))
    };
    for (full, next) in [
        (false, of_epoch(1, 10)),
        (true, of_epoch(2, 10)),
        (true, of_epoch(1, 9)),
    ] {
        let mut device = device();
        let gone = json!({"conversations": [row(1001), row(1002)], "more": true, "full": full});
        device.take_sync(answer(gone));
        take(&mut device, 10, message(2, 1002, ME, 2));
        let first = json!({"conversations": [row(1002)], "more": true, "full": true, "next": next});
        device.take_sync(answer(first));
        let messages = |device: &DeviceState, peer| {
            let chat = device.chats().get(&Recipient::User(user(peer)));
            chat.map(|chat| chat.messages.len())
        };
        assert_eq!(messages(&device, 1002), Some(0), "the log may be another");
        let last = json!({"conversations": [row(1003)], "full": true, "next": next});
        device.take_sync(answer(last));
        let left: Vec<Recipient> = device.chats().keys().copied().collect();
        assert_eq!(left, [1002, 1003].map(|peer| Recipient::User(user(peer))));
    }
}

#[test]
fn a_sync_that_is_behind_a_page_hides_no_message() {
    let mut device = device();
    take(&mut device, 10, message(1, 1001, ME, 1));
    let fetched = json!({"items": [{
        "mid": 2, "srcid": ME.to_string(), "destid": "1001", "msg": "text 2", "ts": "2026-11-26T00:00:00Z", "client_msg_id": "id-2",
    }], "next": null});
    device.take_messages(peer(), serde_json::from_value(fetched).unwrap());
    let zero = json!({"pc": 1, "mobile": 1});
    let row = json!({
        "peer": "1001", "last": null, "last_mid": 1, "chg": 0, "favourite": false, "pinned": false, "muted": false, "blocked": false,
        "unread": zero, "read_mid": {"pc": 0, "mobile": 0}, "peer_n": 1, "at": "17:10",
    });
    device.take_sync(answer(json!({"conversations": [row], "next": token(11)})));
    take(&mut device, 11, message(2, ME, 1001, 1));
    let chat = &device.chats()[&peer()];
    assert_eq!(chat.last_mid.get(), 2);
    assert_eq!(chat.last.as_ref().unwrap().msg, "text 2");
}

#[test]
fn who_has_joined_again_fetches_what_a_page_left_out() {
    let mut device = device();
    let row = |join_mid: i64, whole_history: bool| {
        json!({
            "gid": GROUP.to_string(), "name": "Lunch", "role": "member", "muted": false, "dissolved": false, "member_count": 3,
            "whole_history": whole_history, "join_mid": join_mid, "last": null, "last_mid": 3, "chg": 0,
            "unread": {"pc": 0, "mobile": 0}, "read_mid": {"pc": 3, "mobile": 3}, "at": "8:10",
        })
    };
    device.take_sync(answer(json!({"groups": [row(0, false)]})));
    // The user has joined again after the second message, which the device does not know yet.
    let fetched = json!({"items": [{
        "mid": 3, "srcid": "1001", "gid": GROUP.to_string(), "msg": "text 3", "ts": "2026-11-26T00:00:00Z", "client_msg_id": "id-3",
    }], "next": null});
    device.take_messages(group(), serde_json::from_value(fetched).unwrap());
    assert_eq!(device.chats()[&group()].missing(), None);
    device.take_sync(answer(json!({"groups": [row(2, true)]})));
    let missing = device.chats()[&group()].missing();
    assert_eq!(missing.unwrap().after_mid, Mid::ZERO);
}

/// The group has been switched to its whole history, or back, and the device has yet to hear of it; or it never does, since a sync comes after both.
#[test]
fn a_page_of_another_part_of_the_history_is_not_taken() {
    let mut device = device();
    take(&mut device, 11, members(Some("member"), true));
    take_head(&mut device, 8, 1, 0);
    let missing = |device: &DeviceState| device.chats()[&group()].missing();
    let before = missing(&device);
    for (begins_after_mid, is_taken) in [(0, false), (7, true)] {
        let page = |item: &Value| json!({"items": [item], "next": null, "begins_after_mid": begins_after_mid});
        let messages = page(&group_message(8, 1001)["message"]);
        device.take_messages(group(), serde_json::from_value(messages).unwrap());
        let recall = json!({"chg": 1, "mid": 8, "kind": "recall", "ts": "2026-11-26T00:00:02Z"});
        let changes = serde_json::from_value(page(&recall)).unwrap();
        device.take_changes(group(), ChangesAfter::default(), changes);
        let expected = before.filter(|_| !is_taken);
        assert_eq!(missing(&device), expected, "{begins_after_mid}");
    }
}

#[test]
fn what_was_stored_is_what_is_known() {
    let mut device = device();
    take(&mut device, 11, members(Some("member"), true));
    take(&mut device, 12, group_message(8, 1001));
    take(&mut device, 13, message(1, 1001, ME, 1));
    let stored = serde_json::to_string(&device).unwrap();
    let mut restored: DeviceState = serde_json::from_str(&stored).unwrap();
    assert_eq!(format!("{restored:?}"), format!("{device:?}"));
    assert_eq!(take(&mut restored, 13, message(1, 1001, ME, 1)), None);
    assert_eq!(
        take(&mut restored, 14, message(2, 1001, ME, 2)),
        Some(peer())
    );
    assert_eq!(unread(&restored, peer()), [Some(2); 2]);
}

pub(super) fn device_settings() -> DeviceSettings {
    DeviceSettings {
        gateways: vec!["ws://127.0.0.1:1".to_owned()],
        device: "a".to_owned().try_into().unwrap(),
        class: DeviceClass::Pc,
        name: String::new(),
        token: None,
        max_msg_bytes: MAX_MSG_BYTES,
    }
}

pub(super) fn connected() -> Device {
    let client = Client::builder("http://127.0.0.1:1", "http://127.0.0.1:1");
    let mut state = DeviceState::new(user(1));
    state.take_sync(answer(json!({})));
    Device::new(
        client.build().unwrap(),
        device_settings(),
        state,
        Outbox::default(),
    )
    .unwrap()
}

#[tokio::test]
async fn who_types_and_who_is_there_is_handed_on_and_is_no_state() {
    let mut device = connected();
    let gid = 5.try_into().unwrap();
    let presence = |online, classes| {
        Update::Presence(PresenceBody {
            uid: user(2),
            online,
            classes,
            last_seen: None,
        })
    };
    for (frame, update) in [
        (
            r#"{"type":"typing","from":"2","to":"1"}"#,
            Update::Typing(Recipient::User(user(2)), user(2)),
        ),
        (
            r#"{"type":"typing","from":"2","gid":"5"}"#,
            Update::Typing(Recipient::Group(gid), user(2)),
        ),
        (
            r#"{"type":"presence","uid":"2","online":true,"classes":["mobile"]}"#,
            presence(Some(true), vec![DeviceClass::Mobile]),
        ),
        (
            r#"{"type":"presence","uid":"2","online":null}"#,
            presence(None, Vec::new()),
        ),
    ] {
        device.take(serde_json::from_str(frame).unwrap()).unwrap();
        assert_eq!(device.updates.pop_front(), Some(update), "{frame}");
    }
    assert!(device.state().chats().is_empty());
}
