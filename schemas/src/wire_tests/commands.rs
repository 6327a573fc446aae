//! What each field of a command is read as, and written as.

use prost_reflect::DynamicMessage;
use serde_json::{Value, json};

use super::{
    WordVerdict, changes, coverage::gaps, descriptor, group, is_written, message, mid,
    read_command, to_group, to_user, user,
};
use crate::{
    Change, ChangeContact, ChangeGroup, ChangeMessage, CreateGroup, DeviceClass, GroupAction,
    GroupRole, Profile, SetGroupOptions,
    command::{Command, Control, InboundValue, ReadAck, SendMessage},
};

/// A command as the `.proto` files have it, and as it is here.
type Example = (Value, InboundValue);

fn hold(examples: Vec<Example>) {
    for (fields, expected) in examples {
        let wire = message("InboundCommand", &fields);
        assert_eq!(read_command(&wire), expected);
        is_written(&expected.encode(), &wire);
    }
}

#[test]
fn a_send_has_its_fields() {
    hold(sends());
}

#[test]
fn a_read_ack_has_its_fields() {
    hold(read_acks());
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
fn a_control_record_has_its_fields() {
    hold(controls());
}

#[test]
fn every_field_of_a_command_is_told_from_every_other() {
    let examples = [
        sends(),
        read_acks(),
        message_changes(),
        contact_changes(),
        group_changes(),
        profiles(),
        controls(),
    ];
    let messages: Vec<DynamicMessage> = examples
        .iter()
        .flatten()
        .map(|(fields, _)| message("InboundCommand", fields))
        .collect();
    assert_eq!(gaps(&descriptor("InboundCommand"), &messages), [""; 0]);
}

fn sends() -> Vec<Example> {
    let to_group = SendMessage {
        srcid: user(11),
        to: to_group(16),
        client_msg_id: "id".to_owned().try_into().unwrap(),
        msg: "text".to_owned(),
        by_user: true,
    };
    let to_user = SendMessage {
        to: to_user(12),
        by_user: false,
        ..to_group.clone()
    };
    vec![
        (
            json!({
                "sendMessage": {"srcid": 11, "destid": 12, "clientMsgId": "id", "msg": "text"},
                "words": {"action": "WORD_ACTION_FLAGGED", "dictionary": 91},
            }),
            InboundValue {
                words: Some(WordVerdict {
                    masked: false,
                    dictionary: 91,
                }),
                ..Command::Send(to_user).into()
            },
        ),
        (
            json!({
                "sendMessage": {"srcid": 11, "gid": 16, "clientMsgId": "id", "msg": "text", "byUser": true},
                "commandId": "of no use",
                "words": {"action": "WORD_ACTION_MASKED", "dictionary": 91},
            }),
            InboundValue {
                command: Command::Send(to_group),
                id: "of no use".to_owned(),
                words: Some(WordVerdict {
                    masked: true,
                    dictionary: 91,
                }),
            },
        ),
    ]
}

fn read_acks() -> Vec<Example> {
    let on_pc = ReadAck {
        uid: user(11),
        to: to_user(12),
        device: DeviceClass::Pc,
        mid: Some(mid(14)),
    };
    let on_mobile = ReadAck {
        to: to_group(15),
        device: DeviceClass::Mobile,
        mid: None,
        ..on_pc
    };
    vec![
        (
            json!({"readAck": {"uid": 11, "peer": 12, "device": "DEVICE_CLASS_PC", "mid": 14}}),
            Command::ReadAck(on_pc).into(),
        ),
        (
            json!({"readAck": {"uid": 11, "gid": 15, "device": "DEVICE_CLASS_MOBILE"}}),
            Command::ReadAck(on_mobile).into(),
        ),
    ]
}

fn message_changes() -> Vec<Example> {
    let command = |to, change| {
        Command::ChangeMessage(ChangeMessage {
            by: user(11),
            to,
            mid: mid(14),
            change,
        })
    };
    let in_group = |(kind, msg, change)| {
        (
            json!({"changeMessage": {"by": 11, "gid": 13, "mid": 14, "kind": kind, "msg": msg}}),
            command(to_group(13), change).into(),
        )
    };
    let with_user = (
        json!({"changeMessage": {"by": 11, "peer": 12, "mid": 14, "kind": "CHANGE_KIND_RECALL"}}),
        command(to_user(12), Change::Recall).into(),
    );
    let all = changes().into_iter().map(in_group);
    all.chain([with_user]).collect()
}

fn contact_changes() -> Vec<Example> {
    let nothing = ChangeContact {
        uid: user(11),
        peer: user(12),
        favourite: None,
        pinned: None,
        muted: None,
        blocked: None,
        deleted: false,
        by_user: false,
    };
    let changes = [
        (
            json!({"favourite": true, "pinned": false}),
            ChangeContact {
                favourite: Some(true),
                pinned: Some(false),
                ..nothing
            },
        ),
        (
            json!({"muted": true, "blocked": false}),
            ChangeContact {
                muted: Some(true),
                blocked: Some(false),
                ..nothing
            },
        ),
        (
            json!({"pinned": true, "blocked": true, "byUser": true}),
            ChangeContact {
                pinned: Some(true),
                blocked: Some(true),
                by_user: true,
                ..nothing
            },
        ),
        (
            json!({"deleted": true}),
            ChangeContact {
                deleted: true,
                ..nothing
            },
        ),
    ];
    let example = |(mut fields, change): (Value, ChangeContact)| {
        fields["uid"] = json!(11);
        fields["peer"] = json!(12);
        let command = Command::ChangeContact(change).into();
        (json!({ "changeContact": fields }), command)
    };
    changes.map(example).into()
}

fn group_changes() -> Vec<Example> {
    let actions = [
        (
            json!({"create": {"name": "Lunch", "members": [31, 32], "open": true, "clientId": "id"}}),
            GroupAction::Create(CreateGroup {
                name: "Lunch".to_owned(),
                members: vec![user(31), user(32)],
                open: true,
                whole_history: false,
                client_id: Some("id".to_owned()),
            }),
        ),
        (
            json!({"add": {"uids": [31, 32]}}),
            GroupAction::Add(vec![user(31), user(32)]),
        ),
        (
            json!({"remove": {"uids": [31, 32]}}),
            GroupAction::Remove(vec![user(31), user(32)]),
        ),
        (json!({"join": {}}), GroupAction::Join),
        (json!({"leave": {}}), GroupAction::Leave),
        (
            json!({"rename": "Dinner"}),
            GroupAction::Rename("Dinner".to_owned()),
        ),
        (
            json!({"mute": {"uid": 31}}),
            GroupAction::Mute(Some(user(31))),
        ),
        (json!({"mute": {}}), GroupAction::Mute(None)),
        (
            json!({"unmute": {"uid": 31}}),
            GroupAction::Unmute(Some(user(31))),
        ),
        (json!({"unmute": {}}), GroupAction::Unmute(None)),
        (
            json!({"options": {"open": true}}),
            GroupAction::SetOptions(SetGroupOptions {
                open: Some(true),
                whole_history: None,
            }),
        ),
        (
            json!({"options": {"open": false, "wholeHistory": true}}),
            GroupAction::SetOptions(SetGroupOptions {
                open: Some(false),
                whole_history: Some(true),
            }),
        ),
        (json!({"dissolve": {}}), GroupAction::Dissolve),
    ];
    let roles = [
        ("GROUP_ROLE_MEMBER", GroupRole::Member),
        ("GROUP_ROLE_ADMIN", GroupRole::Admin),
        ("GROUP_ROLE_OWNER", GroupRole::Owner),
    ];
    let roles = roles.map(|(name, role)| {
        let uid = user(31);
        let action = GroupAction::SetRole { uid, role };
        (json!({"role": {"uid": 31, "role": name}}), action)
    });
    let unnamed = GroupAction::Create(CreateGroup {
        name: "Lunch".to_owned(),
        members: Vec::new(),
        open: false,
        whole_history: true,
        client_id: None,
    });
    let of_a_service = json!({"create": {"name": "Lunch", "wholeHistory": true}});
    let all = actions.into_iter().chain(roles);
    let all = all.map(|(fields, action)| group_change(fields, action, true));
    all.chain([group_change(of_a_service, unnamed, false)])
        .collect()
}

fn group_change(mut fields: Value, action: GroupAction, by_user: bool) -> Example {
    fields["gid"] = json!(11);
    fields["by"] = json!(12);
    fields["byUser"] = json!(by_user);
    let command = Command::ChangeGroup(ChangeGroup {
        gid: group(11),
        by: user(12),
        by_user,
        action,
    });
    let value = InboundValue {
        id: "once".to_owned(),
        ..command.into()
    };
    (json!({"changeGroup": fields, "commandId": "once"}), value)
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
            json!({"setProfile": {"uid": 11, "nick": "Ann", "avatar": avatar, "extra": "{}"}}),
            Command::SetProfile(whole).into(),
        ),
        (
            json!({"setProfile": {"uid": 11, "nick": "Ann"}}),
            Command::SetProfile(short).into(),
        ),
    ]
}

fn controls() -> Vec<Example> {
    let control = Control {
        rule_version: Some(11),
        dedup_window_ms: Some(12),
        dedup_max_entries: Some(13),
        max_msg_bytes: Some(14),
        hash_key: Some(vec![15; 16]),
        dedup_max_per_sender: Some(16),
        new_conversations_per_day: Some(17),
        recall_window_ms: Some(18),
        delete_for_all: Some(true),
        max_group_members: Some(20),
        new_memberships_per_day: Some(21),
        max_memberships_by_others: Some(22),
    };
    let fields = json!({
        "ruleVersion": 11,
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
    vec![
        (
            json!({ "control": fields }),
            Command::Control(control).into(),
        ),
        (
            json!({"control": {}}),
            Command::Control(Control::default()).into(),
        ),
    ]
}
