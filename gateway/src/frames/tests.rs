//! How long frames are.

use proptest::{collection::vec, option, prelude::*};
use schemas::{
    Change, ChangeSeq, ContactChange, ContactFlags, DeletedContact, DeviceClass, EventPosition,
    GroupChange, GroupChangeKind, GroupId, GroupMember, GroupRole, GroupSettings, MessageChange,
    Mid, Ordinal, Partition, Profile, Recipient, TimestampMs, UserId,
    event::{Body, Event, Message, ReadPosition, Source, SourceOffset},
};

use crate::hub::RingEvent;

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

fn change_seq() -> impl Strategy<Value = ChangeSeq> {
    (0..=i64::MAX).prop_map(|change_seq| change_seq.try_into().unwrap())
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
                ordinal: n,
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
                ordinal: n,
            })
        },
    )
}

fn message_change() -> impl Strategy<Value = Body> {
    let change = prop_oneof![
        text().prop_map(Change::Edit),
        text().prop_map(Change::React),
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
        change_seq(),
        option::of(ordinal()),
    )
        .prop_map(|(by, to, mid, change, change_seq, n)| {
            Body::MessageChange(MessageChange {
                by,
                to,
                mid,
                change,
                change_seq,
                ordinal: n,
            })
        })
}

fn contact_change() -> impl Strategy<Value = Body> {
    let deleted = (mid(), ordinal()).prop_map(|(mid, n)| DeletedContact { mid, ordinal: n });
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

proptest! {
    #[test]
    fn no_frame_of_an_event_is_longer_than_it_counts(event in event(), user in uid()) {
        let length = event.frame_for(user).len();
        prop_assert!(length <= event.frame_bytes(), "{length}, not {}: {event:?}", event.frame_bytes());
    }
}
