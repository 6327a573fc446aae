//! The protobuf bodies. The generated types say what is in them; a missing client_msg_id is an empty one.

use posting::{Post, check_length, invalid_field};
use problem::Problem;
use prost::Message;
use schemas::{
    ChangeContact, ChangeGroup, ChangeMessage, GroupId, Profile, UserId,
    command::{Command, Malformed, ReadAck, SendMessage, ingest_event},
    proto::{self, change_group::Action, ingest_event::Event},
};
use uuid::Uuid;

/// Reads the body of `POST /v1/messages`: a `SendMessage`.
pub(crate) fn message(body: &[u8], max_msg_bytes: usize) -> Result<Post, Problem> {
    send(decode(body, "SendMessage")?, max_msg_bytes)
}

/// Reads the body of `POST /v1/read-acks`: a `ReadAck`.
pub(crate) fn read_ack(body: &[u8]) -> Result<Post, Problem> {
    checked::<_, ReadAck>(decode::<proto::ReadAck>(body, "ReadAck")?)
}

/// Reads the body of `POST /v1/message-changes`: a `ChangeMessage`.
pub(crate) fn message_change(body: &[u8], max_msg_bytes: usize) -> Result<Post, Problem> {
    edit(decode(body, "ChangeMessage")?, max_msg_bytes)
}

/// Reads the body of `POST /v1/reactions`: a `ChangeMessage` that reacts.
pub(crate) fn reaction(body: &[u8]) -> Result<Post, Problem> {
    let change: proto::ChangeMessage = decode(body, "ChangeMessage")?;
    if change.kind() != proto::ChangeKind::React {
        return Err(Problem::invalid_field(
            "kind",
            "is another",
            "CHANGE_KIND_REACT",
        ));
    }
    checked::<_, ChangeMessage>(change)
}

/// Reads the body of `POST /v1/contact-changes`: a `ChangeContact`.
pub(crate) fn contact_change(body: &[u8]) -> Result<Post, Problem> {
    checked::<_, ChangeContact>(decode::<proto::ChangeContact>(body, "ChangeContact")?)
}

/// Reads the body of `POST /v1/groups`: a `ChangeGroup` that creates one.
pub(crate) fn group(body: &[u8]) -> Result<Post, Problem> {
    let change: proto::ChangeGroup = decode(body, "ChangeGroup")?;
    match change.action {
        Some(Action::Create(_)) => checked::<_, ChangeGroup>(with_gid(change)?),
        _ => Err(Problem::invalid_field("action", "is another", "create")),
    }
}

/// Reads the body of `POST /v1/groups/{gid}/changes`: a `ChangeGroup` of any other kind, whose gid is that of the path or absent.
pub(crate) fn group_change(gid: GroupId, body: &[u8]) -> Result<Post, Problem> {
    let mut change: proto::ChangeGroup = decode(body, "ChangeGroup")?;
    if change.gid != 0 && change.gid != gid.get() {
        return Err(Problem::invalid_field(
            "gid",
            format_args!("is {}", change.gid),
            format_args!("{gid}, as in the path, or absent"),
        ));
    }
    if let Some(Action::Create(_)) = change.action {
        let right = "any other: POST /v1/groups creates groups";
        return Err(Problem::invalid_field("action", "is create", right));
    }
    change.gid = gid.get();
    checked::<_, ChangeGroup>(change)
}

/// Reads the body of `PUT /v1/users/{uid}/profile`: a `SetProfile`, whose uid is that of the path or absent.
pub(crate) fn profile(uid: UserId, body: &[u8]) -> Result<Post, Problem> {
    let mut profile: proto::SetProfile = decode(body, "SetProfile")?;
    if profile.uid != 0 && profile.uid != uid.get() {
        return Err(Problem::invalid_field(
            "uid",
            format_args!("is {}", profile.uid),
            format_args!("{uid}, as in the path, or absent"),
        ));
    }
    profile.uid = uid.get();
    set_profile(profile)
}

/// Reads one item of `POST /v1/events`: an `IngestEvent` without its length.
pub(crate) fn event(item: &[u8], max_msg_bytes: usize) -> Result<Post, Problem> {
    let event =
        ingest_event(item).map_err(|error| Problem::invalid_protobuf("IngestEvent", error))?;
    let beside = (!event.command_id.is_empty()).then_some(("command_id", event.command_id));
    let Some(event) = event.event else {
        return Err(Problem::invalid_field(
            "event",
            "is missing",
            "message, read_ack, message_change, contact_change, profile or group_change",
        ));
    };
    let (member, post) = match event {
        Event::Message(message) => ("message", send(message, max_msg_bytes)),
        Event::ReadAck(ack) => ("read_ack", checked::<_, ReadAck>(ack)),
        Event::MessageChange(change) => ("message_change", edit(change, max_msg_bytes)),
        Event::ContactChange(change) => ("contact_change", checked::<_, ChangeContact>(change)),
        Event::Profile(profile) => ("profile", set_profile(profile)),
        Event::GroupChange(change) => (
            "group_change",
            with_gid(change).and_then(checked::<_, ChangeGroup>),
        ),
    };
    let mut post = post.map_err(|problem| problem.within(member))?;
    post.identify(beside)?;
    Ok(post)
}

/// Checks the fields of a command that has no text to limit.
fn checked<P, C>(fields: P) -> Result<Post, Problem>
where
    C: TryFrom<P, Error = Malformed> + Into<Command>,
{
    let command = C::try_from(fields).map_err(invalid_field)?.into();
    // In protobuf a reaction's emoji is the text of the change.
    let in_protobuf = |malformed: Malformed| match malformed.field {
        "emoji" => invalid_field(Malformed {
            field: "msg",
            ..malformed
        }),
        _ => invalid_field(malformed),
    };
    command.kind().check_posted().map_err(in_protobuf)?;
    Ok(Post::from(command))
}

/// Checks a change to a message: an edit's text may be as long as a message's.
fn edit(change: proto::ChangeMessage, max_msg_bytes: usize) -> Result<Post, Problem> {
    check_length(&change.msg, max_msg_bytes)?;
    checked::<_, ChangeMessage>(change)
}

fn set_profile(profile: proto::SetProfile) -> Result<Post, Problem> {
    Post::profile(Profile::try_from(profile).map_err(invalid_field)?)
}

/// Checks a message, and generates its client_msg_id if there is none.
fn send(mut send: proto::SendMessage, max_msg_bytes: usize) -> Result<Post, Problem> {
    check_length(&send.msg, max_msg_bytes)?;
    let generated = send.client_msg_id.is_empty().then(Uuid::now_v7);
    if let Some(id) = generated {
        send.client_msg_id = id.to_string();
    }
    let send = SendMessage::try_from(send).map_err(invalid_field)?;
    Ok(Post::message(send, generated))
}

/// The gid of a group that begins is made of its owner and client_id, if there is one.
fn with_gid(mut change: proto::ChangeGroup) -> Result<proto::ChangeGroup, Problem> {
    if let (Some(Action::Create(create)), Ok(owner)) = (&change.action, UserId::try_from(change.by))
        && !create.client_id.is_empty()
    {
        let gid = GroupId::of_owner(owner, &create.client_id).get();
        if ![0, gid].contains(&change.gid) {
            let right = format_args!("{gid}, which is derived from by and client_id, or absent");
            let wrong = format_args!("is {}", change.gid);
            return Err(Problem::invalid_field("gid", wrong, right));
        }
        change.gid = gid;
    }
    Ok(change)
}

fn decode<T: Message + Default>(bytes: &[u8], name: &str) -> Result<T, Problem> {
    T::decode(bytes).map_err(|error| Problem::invalid_protobuf(name, error))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_has_a_limit_that_counts_bytes_and_is_exact() {
        let send = |msg: &str| {
            Event::Message(proto::SendMessage {
                srcid: 1,
                destid: 2,
                msg: msg.to_owned(),
                ..proto::SendMessage::default()
            })
        };
        let edit = |msg: &str| {
            Event::MessageChange(proto::ChangeMessage {
                by: 1,
                peer: 2,
                mid: 1,
                kind: proto::ChangeKind::Edit.into(),
                msg: msg.to_owned(),
                ..proto::ChangeMessage::default()
            })
        };
        for fields in [send, edit] {
            let post = |msg: &str| {
                let item = proto::IngestEvent {
                    event: Some(fields(msg)),
                    command_id: String::new(),
                };
                event(&item.encode_to_vec(), 4)
            };
            assert!(post("üü").is_ok());
            let refused = post("üüa").unwrap_err().errors.remove(0).message;
            assert_eq!(refused, "has 5 bytes; must be 1 to 4 bytes of UTF-8");
        }
    }

    #[test]
    fn an_item_names_the_field_at_fault() {
        let field = |event| {
            let item = proto::IngestEvent {
                event,
                command_id: String::new(),
            };
            super::event(&item.encode_to_vec(), 16)
                .unwrap_err()
                .errors
                .remove(0)
                .field
        };
        let send = proto::SendMessage {
            by_user: false,
            gid: 0,
            srcid: 1,
            destid: 0,
            client_msg_id: String::new(),
            msg: "a".to_owned(),
        };
        let ack = proto::ReadAck {
            uid: 1,
            peer: 2,
            device: 0,
            mid: None,
            gid: 0,
        };
        let both = proto::SendMessage {
            destid: 2,
            gid: 5000,
            ..send.clone()
        };
        assert_eq!(field(Some(Event::Message(both))), "message.destid");
        assert_eq!(field(Some(Event::Message(send))), "message.destid");
        assert_eq!(field(Some(Event::ReadAck(ack))), "read_ack.device");
        assert_eq!(field(None), "event");
        let change = proto::ChangeMessage {
            by: 1,
            peer: 2,
            mid: 3,
            gid: 0,
            kind: proto::ChangeKind::Edit.into(),
            msg: "a text of 17 byte".to_owned(),
        };
        let recall = proto::ChangeMessage {
            kind: proto::ChangeKind::Recall.into(),
            ..change.clone()
        };
        for change in [change, recall] {
            let event = Some(Event::MessageChange(change));
            assert_eq!(field(event), "message_change.msg");
        }
        let contact = proto::ChangeContact {
            uid: 1,
            peer: 1,
            blocked: Some(true),
            ..proto::ChangeContact::default()
        };
        let event = Some(Event::ContactChange(contact));
        assert_eq!(field(event), "contact_change.blocked");
        let profile = proto::SetProfile {
            uid: 1,
            ..proto::SetProfile::default()
        };
        let event = Some(Event::Profile(profile));
        assert_eq!(field(event), "profile.nick");
    }

    #[test]
    fn a_profile_is_of_the_user_in_the_path() {
        let uid = UserId::try_from(65).unwrap();
        for (given, is_right) in [(0, true), (65, true), (66, false)] {
            let body = proto::SetProfile {
                uid: given,
                nick: "Ann".to_owned(),
                ..proto::SetProfile::default()
            };
            let post = profile(uid, &body.encode_to_vec());
            assert_eq!(post.is_ok(), is_right, "{given}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(item in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = event(&item, 16);
        }
    }
}
