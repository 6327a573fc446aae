//! A post: the command that a producer wants on the log, checked by the same rules in every encoding.

use access::Caller;
use problem::{FieldError, Problem};
use schemas::{
    Change, ChangeGroup, ChangeMessage, CommandId, CreateGroup, GroupAction, GroupId, InvalidValue,
    MAX_PROFILE_EXTRA_BYTES, Profile, UserId, WordVerdict,
    command::{Command, Malformed},
    proto::{self, change_group::Action, inbound_command},
};
use uuid::Uuid;

use crate::plain_json::has_reserved_key;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EventKind {
    Message,
    /// Of a mid.
    ReadAck,
    /// Of `latest`, which means another message when it is posted again.
    ReadAckOfLatest,
    MessageChange,
    ContactChange,
    /// Takes in all messages of its time, so it is another one when it is posted again.
    ContactDeletion,
    Profile,
    /// The beginning of one.
    Group,
    GroupChange,
}

/// An id that the answer names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MadeId {
    /// Of a message.
    ClientMsgId(Uuid),
    /// Of another command.
    CommandId(Uuid),
    /// Of a group that begins.
    Gid(GroupId),
}

/// The id of a message, or of another command, with which it can be retried where its outcome is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RetryId {
    pub(crate) client_msg_id: Option<String>,
    pub(crate) command_id: Option<String>,
}

impl From<MadeId> for RetryId {
    fn from(made: MadeId) -> Self {
        let (client_msg_id, command_id) = match made {
            MadeId::ClientMsgId(id) => (Some(id.to_string()), None),
            MadeId::CommandId(id) => (None, Some(id.to_string())),
            MadeId::Gid(_) => (None, None),
        };
        Self {
            client_msg_id,
            command_id,
        }
    }
}

/// An event to append.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    pub(crate) command: Command,
    /// The id of a command that is no message (PROTOCOL S15).
    pub(crate) command_id: Option<CommandId>,
    /// The id of the message or the command, where it was generated here.
    pub(crate) generated_id: Option<Uuid>,
    /// What the filter of words did with the text.
    pub(crate) words: Option<WordVerdict>,
}

impl EventKind {
    /// The member of an event that holds one of this kind.
    pub(crate) fn member(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::ReadAck | Self::ReadAckOfLatest => "read_ack",
            Self::MessageChange => "message_change",
            Self::ContactChange | Self::ContactDeletion => "contact_change",
            Self::Profile => "profile",
            Self::Group => "group",
            Self::GroupChange => "group_change",
        }
    }

    /// The field that names its author.
    fn author_field(self) -> &'static str {
        match self {
            Self::Message => "srcid",
            Self::ReadAck
            | Self::ReadAckOfLatest
            | Self::ContactChange
            | Self::ContactDeletion
            | Self::Profile => "uid",
            Self::MessageChange | Self::GroupChange => "by",
            Self::Group => "owner",
        }
    }
}

impl Post {
    /// Checks a message, and generates its client_msg_id where there is none.
    pub(crate) fn message(
        mut send: proto::SendMessage,
        client_msg_id: Option<String>,
        max_msg_bytes: usize,
    ) -> Result<Self, Problem> {
        check_length(&send.msg, max_msg_bytes)?;
        let generated_id = client_msg_id.is_none().then(Uuid::now_v7);
        send.client_msg_id =
            client_msg_id.unwrap_or_else(|| generated_id.unwrap_or_default().to_string());
        // Not by way of the larger `inbound_command::Command`: most of what is posted are messages.
        let send = send.try_into().map_err(invalid_field)?;
        Ok(Self {
            generated_id,
            ..Self::of(Command::Send(send))
        })
    }

    /// Checks a read-ack.
    pub(crate) fn read_ack(ack: proto::ReadAck) -> Result<Self, Problem> {
        Self::new(inbound_command::Command::ReadAck(ack))
    }

    /// Checks a change to a message: an edit's text may be as long as a message's.
    pub(crate) fn message_change(
        change: proto::ChangeMessage,
        max_msg_bytes: usize,
    ) -> Result<Self, Problem> {
        check_length(&change.msg, max_msg_bytes)?;
        Self::new(inbound_command::Command::ChangeMessage(change))
    }

    /// Checks a change to a contact.
    pub(crate) fn contact_change(change: proto::ChangeContact) -> Result<Self, Problem> {
        Self::new(inbound_command::Command::ChangeContact(change))
    }

    /// Checks a change of a group, or its beginning, whose gid is made of owner and client_id if there is one.
    pub(crate) fn group_change(mut change: proto::ChangeGroup) -> Result<Self, Problem> {
        if let (Some(Action::Create(create)), Ok(owner)) =
            (&change.action, UserId::try_from(change.by))
            && !create.client_id.is_empty()
        {
            let gid = GroupId::of_owner(owner, &create.client_id).get();
            if ![0, gid].contains(&change.gid) {
                let right = format_args!("{gid}, which is made of by and client_id, or absent");
                let wrong = format_args!("is {}", change.gid);
                return Err(Problem::invalid_field("gid", wrong, right));
            }
            change.gid = gid;
        }
        Self::new(inbound_command::Command::ChangeGroup(change))
    }

    /// Checks a profile.
    pub(crate) fn profile(profile: Profile) -> Result<Self, Problem> {
        let bytes = profile.extra.as_deref().map_or(0, str::len);
        if bytes > MAX_PROFILE_EXTRA_BYTES {
            return Err(Problem::unprocessable_field(
                "extra",
                format_args!("has {bytes} bytes"),
                format_args!("a JSON object of at most {MAX_PROFILE_EXTRA_BYTES} bytes"),
            ));
        }
        if profile.extra.as_deref().is_some_and(has_reserved_key) {
            let wrong = "has a key that begins with \"$serde_json::private::\", which a JSON library has for itself";
            return Err(Problem::invalid_field("extra", wrong, "without"));
        }
        let profile = profile.checked().map_err(invalid_field)?;
        Ok(Self::of(Command::SetProfile(profile)))
    }

    fn new(command: inbound_command::Command) -> Result<Self, Problem> {
        Command::try_from(command)
            .map(Self::of)
            .map_err(invalid_field)
    }

    fn of(command: Command) -> Self {
        Self {
            command,
            command_id: None,
            generated_id: None,
            words: None,
        }
    }

    pub(crate) fn kind(&self) -> EventKind {
        self.kind_and_author().0
    }

    /// With the id that the body of a command that is no message has.
    pub(crate) fn with_command_id(self, given: Option<String>) -> Result<Self, Problem> {
        let id = given.map(|id| checked_id("command_id", id)).transpose()?;
        Ok(Self {
            command_id: id,
            ..self
        })
    }

    /// With an id in any case: that of the body, or the one that was given beside it as `field`, or one that is generated. That is before the
    /// first append, so whatever a producer appends twice has the same one (PROTOCOL S15).
    pub(crate) fn identified(self, beside: Option<(&str, String)>) -> Result<Self, Problem> {
        match (beside, self.given_id()) {
            (Some((field, given)), Some((name, known))) if known != given => {
                let wrong = |other: &str| format!("is another than {other}");
                let right = "the same in both, or one of them absent";
                Err(Problem::invalid_fields(vec![
                    FieldError::new(field, wrong(name), right),
                    FieldError::new(name, wrong(field), right),
                ]))
            }
            (_, Some(_)) => Ok(self),
            (Some((field, given)), None) => self.with_id(field, given),
            (None, None) => Ok(self.with_generated_id()),
        }
    }

    /// The field of the body that has an id, and the id.
    fn given_id(&self) -> Option<(&'static str, &str)> {
        if self.generated_id.is_some() {
            return None;
        }
        let command_id = || Some(("command_id", self.command_id.as_ref()?.as_str()));
        match &self.command {
            Command::Send(send) => Some(("client_msg_id", send.client_msg_id.as_str())),
            _ => command_id(),
        }
    }

    fn with_id(mut self, field: &str, id: String) -> Result<Self, Problem> {
        match &mut self.command {
            Command::Send(send) => send.client_msg_id = checked_id(field, id)?,
            _ => self.command_id = Some(checked_id(field, id)?),
        }
        self.generated_id = None;
        Ok(self)
    }

    /// A message has one already.
    fn with_generated_id(mut self) -> Self {
        if !matches!(self.command, Command::Send(_)) {
            let id = Uuid::now_v7();
            self.command_id = CommandId::try_from(id.to_string()).ok();
            self.generated_id = Some(id);
        }
        self
    }

    /// Checks that `caller` may post it (only its author may, or a service in the author's name), and sets which of the two it was, where
    /// the sequencer limits users.
    pub(crate) fn authorize(&mut self, caller: &Caller) -> Result<(), Problem> {
        let is_user = matches!(caller, Caller::User(_));
        match &mut self.command {
            Command::Send(send) => send.by_user = is_user,
            Command::ChangeContact(change) => change.by_user = is_user,
            Command::ChangeGroup(change) => change.by_user = is_user,
            Command::ReadAck(_)
            | Command::ChangeMessage(_)
            | Command::Control(_)
            | Command::SetProfile(_) => {}
        }
        let (kind, author) = self.kind_and_author();
        caller.may_send_as(author, kind.author_field())?;
        match &self.command {
            Command::ChangeGroup(change) if is_user => check_gid(change),
            _ => Ok(()),
        }
    }

    /// How many users it makes members of a group, or no members any more.
    pub(crate) fn named_users(&self) -> u32 {
        let named = match &self.command {
            Command::ChangeGroup(change) => match &change.action {
                GroupAction::Create(create) => create.members.len(),
                GroupAction::Add(users) | GroupAction::Remove(users) => users.len(),
                _ => 0,
            },
            _ => 0,
        };
        u32::try_from(named).unwrap_or(u32::MAX)
    }

    /// Whom a user makes members of a group, by which field, and that user: once the post is authorized. Nobody else's posts are of a user.
    pub(crate) fn added_by_user(&self) -> Option<(&'static str, UserId, &[UserId])> {
        let Command::ChangeGroup(change) = &self.command else {
            return None;
        };
        let (field, users) = match &change.action {
            GroupAction::Create(create) => ("members", &create.members),
            GroupAction::Add(users) => ("add", users),
            _ => return None,
        };
        change.by_user.then_some((field, change.by, users))
    }

    /// The text of a message or an edit.
    pub(crate) fn text_mut(&mut self) -> Option<&mut String> {
        match &mut self.command {
            Command::Send(send) => Some(&mut send.msg),
            Command::ChangeMessage(ChangeMessage {
                change: Change::Edit(msg),
                ..
            }) => Some(msg),
            _ => None,
        }
    }

    /// The id with which it can be retried.
    pub(crate) fn retry_id(&self) -> RetryId {
        match &self.command {
            Command::Send(send) => RetryId {
                client_msg_id: Some(send.client_msg_id.to_string()),
                command_id: None,
            },
            _ => RetryId {
                client_msg_id: None,
                command_id: self.command_id.as_ref().map(ToString::to_string),
            },
        }
    }

    /// The id that its sender did not give, or may not have given. A group that begins is retried by its gid.
    pub(crate) fn made(&self) -> Option<MadeId> {
        let of_command = match &self.command {
            Command::Send(_) => MadeId::ClientMsgId,
            _ => MadeId::CommandId,
        };
        let gid = self.created_group().map(MadeId::Gid);
        gid.or_else(|| self.generated_id.map(of_command))
    }

    /// The group that begins.
    pub(crate) fn created_group(&self) -> Option<GroupId> {
        match &self.command {
            Command::ChangeGroup(change) => {
                matches!(change.action, GroupAction::Create(_)).then_some(change.gid)
            }
            _ => None,
        }
    }

    fn kind_and_author(&self) -> (EventKind, UserId) {
        match &self.command {
            Command::Send(send) => (EventKind::Message, send.srcid),
            Command::ReadAck(ack) => {
                let kind = match ack.mid {
                    Some(_) => EventKind::ReadAck,
                    None => EventKind::ReadAckOfLatest,
                };
                (kind, ack.uid)
            }
            Command::ChangeMessage(change) => (EventKind::MessageChange, change.by),
            Command::ChangeContact(change) => {
                let kind = if change.deleted {
                    EventKind::ContactDeletion
                } else {
                    EventKind::ContactChange
                };
                (kind, change.uid)
            }
            Command::SetProfile(profile) => (EventKind::Profile, profile.uid),
            Command::ChangeGroup(change) => {
                let kind = match &change.action {
                    GroupAction::Create(_) => EventKind::Group,
                    _ => EventKind::GroupChange,
                };
                (kind, change.by)
            }
            Command::Control(_) => unreachable!("no encoding of a post has controls"),
        }
    }
}

/// A gid that a user chose might be that which another user's client_id makes (PROTOCOL G9).
fn check_gid(change: &ChangeGroup) -> Result<(), Problem> {
    match &change.action {
        GroupAction::Create(CreateGroup {
            client_id: None, ..
        }) => Err(Problem::forbidden_field(
            "gid",
            format_args!("is {}", change.gid),
            "absent, with client_id in its place: only services choose gids",
        )),
        _ => Ok(()),
    }
}

fn checked_id<T: TryFrom<String, Error = InvalidValue>>(
    field: &str,
    id: String,
) -> Result<T, Problem> {
    id.try_into().map_err(|error: InvalidValue| {
        Problem::invalid_fields(vec![FieldError {
            field: field.to_owned(),
            message: error.to_string(),
        }])
    })
}

fn check_length(msg: &str, max_msg_bytes: usize) -> Result<(), Problem> {
    if msg.len() > max_msg_bytes {
        return Err(Problem::invalid_field(
            "msg",
            format_args!("has {} bytes", msg.len()),
            format_args!("1 to {max_msg_bytes} bytes of UTF-8"),
        ));
    }
    Ok(())
}

pub(crate) fn invalid_field(malformed: Malformed) -> Problem {
    Problem::invalid_fields(vec![FieldError {
        field: malformed.field.to_owned(),
        message: malformed.problem,
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_whether_its_sender_posted_it() {
        let send = proto::SendMessage {
            srcid: 1001,
            destid: 1000,
            client_msg_id: String::new(),
            msg: "hello".to_owned(),
            by_user: false,
            gid: 0,
        };
        let user = Caller::User(1001.try_into().unwrap());
        for claimed in [false, true] {
            for (caller, by_user) in [(&user, true), (&Caller::Anyone, false)] {
                let send = proto::SendMessage {
                    by_user: claimed,
                    ..send.clone()
                };
                let mut post = Post::message(send, None, 100).unwrap();
                post.authorize(caller).unwrap();
                let Command::Send(send) = post.command else {
                    panic!("a message is a send");
                };
                assert_eq!(send.by_user, by_user);
            }
        }
    }

    #[test]
    fn a_contact_change_says_whether_its_user_posted_it() {
        let user = Caller::User(1000.try_into().unwrap());
        for claimed in [false, true] {
            for (caller, by_user) in [(&user, true), (&Caller::Anyone, false)] {
                let change = proto::ChangeContact {
                    uid: 1000,
                    peer: 1001,
                    blocked: Some(true),
                    by_user: claimed,
                    ..proto::ChangeContact::default()
                };
                let mut post = Post::contact_change(change).unwrap();
                post.authorize(caller).unwrap();
                let Command::ChangeContact(change) = post.command else {
                    panic!("a contact change was posted");
                };
                assert_eq!(change.by_user, by_user);
            }
        }
    }

    #[test]
    fn only_the_one_who_makes_a_change_may_post_it() {
        let change = proto::ChangeMessage {
            by: 1001,
            peer: 1000,
            mid: 1,
            kind: proto::ChangeKind::Recall.into(),
            ..proto::ChangeMessage::default()
        };
        let contact = proto::ChangeContact {
            uid: 1001,
            peer: 1000,
            deleted: true,
            ..proto::ChangeContact::default()
        };
        for (mut post, field) in [
            (Post::message_change(change, 4).unwrap(), "by"),
            (Post::contact_change(contact).unwrap(), "uid"),
        ] {
            let mut authorized = |uid: i64| post.authorize(&Caller::User(uid.try_into().unwrap()));
            assert!(authorized(1001).is_ok());
            assert_eq!(authorized(1000).unwrap_err().errors[0].field, field);
        }
    }

    #[test]
    fn an_edit_may_be_as_long_as_a_message() {
        let edit = |msg: &str| {
            let change = proto::ChangeMessage {
                by: 1001,
                peer: 1000,
                mid: 1,
                kind: proto::ChangeKind::Edit.into(),
                msg: msg.to_owned(),
                gid: 0,
            };
            Post::message_change(change, 4)
        };
        assert!(edit("üü").is_ok());
        let refused = edit("üüa").unwrap_err();
        assert_eq!(
            refused.detail,
            "msg has 5 bytes; must be 1 to 4 bytes of UTF-8"
        );
    }

    fn message(msg: &str, client_msg_id: Option<&str>) -> Result<Post, Problem> {
        let send = proto::SendMessage {
            by_user: false,
            gid: 0,
            srcid: 1001,
            destid: 1000,
            client_msg_id: String::new(),
            msg: msg.to_owned(),
        };
        Post::message(send, client_msg_id.map(str::to_owned), 4)
    }

    #[test]
    fn the_limit_counts_bytes_and_is_exact() {
        assert!(message("üü", None).is_ok());
        for (msg, detail) in [
            ("üüa", "msg has 5 bytes; must be 1 to 4 bytes of UTF-8"),
            ("", "msg is empty; must be at least one byte"),
            ("\0", "msg has a NUL character; must be UTF-8 without NUL"),
        ] {
            assert_eq!(message(msg, None).unwrap_err().detail, detail);
        }
    }

    #[test]
    fn a_missing_id_is_generated_and_a_given_one_is_kept() {
        let post = message("a", None).unwrap();
        let generated = post.generated_id.unwrap();
        assert_eq!(generated.get_version_num(), 7);
        let id = post.retry_id().client_msg_id.unwrap();
        assert_eq!(id, generated.to_string());

        let post = message("a", Some("mine")).unwrap();
        assert_eq!(post.generated_id, None);
        assert_eq!(post.retry_id().client_msg_id.unwrap(), "mine");
    }

    fn leave(command_id: Option<&str>) -> Result<Post, Problem> {
        let leave = proto::ChangeGroup {
            gid: 5000,
            by: 1001,
            action: Some(Action::Leave(proto::GroupBy {})),
            by_user: false,
        };
        Post::group_change(leave)?.with_command_id(command_id.map(str::to_owned))
    }

    #[test]
    fn every_command_has_the_id_that_was_given_or_one_that_is_generated_once() {
        const HEADER: &str = "Idempotency-Key";
        let beside = |id: &str| Some((HEADER, id.to_owned()));
        let id_of = |post: Post| {
            let RetryId {
                client_msg_id,
                command_id,
            } = post.retry_id();
            client_msg_id.or(command_id).unwrap()
        };
        for post in [|id| message("a", id), leave] {
            let with = |in_body, beside| post(in_body)?.identified(beside).map(id_of);
            assert_eq!(with(Some("mine"), None).unwrap(), "mine");
            assert_eq!(with(Some("mine"), beside("mine")).unwrap(), "mine");
            assert_eq!(with(None, beside("mine")).unwrap(), "mine");
            let generated = with(None, None).unwrap();
            assert_eq!(generated.parse::<Uuid>().unwrap().get_version_num(), 7);
            let both = with(Some("mine"), beside("other")).unwrap_err().errors;
            assert_eq!((both.len(), both[0].field.as_str()), (2, HEADER));
            let wrong = with(None, beside("")).unwrap_err().errors;
            assert_eq!(wrong[0].field, HEADER);
        }
        assert_eq!(leave(Some("")).unwrap_err().errors[0].field, "command_id");
    }

    #[test]
    fn an_empty_id_that_was_given_is_refused() {
        let refused = message("a", Some("")).unwrap_err();
        assert_eq!(refused.errors[0].field, "client_msg_id");
    }
}
