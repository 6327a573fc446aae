//! The protobuf bodies. The generated types say what is in them; a missing client_msg_id is an empty one.

use problem::Problem;
use prost::Message;
use schemas::{
    GroupId, Profile, UserId,
    command::ingest_event,
    proto::{self, change_group::Action, ingest_event::Event},
};

use crate::post::{EventKind, Post, invalid_field};

/// Reads the body of `POST /v1/messages`: a `SendMessage`.
pub(crate) fn message(body: &[u8], max_msg_bytes: usize) -> Result<Post, Problem> {
    into_post(decode(body, "SendMessage")?, max_msg_bytes)
}

/// Reads the body of `POST /v1/read-acks`: a `ReadAck`.
pub(crate) fn read_ack(body: &[u8]) -> Result<Post, Problem> {
    Post::read_ack(decode(body, "ReadAck")?)
}

/// Reads the body of `POST /v1/message-changes`: a `ChangeMessage`.
pub(crate) fn message_change(body: &[u8], max_msg_bytes: usize) -> Result<Post, Problem> {
    Post::message_change(decode(body, "ChangeMessage")?, max_msg_bytes)
}

/// Reads the body of `POST /v1/contact-changes`: a `ChangeContact`.
pub(crate) fn contact_change(body: &[u8]) -> Result<Post, Problem> {
    Post::contact_change(decode(body, "ChangeContact")?)
}

/// Reads the body of `POST /v1/groups`: a `ChangeGroup` that creates one.
pub(crate) fn group(body: &[u8]) -> Result<Post, Problem> {
    let change: proto::ChangeGroup = decode(body, "ChangeGroup")?;
    match change.action {
        Some(Action::Create(_)) => Post::group_change(change),
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
    Post::group_change(change)
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
    Post::profile(Profile::try_from(profile).map_err(invalid_field)?)
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
    let (kind, post) = checked(event, max_msg_bytes);
    let post = post.map_err(|problem| problem.within(kind.member()))?;
    post.identified(beside)
}

/// Checks an event.
pub(crate) fn checked(event: Event, max_msg_bytes: usize) -> (EventKind, Result<Post, Problem>) {
    match event {
        Event::Message(send) => (EventKind::Message, into_post(send, max_msg_bytes)),
        Event::ReadAck(ack) => (EventKind::ReadAck, Post::read_ack(ack)),
        Event::MessageChange(change) => {
            let post = Post::message_change(change, max_msg_bytes);
            (EventKind::MessageChange, post)
        }
        Event::ContactChange(change) => (EventKind::ContactChange, Post::contact_change(change)),
        Event::Profile(profile) => {
            let profile = Profile::try_from(profile).map_err(invalid_field);
            (EventKind::Profile, profile.and_then(Post::profile))
        }
        Event::GroupChange(change) => (EventKind::GroupChange, Post::group_change(change)),
    }
}

fn into_post(mut send: proto::SendMessage, max_msg_bytes: usize) -> Result<Post, Problem> {
    let given = std::mem::take(&mut send.client_msg_id);
    let client_msg_id = (!given.is_empty()).then_some(given);
    Post::message(send, client_msg_id, max_msg_bytes)
}

fn decode<T: Message + Default>(bytes: &[u8], name: &str) -> Result<T, Problem> {
    T::decode(bytes).map_err(|error| Problem::invalid_protobuf(name, error))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
