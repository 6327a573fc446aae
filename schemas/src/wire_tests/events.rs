//! What each field of an event is read as, and written as.

use prost_reflect::DynamicMessage;
use serde_json::{Value, json};

use super::{
    TS, WordVerdict, change_seq, changes, coverage::gaps, descriptor, group, is_written, message,
    mid, ordinal, read_event, to_group, to_user, user,
};
use crate::{
    AppliedCommand, Change, ContactChange, ContactFlags, DeletedContact, DeviceClass, GroupChange,
    GroupChangeKind, GroupMember, GroupRole, GroupSettings, MessageChange, Profile,
    event::{Body, Event, Message, ReadPosition, Rules, Source, SourceOffset},
};

/// A body as the `.proto` files have it, and as it is here.
type Example = (Value, Body);

/// The fields that an event has besides its body.
fn envelope(mut body: Value) -> DynamicMessage {
    body["src"] = json!({"epoch": 1, "offset": 2, "leaderEpoch": 3});
    body["command"] = json!({"id": "once", "content": 4});
    body["words"] = json!({"action": "WORD_ACTION_MASKED", "dictionary": 5});
    message("SequencedEvent", &body)
}

fn event(body: Body) -> Event {
    Event {
        src: Source {
            offset: SourceOffset {
                epoch: 1,
                offset: 2,
            },
            leader_epoch: 3,
        },
        ts: TS,
        body,
        command: Some(Box::new(AppliedCommand {
            id: "once".to_owned().try_into().unwrap(),
            content: 4,
        })),
        words: Some(WordVerdict {
            masked: true,
            dictionary: 5,
        }),
    }
}

fn hold(examples: Vec<Example>) {
    for (fields, body) in examples {
        let (wire, expected) = (envelope(fields), event(body));
        assert_eq!(read_event(&wire), expected);
        is_written(&expected.encode(), &wire);
    }
}

#[test]
fn a_message_has_its_fields() {
    hold(messages());
}

#[test]
fn a_read_position_has_its_fields() {
    hold(read_positions());
}

#[test]
fn a_change_to_a_message_has_its_fields() {
    hold(message_changes());
}

#[test]
fn a_change_to_a_contact_has_its_fields() {
    hold(contact_changes());
}

#[test]
fn a_change_to_a_group_has_its_fields() {
    hold(group_changes());
}

#[test]
fn a_profile_has_its_fields() {
    hold(profiles());
}

#[test]
fn rules_have_their_fields() {
    hold(rules());
}

#[test]
fn progress_has_no_fields() {
    hold(progress());
}

#[test]
fn what_an_event_may_lack_is_absent() {
    let wire = message(
        "SequencedEvent",
        &json!({"src": {"offset": -1}, "progress": {}}),
    );
    let expected = Event {
        src: Source {
            offset: SourceOffset::START,
            leader_epoch: 0,
        },
        command: None,
        words: None,
        ..event(Body::Progress)
    };
    assert_eq!(read_event(&wire), expected);
    is_written(&expected.encode(), &wire);
}

#[test]
fn every_field_of_an_event_is_told_from_every_other() {
    let examples = [
        messages(),
        read_positions(),
        message_changes(),
        contact_changes(),
        group_changes(),
        profiles(),
        rules(),
        progress(),
    ];
    let bodies = examples.into_iter().flatten();
    let mut events: Vec<DynamicMessage> = bodies.map(|(fields, _)| envelope(fields)).collect();
    // All other examples have the other action.
    events.push(message(
        "SequencedEvent",
        &json!({"words": {"action": "WORD_ACTION_FLAGGED"}}),
    ));
    assert_eq!(gaps(&descriptor("SequencedEvent"), &events), [""; 0]);
}

fn messages() -> Vec<Example> {
    let to_user = Message {
        srcid: user(11),
        to: to_user(12),
        client_msg_id: "id".to_owned().try_into().unwrap(),
        msg: "text".to_owned(),
        mid: mid(15),
        ordinal: ordinal(16),
    };
    let to_group = Message {
        to: to_group(17),
        ordinal: ordinal(0),
        ..to_user.clone()
    };
    vec![
        (
            json!({"message": {"srcid": 11, "destid": 12, "clientMsgId": "id", "msg": "text", "mid": 15, "n": 16}}),
            Body::Message(to_user),
        ),
        (
            json!({"message": {"srcid": 11, "gid": 17, "clientMsgId": "id", "msg": "text", "mid": 15}}),
            Body::Message(to_group),
        ),
    ]
}

fn read_positions() -> Vec<Example> {
    let on_pc = ReadPosition {
        uid: user(11),
        to: to_user(12),
        device: DeviceClass::Pc,
        mid: mid(14),
        ordinal: Some(ordinal(15)),
    };
    let on_mobile = ReadPosition {
        to: to_group(16),
        device: DeviceClass::Mobile,
        ordinal: None,
        ..on_pc
    };
    vec![
        (
            json!({"readPosition": {"uid": 11, "peer": 12, "device": "DEVICE_CLASS_PC", "mid": 14, "n": 15}}),
            Body::ReadPosition(on_pc),
        ),
        (
            json!({"readPosition": {"uid": 11, "gid": 16, "device": "DEVICE_CLASS_MOBILE", "mid": 14}}),
            Body::ReadPosition(on_mobile),
        ),
    ]
}

fn message_changes() -> Vec<Example> {
    let clear = MessageChange {
        by: user(11),
        to: to_user(12),
        mid: mid(14),
        change: Change::Clear,
        change_seq: change_seq(17),
        ordinal: Some(ordinal(18)),
    };
    let in_group = |(kind, msg, change)| {
        let fields = json!({"by": 11, "gid": 13, "mid": 14, "kind": kind, "msg": msg, "chg": 17});
        let body = Body::MessageChange(MessageChange {
            to: to_group(13),
            change,
            ordinal: None,
            ..clear.clone()
        });
        (json!({ "messageChange": fields }), body)
    };
    let own = MessageChange {
        change: Change::Hide,
        change_seq: change_seq(0),
        ordinal: None,
        ..clear.clone()
    };
    let between_users = [
        (
            json!({"messageChange": {"by": 11, "peer": 12, "mid": 14, "kind": "CHANGE_KIND_HIDE"}}),
            Body::MessageChange(own),
        ),
        (
            json!({"messageChange": {"by": 11, "peer": 12, "mid": 14, "kind": "CHANGE_KIND_CLEAR", "chg": 17, "n": 18}}),
            Body::MessageChange(clear.clone()),
        ),
    ];
    let all = changes().into_iter().map(in_group);
    all.chain(between_users).collect()
}

fn contact_changes() -> Vec<Example> {
    let change = |[favourite, pinned, muted, blocked]: [bool; 4], deleted| {
        Body::ContactChange(ContactChange {
            uid: user(11),
            peer: user(12),
            flags: ContactFlags {
                favourite,
                pinned,
                muted,
                blocked,
            },
            deleted,
        })
    };
    let deleted = DeletedContact {
        mid: mid(18),
        ordinal: ordinal(19),
    };
    vec![
        (
            json!({"contactChange": {"uid": 11, "peer": 12, "favourite": true, "pinned": true}}),
            change([true, true, false, false], None),
        ),
        (
            json!({"contactChange": {"uid": 11, "peer": 12, "favourite": true, "muted": true}}),
            change([true, false, true, false], None),
        ),
        (
            json!({"contactChange": {"uid": 11, "peer": 12, "blocked": true, "deleted": {"mid": 18, "n": 19}}}),
            change([false, false, false, true], Some(deleted)),
        ),
    ]
}

fn group_changes() -> Vec<Example> {
    let kinds = [
        ("CREATE", GroupChangeKind::Create),
        ("ADD", GroupChangeKind::Add),
        ("REMOVE", GroupChangeKind::Remove),
        ("JOIN", GroupChangeKind::Join),
        ("LEAVE", GroupChangeKind::Leave),
        ("ROLE", GroupChangeKind::SetRole),
        ("RENAME", GroupChangeKind::Rename),
        ("MUTE", GroupChangeKind::Mute),
        ("UNMUTE", GroupChangeKind::Unmute),
        ("OPTIONS", GroupChangeKind::SetOptions),
        ("DISSOLVE", GroupChangeKind::Dissolve),
    ];
    let example = |(name, kind)| {
        let fields = json!({
            "gid": 11,
            "by": 12,
            "kind": format!("GROUP_CHANGE_KIND_{name}"),
            "settings": {"name": "Lunch", "owner": 22, "open": true, "muted": true},
            "memberCount": 15,
            "lastMid": 16,
            "members": [
                {"uid": 31, "joined": true},
                {"uid": 32, "role": "GROUP_ROLE_MEMBER", "muted": true},
                {"uid": 33, "role": "GROUP_ROLE_ADMIN"},
                {"uid": 34, "role": "GROUP_ROLE_OWNER"},
            ],
        });
        let settings = settings([true, false, true, false]);
        (
            json!({ "groupChange": fields }),
            group_change(kind, settings),
        )
    };
    let mut examples: Vec<Example> = kinds.map(example).into();
    let (mut fields, _) = example(("DISSOLVE", GroupChangeKind::Dissolve));
    fields["groupChange"]["settings"] =
        json!({"name": "Lunch", "owner": 22, "open": true, "wholeHistory": true});
    let settings_of_it = settings([true, true, false, false]);
    examples.push((
        fields.clone(),
        group_change(GroupChangeKind::Dissolve, settings_of_it),
    ));
    fields["groupChange"]["settings"] = json!({"name": "Lunch", "owner": 22, "dissolved": true});
    let settings_of_it = settings([false, false, false, true]);
    examples.push((
        fields,
        group_change(GroupChangeKind::Dissolve, settings_of_it),
    ));
    examples
}

fn settings([open, whole_history, muted, dissolved]: [bool; 4]) -> GroupSettings {
    GroupSettings {
        name: "Lunch".to_owned(),
        owner: user(22),
        open,
        whole_history,
        muted,
        dissolved,
    }
}

fn group_change(kind: GroupChangeKind, settings: GroupSettings) -> Body {
    let member = |uid, role, muted, joined| GroupMember {
        uid: user(uid),
        role,
        muted,
        joined,
    };
    Body::GroupChange(Box::new(GroupChange {
        gid: group(11),
        by: user(12),
        kind,
        settings,
        member_count: 15,
        last_mid: mid(16),
        members: vec![
            member(31, None, false, true),
            member(32, Some(GroupRole::Member), true, false),
            member(33, Some(GroupRole::Admin), false, false),
            member(34, Some(GroupRole::Owner), false, false),
        ],
    }))
}

fn profiles() -> Vec<Example> {
    let avatar = "https://example.com/ann.png";
    let whole = Profile {
        uid: user(11),
        nick: "Ann".to_owned(),
        avatar: Some(avatar.to_owned()),
        extra: Some("{}".to_owned()),
    };
    let short = Profile {
        avatar: None,
        extra: None,
        ..whole.clone()
    };
    vec![
        (
            json!({"profile": {"uid": 11, "nick": "Ann", "avatar": avatar, "extra": "{}"}}),
            Body::Profile(whole),
        ),
        (
            json!({"profile": {"uid": 11, "nick": "Ann"}}),
            Body::Profile(short),
        ),
    ]
}

fn rules() -> Vec<Example> {
    let rules = Rules {
        rule_version: 3,
        dedup_window_ms: 12,
        dedup_max_entries: 13,
        max_msg_bytes: 14,
        hash_key: Some([15; 16].into()),
        dedup_max_per_sender: 16,
        new_conversations_per_day: 17,
        recall_window_ms: 18,
        delete_for_all: true,
        max_group_members: 20,
        new_memberships_per_day: 21,
        max_memberships_by_others: 22,
    };
    let fields = json!({
        "ruleVersion": 3,
        "dedupWindowMs": 12,
        "dedupMaxEntries": 13,
        "maxMsgBytes": 14,
        "hashKey": "Dw8PDw8PDw8PDw8PDw8PDw==",
        "dedupMaxPerSender": 16,
        "newConversationsPerDay": 17,
        "recallWindowMs": 18,
        "deleteForAll": true,
        "maxGroupMembers": 20,
        "newMembershipsPerDay": 21,
        "maxMembershipsByOthers": 22,
    });
    let of_version_1 = json!({
        "ruleVersion": 1,
        "dedupWindowMs": 259_200_000,
        "dedupMaxEntries": 1_000_000,
        "maxMsgBytes": 65_535,
    });
    vec![
        (json!({ "control": fields }), Body::Control(rules)),
        (
            json!({ "control": of_version_1 }),
            Body::Control(Rules::VERSION_1),
        ),
    ]
}

fn progress() -> Vec<Example> {
    vec![(json!({"progress": {}}), Body::Progress)]
}
