//! A post: the command that a producer wants on the log, checked by the same rules in every encoding.

use access::Caller;
use problem::{FieldError, Problem};
use schemas::{
    ChangeGroup, CommandId, CreateGroup, GroupAction, GroupId, InvalidValue,
    MAX_PROFILE_EXTRA_BYTES, Profile, UserId, WordVerdict,
    command::{Command, Malformed, SendMessage},
};
use uuid::Uuid;

use crate::plain_json::has_reserved_key;

/// An id that the answer names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadeId {
    /// The id of a message.
    ClientMsgId(Uuid),
    /// The id of another command.
    CommandId(Uuid),
    /// The id of a group that begins.
    Gid(GroupId),
}

/// The id of a message, or of another command, with which it can be retried if its outcome is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetryId {
    pub client_msg_id: Option<String>,
    pub command_id: Option<String>,
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
pub struct Post {
    pub command: Command,
    /// The id of a command that is not a message (PROTOCOL S15).
    pub command_id: Option<CommandId>,
    /// The id of the message or the command, if it was generated here.
    pub generated_id: Option<Uuid>,
    /// What the filter of words did with the text.
    pub words: Option<WordVerdict>,
}

impl From<Command> for Post {
    /// A command whose fields were checked, and the length of its text.
    fn from(command: Command) -> Self {
        Self {
            command,
            command_id: None,
            generated_id: None,
            words: None,
        }
    }
}

impl Post {
    /// A message. `generated_id` is its client_msg_id if this service generated that. Otherwise as [`Self::from`].
    #[must_use]
    pub fn message(send: SendMessage, generated_id: Option<Uuid>) -> Self {
        Self {
            generated_id,
            ..Command::Send(send).into()
        }
    }

    /// A profile, whose fields are checked here.
    ///
    /// # Errors
    /// Those of [`Profile::checked`], and an extra that readers could not take.
    pub fn profile(profile: Profile) -> Result<Self, Problem> {
        profile.extra.as_deref().map_or(Ok(()), check_extra)?;
        let profile = profile.checked().map_err(invalid_field)?;
        Ok(Command::from(profile).into())
    }

    /// The member of a line of NDJSON that has the command.
    #[must_use]
    pub fn line_field(&self) -> &'static str {
        self.command.kind().line_field()
    }

    /// With the id that the body of a command other than a message has.
    pub fn with_command_id(self, given: Option<String>) -> Result<Self, Problem> {
        let id = given.map(|id| checked_id("command_id", id)).transpose()?;
        Ok(Self {
            command_id: id,
            ..self
        })
    }

    /// Sees to it that the post has an id: that of the body, or the one that was given beside it as `field`, or a generated one. An id is generated before
    /// the first append, so whatever a producer appends twice has the same id (PROTOCOL S15).
    pub fn identify(&mut self, beside: Option<(&str, String)>) -> Result<(), Problem> {
        match (beside, self.given_id()) {
            (Some((field, given)), Some((name, known))) if known != given => {
                let wrong = |other: &str| format!("is another than {other}");
                let right = "the same in both, or one of them absent";
                Err(Problem::invalid_fields(vec![
                    FieldError::new(field, wrong(name), right),
                    FieldError::new(name, wrong(field), right),
                ]))
            }
            (_, Some(_)) => Ok(()),
            (Some((field, given)), None) => self.set_id(field, given),
            (None, None) => {
                self.generate_id();
                Ok(())
            }
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

    fn set_id(&mut self, field: &str, id: String) -> Result<(), Problem> {
        match &mut self.command {
            Command::Send(send) => send.client_msg_id = checked_id(field, id)?,
            _ => self.command_id = Some(checked_id(field, id)?),
        }
        self.generated_id = None;
        Ok(())
    }

    /// A message has one already.
    fn generate_id(&mut self) {
        if !matches!(self.command, Command::Send(_)) {
            let id = Uuid::now_v7();
            self.command_id = CommandId::try_from(id.to_string()).ok();
            self.generated_id = Some(id);
        }
    }

    /// Checks that `caller` may post it (only its author may, or a service in the author's name), and sets which of the two it was, in commands for
    /// which the sequencer limits users.
    pub(crate) fn authorize(&mut self, caller: &Caller) -> Result<(), Problem> {
        let is_user = matches!(caller, Caller::User(_));
        let kind = self.command.kind_mut();
        kind.set_by_user(is_user);
        let author = kind.scope().author.expect("no post is a control");
        caller.may_send_as(author, kind.author_field())?;
        match &self.command {
            Command::ChangeGroup(change) if is_user => check_gid(change),
            _ => Ok(()),
        }
    }

    /// How many users it makes members of a group, or no members any more.
    pub(crate) fn named_users(&self) -> u32 {
        let named = match &self.command {
            Command::ChangeGroup(change) => change.named_users().len(),
            _ => 0,
        };
        u32::try_from(named).unwrap_or(u32::MAX)
    }

    /// The field with new members of a group, the user who adds them, and the new members. `None` if no user adds any. The post must be authorized.
    pub(crate) fn added_by_user(&self) -> Option<(&'static str, UserId, &[UserId])> {
        let Command::ChangeGroup(change) = &self.command else {
            return None;
        };
        let (field, users) = change.new_members()?;
        change.by_user.then_some((field, change.by, users))
    }

    /// The text of a message or an edit.
    pub fn text_mut(&mut self) -> Option<&mut String> {
        self.command.kind_mut().text_mut()
    }

    /// The id with which it can be retried.
    pub fn retry_id(&self) -> RetryId {
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
    pub fn made(&self) -> Option<MadeId> {
        let of_command = match &self.command {
            Command::Send(_) => MadeId::ClientMsgId,
            _ => MadeId::CommandId,
        };
        let gid = self.created_group().map(MadeId::Gid);
        gid.or_else(|| self.generated_id.map(of_command))
    }

    /// The group that begins.
    pub fn created_group(&self) -> Option<GroupId> {
        match &self.command {
            Command::ChangeGroup(change) => {
                matches!(change.action, GroupAction::Create(_)).then_some(change.gid)
            }
            _ => None,
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

/// Checks a profile's extra, as it was posted.
fn check_extra(extra: &str) -> Result<(), Problem> {
    if extra.len() > MAX_PROFILE_EXTRA_BYTES {
        return Err(Problem::unprocessable_field(
            "extra",
            format_args!("has {} bytes", extra.len()),
            format_args!("a JSON object of at most {MAX_PROFILE_EXTRA_BYTES} bytes"),
        ));
    }
    if has_reserved_key(extra) {
        let wrong = "has a key that begins with \"$serde_json::private::\", which a JSON library has for itself";
        return Err(Problem::invalid_field("extra", wrong, "without"));
    }
    Ok(())
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

/// Checks the length of a text of a message or an edit.
///
/// # Errors
/// 400 if it has more than `max_msg_bytes` bytes.
pub fn check_length(msg: &str, max_msg_bytes: usize) -> Result<(), Problem> {
    if msg.len() > max_msg_bytes {
        return Err(Problem::invalid_field(
            "msg",
            format_args!("has {} bytes", msg.len()),
            format_args!("1 to {max_msg_bytes} bytes of UTF-8"),
        ));
    }
    Ok(())
}

/// 400, with the field and what is wrong with it.
#[must_use]
pub fn invalid_field(malformed: Malformed) -> Problem {
    Problem::invalid_fields(vec![FieldError {
        field: malformed.field.to_owned(),
        message: malformed.problem,
    }])
}

#[cfg(test)]
mod tests {
    use schemas::{Change, ChangeContact, ChangeMessage, Mid, Recipient};

    use super::*;

    fn user(uid: i64) -> UserId {
        uid.try_into().unwrap()
    }

    fn message(client_msg_id: &str, generated: Option<Uuid>) -> Post {
        let send = SendMessage {
            srcid: user(1001),
            to: Recipient::User(user(1000)),
            client_msg_id: client_msg_id.to_owned().try_into().unwrap(),
            msg: "a".to_owned(),
            by_user: false,
        };
        Post::message(send, generated)
    }

    fn block(by_user: bool) -> Post {
        let change = ChangeContact {
            uid: user(1001),
            peer: user(1000),
            favourite: None,
            pinned: None,
            muted: None,
            blocked: Some(true),
            deleted: false,
            by_user,
        };
        Command::from(change).into()
    }

    fn recall() -> Post {
        let change = ChangeMessage {
            by: user(1001),
            to: Recipient::User(user(1000)),
            mid: Mid::ZERO.next(),
            change: Change::Recall,
        };
        Command::from(change).into()
    }

    #[test]
    fn a_post_says_whether_its_author_posted_it() {
        for (caller, by_user) in [(Caller::User(user(1001)), true), (Caller::Anyone, false)] {
            let mut post = message("c", None);
            post.authorize(&caller).unwrap();
            assert!(matches!(post.command, Command::Send(send) if send.by_user == by_user));
            let mut post = block(!by_user);
            post.authorize(&caller).unwrap();
            assert!(
                matches!(post.command, Command::ChangeContact(change) if change.by_user == by_user)
            );
        }
    }

    #[test]
    fn only_the_author_may_post_it() {
        for (mut post, field) in [(recall(), "by"), (block(false), "uid")] {
            let mut authorized = |uid: i64| post.authorize(&Caller::User(user(uid)));
            assert!(authorized(1001).is_ok());
            assert_eq!(authorized(1000).unwrap_err().errors[0].field, field);
        }
    }

    #[test]
    fn the_limit_counts_bytes_and_is_exact() {
        assert_eq!(
            check_length("üüa", 4).unwrap_err().detail,
            "msg has 5 bytes; must be 1 to 4 bytes of UTF-8"
        );
        assert!(check_length("üü", 4).is_ok());
    }

    fn leave() -> Post {
        let leave = ChangeGroup {
            gid: 5000.try_into().unwrap(),
            by: user(1001),
            action: GroupAction::Leave,
            by_user: false,
        };
        Command::from(leave).into()
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
        let send = |in_body: Option<&str>| {
            let generated = in_body.is_none().then(Uuid::now_v7);
            let id = generated.unwrap_or_default().to_string();
            Ok(message(in_body.unwrap_or(&id), generated))
        };
        let leave = |in_body: Option<&str>| leave().with_command_id(in_body.map(str::to_owned));
        for is_send in [true, false] {
            let with = |in_body: Option<&str>, beside| {
                let mut post = if is_send {
                    send(in_body)
                } else {
                    leave(in_body)
                }?;
                post.identify(beside)?;
                Ok::<_, Problem>(id_of(post))
            };
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
    fn every_label_has_a_metric() {
        for post in [message("c", None), block(false), leave()] {
            assert!(schemas::kind::LABELS.contains(&post.command.kind().label()));
        }
    }
}
