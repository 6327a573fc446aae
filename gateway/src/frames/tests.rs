//! JSON and protobuf of a frame say the same.

use axum::extract::ws::Message as WebSocketMessage;
use proptest::{collection::vec, option, prelude::*};
use prost::Message as _;
use schemas::{
    Change, Chg, ContactChange, ContactFlags, DeletedContact, DeviceClass, EventPosition,
    GroupChange, GroupChangeKind, GroupId, GroupMember, GroupRole, GroupSettings, MessageChange,
    Mid, Ordinal, Partition, Profile, Recipient, TimestampMs, UserId,
    event::{Body, Event, Message, ReadPosition, Source, SourceOffset},
};
use serde_json::{Value, json};

use super::{
    ClientFrame, Format, NoFrame, PresenceBody, ServerFrame, event_frame, head_frame,
    values::{At, ShortText, Time},
};
use crate::hub::{Head, RingEvent};

#[path = "../../tests/ws/proto_as_json.rs"]
mod proto_as_json;

fn parsed(format: Format, message: WebSocketMessage) -> Result<ClientFrame, NoFrame> {
    format.parse(&message).unwrap()
}

fn assert_same(frame: &ServerFrame<'_>) {
    let json = Format::Json.encode(frame);
    let json: Value = serde_json::from_str(json.to_text().unwrap()).unwrap();
    let proto = Format::Proto.encode(frame).into_data();
    let proto = schemas::proto::ServerFrame::decode(proto).unwrap();
    assert_eq!(proto_as_json::to_json(proto), json);
}

fn uid() -> impl Strategy<Value = UserId> {
    (1..=i64::MAX).prop_map(|uid| uid.try_into().unwrap())
}

fn gid() -> impl Strategy<Value = GroupId> {
    (1..=i64::MAX).prop_map(|gid| gid.try_into().unwrap())
}

fn recipient() -> impl Strategy<Value = Recipient> {
    prop_oneof![
        uid().prop_map(Recipient::User),
        gid().prop_map(Recipient::Group)
    ]
}

fn mid() -> impl Strategy<Value = Mid> {
    (0..=i64::MAX).prop_map(|mid| mid.try_into().unwrap())
}

fn ordinal() -> impl Strategy<Value = Ordinal> {
    (0..=i64::MAX).prop_map(|n| n.try_into().unwrap())
}

fn chg() -> impl Strategy<Value = Chg> {
    (0..=i64::MAX).prop_map(|chg| chg.try_into().unwrap())
}

/// Some of what JSON writes longer than it is.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![".+", "[\u{1}-\u{1f}\"\\\\a]{1,99}"]
}

fn class() -> impl Strategy<Value = DeviceClass> {
    proptest::sample::select(DeviceClass::ALL.to_vec())
}

fn message() -> impl Strategy<Value = Body> {
    (
        uid(),
        recipient(),
        "[a-z\"\\\\]{1,64}",
        text(),
        mid(),
        ordinal(),
    )
        .prop_map(|(srcid, to, id, msg, mid, n)| {
            let client_msg_id = id.try_into().unwrap();
            Body::Message(Message {
                srcid,
                to,
                client_msg_id,
                msg,
                mid,
                n,
            })
        })
}

fn read_position() -> impl Strategy<Value = Body> {
    (uid(), recipient(), class(), mid(), option::of(ordinal())).prop_map(
        |(uid, to, device, mid, n)| {
            Body::ReadPosition(ReadPosition {
                uid,
                to,
                device,
                mid,
                n,
            })
        },
    )
}

fn message_change() -> impl Strategy<Value = Body> {
    let change = prop_oneof![
        text().prop_map(Change::Edit),
        proptest::sample::select(vec![
            Change::Recall,
            Change::Delete,
            Change::Hide,
            Change::Clear,
        ]),
    ];
    (
        uid(),
        recipient(),
        mid(),
        change,
        chg(),
        option::of(ordinal()),
    )
        .prop_map(|(by, to, mid, change, chg, n)| {
            Body::MessageChange(MessageChange {
                by,
                to,
                mid,
                change,
                chg,
                n,
            })
        })
}

fn contact_change() -> impl Strategy<Value = Body> {
    let deleted = (mid(), ordinal()).prop_map(|(mid, n)| DeletedContact { mid, n });
    (uid(), uid(), any::<[bool; 4]>(), option::of(deleted)).prop_map(
        |(uid, peer, [favourite, pinned, muted, blocked], deleted)| {
            let flags = ContactFlags {
                favourite,
                pinned,
                muted,
                blocked,
            };
            Body::ContactChange(ContactChange {
                uid,
                peer,
                flags,
                deleted,
            })
        },
    )
}

fn profile() -> impl Strategy<Value = Body> {
    let extra = proptest::sample::select(vec![r"{}", r#"{"a":[1,null]}"#]);
    let extra = option::of(extra.prop_map(str::to_owned));
    (uid(), text(), option::of("http://.{1,9}"), extra).prop_map(|(uid, nick, avatar, extra)| {
        Body::Profile(Profile {
            uid,
            nick,
            avatar,
            extra,
        })
    })
}

fn group_change() -> impl Strategy<Value = Body> {
    use GroupChangeKind::{
        Add, Create, Dissolve, Join, Leave, Mute, Remove, Rename, SetOptions, SetRole, Unmute,
    };
    let kinds = vec![
        Create, Add, Remove, Join, Leave, SetRole, Rename, Mute, Unmute, SetOptions, Dissolve,
    ];
    let role = option::of(proptest::sample::select(GroupRole::ALL.to_vec()));
    let member = (uid(), role, any::<[bool; 2]>());
    let member = member.prop_map(|(uid, role, [muted, joined])| GroupMember {
        uid,
        role,
        muted,
        joined,
    });
    let settings = (text(), uid(), any::<[bool; 4]>()).prop_map(
        |(name, owner, [open, whole_history, muted, dissolved])| GroupSettings {
            name,
            owner,
            open,
            whole_history,
            muted,
            dissolved,
        },
    );
    let kind = proptest::sample::select(kinds);
    (
        gid(),
        uid(),
        kind,
        settings,
        0..=i64::MAX,
        mid(),
        vec(member, 0..20),
    )
        .prop_map(
            |(gid, by, kind, settings, member_count, last_mid, members)| {
                Body::GroupChange(Box::new(GroupChange {
                    gid,
                    by,
                    kind,
                    settings,
                    member_count,
                    last_mid,
                    members,
                }))
            },
        )
}

fn event() -> impl Strategy<Value = RingEvent> {
    let body = prop_oneof![
        message(),
        read_position(),
        message_change(),
        contact_change(),
        profile(),
        group_change(),
    ];
    let partition = (0..64_i64).prop_map(|p| Partition::try_from(p).unwrap());
    (partition, 0..=i64::MAX, 0..=4_102_444_800_000_i64, body).prop_map(
        |(partition, offset, ts, body)| {
            let offset_of_cause = SourceOffset { epoch: 1, offset };
            let src = Source {
                offset: offset_of_cause,
                leader_epoch: 1,
            };
            let words = Some(schemas::WordVerdict {
                masked: true,
                dictionary: 1,
            });
            let event = Event {
                src,
                ts: TimestampMs(ts),
                body,
                command: None,
                words,
            };
            RingEvent::new(EventPosition { partition, offset }, event, 100)
        },
    )
}

/// An id of 0 is none in protobuf, and no id in JSON.
fn id() -> impl Strategy<Value = i64> {
    any::<i64>().prop_filter("none", |id| *id != 0)
}

fn one_of_two(kind: &'static str, user: &'static str) -> impl Strategy<Value = Value> {
    (id(), any::<bool>()).prop_map(move |(id, is_group)| {
        let of_what = if is_group { "gid" } else { user };
        json!({"type": kind, of_what: id.to_string()})
    })
}

/// Frames of a device, and some that are none.
fn client_frame() -> impl Strategy<Value = Value> {
    let since = prop_oneof![Just(json!(null)), ".{1,9}".prop_map(Value::from)];
    let hello = (
        "[a-z ]{0,9}",
        proptest::sample::select(vec!["pc", "mobile", "tv"]),
        ".{60,66}",
        option::of(since),
    )
        .prop_map(|(id, class, name, since)| {
            let mut hello =
                json!({"type": "hello", "device": {"id": id, "class": class, "name": name}});
            if let Some(since) = since {
                hello["since"] = since;
            }
            hello
        });
    // An empty ref is none in protobuf.
    let send = (".+", id(), any::<bool>(), ".*", ".*").prop_map(|(reference, to, is_group, id, msg)| {
        let to_what = if is_group { "gid" } else { "to" };
        json!({"type": "send", "ref": reference, to_what: to.to_string(), "client_msg_id": id, "msg": msg})
    });
    let read =
        (".+", id(), any::<bool>(), any::<i64>()).prop_map(|(reference, peer, is_group, mid)| {
            let of_what = if is_group { "gid" } else { "peer" };
            json!({"type": "read", "ref": reference, of_what: peer.to_string(), "mid": mid})
        });
    prop_oneof![
        hello,
        send,
        read,
        ".*".prop_map(|since| json!({"type": "resume", "since": since})),
        Just(json!({"type": "pong"})),
        one_of_two("typing", "to"),
        one_of_two("focus", "peer"),
    ]
}

proptest! {
    #[test]
    fn an_event_says_the_same_in_both_formats(event in event()) {
        assert_same(&event_frame(&event, None));
    }

    #[test]
    fn no_frame_of_an_event_is_longer_than_it_counts(event in event(), user in uid()) {
        for format in Format::ALL {
            let length = event.frame_for(user, format).len();
            prop_assert!(length <= event.frame_bytes(), "{length}, not {}: {event:?}", event.frame_bytes());
        }
    }

    #[test]
    fn other_frames_say_the_same_in_both_formats(
        [first, second, third] in any::<[String; 3]>(), token in option::of(".*"), flag: bool,
        after_ms: u64, ping_seconds: u32, (uid, gid, mid, chg) in (uid(), gid(), mid(), chg()), number in option::of(0..i64::MAX),
        ts in 0..=4_102_444_800_000_i64, offset in 0..i64::MAX,
    ) {
        let token = token.as_deref();
        let ts = number.map(|_| Time(TimestampMs(ts)));
        for frame in [
            ServerFrame::Welcome { resumed: flag, token: &first, frames_per_s: 50, bytes_per_s: 1 << 18, ping_seconds },
            ServerFrame::SyncRequired { after_ms, ping_seconds, token },
            ServerFrame::Ping { token },
            ServerFrame::Accepted { reference: &first, at: At((Partition::FIRST, offset)) },
            ServerFrame::Sent { reference: &first, mid: number, ts },
            ServerFrame::Refused { reference: &first, reason: &second, detail: &third, retry: flag },
            ServerFrame::Error { detail: &first },
            ServerFrame::typing(uid, Recipient::Group(gid)),
            ServerFrame::typing(uid, Recipient::User(uid)),
            ServerFrame::Presence(PresenceBody::unknown(uid)),
            ServerFrame::Presence(PresenceBody {
                online: Some(flag),
                classes: DeviceClass::ALL.to_vec(),
                last_seen: ts,
                ..PresenceBody::unknown(uid)
            }),
            ServerFrame::Replaced,
            ServerFrame::Reconnect { after_ms },
            head_frame(&Head { gid, offset, last_offset: offset, mid, chg, own_mid: mid }),
        ] {
            assert_same(&frame);
        }
    }

    #[test]
    fn a_frame_of_a_device_is_the_same_in_both_formats(frame in client_frame()) {
        let json = parsed(Format::Json, WebSocketMessage::text(frame.to_string()));
        let proto = proto_as_json::from_json(&frame).encode_to_vec();
        let proto = parsed(Format::Proto, WebSocketMessage::binary(proto));
        let reference = |wrong: NoFrame| wrong.reference;
        prop_assert_eq!(json.map_err(reference), proto.map_err(reference));
    }

    #[test]
    fn bytes_are_a_frame_or_an_error(bytes: Vec<u8>) {
        let _ = parsed(Format::Proto, WebSocketMessage::binary(bytes));
    }
}

#[test]
fn what_is_no_frame_of_protobuf_names_the_field_and_the_ref() {
    let hello =
        |id: &str, class: &str| json!({"type": "hello", "device": {"id": id, "class": class}});
    let send = |reference: &str, to: &str, id: &str| json!({"type": "send", "ref": reference, "to": to, "client_msg_id": id, "msg": "a"});
    let long = "x".repeat(65);
    for (frame, reference, detail) in [
        (hello("a b", "pc"), None, "device.id is \"a b\"; must be "),
        (
            hello("a", "tv"),
            None,
            "device.class is 0; must be 1 (pc) or 2 (mobile)",
        ),
        (send("7", "-5", "a"), Some("7"), "to is -5; must be a uid"),
        (
            send("7", "5", ""),
            Some("7"),
            "client_msg_id is empty; must be",
        ),
        (send("", "5", "a"), None, "ref is missing; must be present"),
        (
            send(&long, "5", "a"),
            None,
            "ref has 65 characters; must be 64 at most",
        ),
    ] {
        let bytes = proto_as_json::from_json(&frame).encode_to_vec();
        let wrong = parsed(Format::Proto, WebSocketMessage::binary(bytes)).unwrap_err();
        let given = wrong.reference.map(|ShortText(text)| text);
        assert_eq!(given.as_deref(), reference, "{frame}");
        assert!(wrong.detail.starts_with(detail), "{}", wrong.detail);
    }
}

#[test]
fn a_frame_of_the_other_kind_is_none() {
    assert!(
        Format::Json
            .parse(&WebSocketMessage::binary("{}"))
            .is_none()
    );
    assert!(Format::Proto.parse(&WebSocketMessage::text("{}")).is_none());
    let unknown = parsed(
        Format::Proto,
        WebSocketMessage::binary(vec![0xfa, 0x07, 0x00]),
    );
    let detail = "type is not known here; must be hello, resume, send, read, pong, typing or focus";
    assert_eq!(unknown.unwrap_err().detail, detail);
    let json = parsed(Format::Proto, WebSocketMessage::binary("{}"));
    let detail = json.unwrap_err().detail;
    for part in ["chat.v1.ClientFrame", "tidemark.v1.json"] {
        assert!(detail.contains(part), "{detail}");
    }
}
