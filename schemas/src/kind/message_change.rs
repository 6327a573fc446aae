//! Changes to messages after they were sent, and to what a user sees of a conversation.

use std::collections::BTreeMap;

use crate::{
    ChangeSeq, Column, ConversationId, Mid, Ordinal, Recipient, UserId,
    kind::{
        CommandKind, CommandScope, EventKind, Redrive, both_users_or_author, first_unequal,
        read_ack::ReadPosition, recipient_field,
    },
    malformed::{Malformed, mid, ordinal_between_users, text, uid},
    proto::{self, ChangeKind},
};

/// What happens to a message, or to one user's view of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The text is removed, for both sides; the message keeps its number. Final.
    Recall,
    /// A recall after which the message is not shown at all.
    Delete,
    /// The message gets this text.
    Edit(String),
    /// The message is no longer shown to the user who hides it.
    Hide,
    /// The message and all before it are no longer shown to the user who clears the history, and count as read.
    Clear,
    /// The user's reaction to the message is this emoji from now on; if it is empty, the user has none.
    React(String),
}

/// The reactions to a message: an emoji by user.
pub type Reactions = BTreeMap<UserId, String>;

/// The most bytes of a reaction's emoji.
pub const MAX_EMOJI_BYTES: usize = 32;

impl Change {
    /// As [`ChangeKind::as_str`].
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.kind_in_proto().as_str()
    }

    /// The kind as in the `.proto` file.
    #[must_use]
    pub fn kind_in_proto(&self) -> ChangeKind {
        match self {
            Self::Recall => ChangeKind::Recall,
            Self::Delete => ChangeKind::Delete,
            Self::Edit(_) => ChangeKind::Edit,
            Self::Hide => ChangeKind::Hide,
            Self::Clear => ChangeKind::Clear,
            Self::React(_) => ChangeKind::React,
        }
    }

    /// The new text of an edit.
    #[must_use]
    pub fn msg(&self) -> Option<&str> {
        match self {
            Self::Edit(msg) => Some(msg),
            _ => None,
        }
    }

    /// What a user has written: the text of an edit, or the emoji of a reaction.
    #[must_use]
    pub fn content(&self) -> &str {
        match self {
            Self::Edit(text) | Self::React(text) => text,
            Self::Recall | Self::Delete | Self::Hide | Self::Clear => "",
        }
    }

    /// The emoji of a reaction; empty if the reaction is taken back.
    #[must_use]
    pub fn emoji(&self) -> Option<&str> {
        match self {
            Self::React(emoji) => Some(emoji),
            _ => None,
        }
    }

    /// Whether the change takes the text away for good.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Recall | Self::Delete)
    }

    /// Whether the change concerns only the user who makes it.
    #[must_use]
    pub fn is_for_one(&self) -> bool {
        matches!(self, Self::Hide | Self::Clear)
    }

    /// The reaction with this emoji; an empty one takes the former reaction back. `field` is named in the error. Whether it is an emoji is checked by
    /// [`ChangeMessage::check_posted`](CommandKind::check_posted) only: programs with another version of Unicode must decide the same about a record.
    ///
    /// # Errors
    /// [`Malformed`] if it has more than [`MAX_EMOJI_BYTES`], or control characters.
    pub fn react(field: &'static str, emoji: String) -> Result<Self, Malformed> {
        let bytes = emoji.len();
        if bytes > MAX_EMOJI_BYTES {
            let wrong = format!("has {bytes} bytes; must have at most {MAX_EMOJI_BYTES}");
            return Err(Malformed::new(field, wrong));
        }
        if emoji.chars().any(char::is_control) {
            let wrong = "has a control character; must have none";
            return Err(Malformed::new(field, wrong));
        }
        Ok(Self::React(emoji))
    }

    /// The change of this kind, except a reaction; `msg` is the text of an edit.
    ///
    /// # Errors
    /// [`Malformed`] if there is no such kind, if an edit has no valid text, or if another change has a text.
    pub fn new(kind: &str, msg: Option<String>) -> Result<Self, Malformed> {
        let change = match kind {
            "recall" => Self::Recall,
            "delete" => Self::Delete,
            "edit" => return Ok(Self::Edit(text(msg.unwrap_or_default())?)),
            "hide" => Self::Hide,
            "clear" => Self::Clear,
            _ => {
                let wrong = format!(
                    "is {:?}; must be recall, edit, delete, hide or clear",
                    crate::Excerpt(kind)
                );
                return Err(Malformed::new("kind", wrong));
            }
        };
        match msg {
            None => Ok(change),
            Some(_) => Err(Malformed::new("msg", "is given; only an edit has one")),
        }
    }

    pub(crate) fn from_proto(kind: i32, msg: String) -> Result<Self, Malformed> {
        match ChangeKind::try_from(kind) {
            Ok(ChangeKind::React) => Self::react("msg", msg),
            Ok(ChangeKind::Unspecified) | Err(_) => {
                let wrong = format!(
                    "is {kind}; must be 1 (recall), 2 (delete), 3 (edit), 4 (hide), 5 (clear) or 6 (react)"
                );
                Err(Malformed::new("kind", wrong))
            }
            Ok(kind) => Self::new(kind.as_str(), Some(msg).filter(|msg| !msg.is_empty())),
        }
    }

    /// The kind in the `.proto` file, and the text of an edit or the emoji of a reaction.
    #[must_use]
    pub fn into_proto(self) -> (ChangeKind, String) {
        let kind = self.kind_in_proto();
        match self {
            Self::Edit(text) | Self::React(text) => (kind, text),
            Self::Recall | Self::Delete | Self::Hide | Self::Clear => (kind, String::new()),
        }
    }
}

impl ChangeKind {
    /// `recall`, `delete`, `edit`, `hide`, `clear` or `react`, as in JSON and in MySQL.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unspecified => "",
            Self::Recall => "recall",
            Self::Delete => "delete",
            Self::Edit => "edit",
            Self::Hide => "hide",
            Self::Clear => "clear",
            Self::React => "react",
        }
    }

    /// The kind of this name, as [`Self::as_str`] has it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let mut all = (1..).map_while(|number| Self::try_from(number).ok());
        all.find(|kind| kind.as_str() == name)
    }
}

/// The command: `by` changes a message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeMessage {
    /// The user who makes the change.
    pub by: UserId,
    /// The other side of the conversation.
    pub to: Recipient,
    /// The message, at least 1.
    pub mid: Mid,
    /// What becomes of it.
    pub change: Change,
}

impl ChangeMessage {
    /// The conversation it belongs to.
    #[must_use]
    pub fn conversation(&self) -> ConversationId {
        self.to.conversation_with(self.by)
    }

    /// The first field in which the event differs from the command.
    pub(crate) fn mismatch(&self, changed: &MessageChange) -> Option<&'static str> {
        first_unequal([
            ("by", self.by == changed.by),
            (recipient_field("peer", self.to), self.to == changed.to),
            ("mid", self.mid == changed.mid),
            ("kind", self.change.kind() == changed.change.kind()),
            ("msg", self.change == changed.change),
        ])
    }
}

/// The event: a message was changed, or what `by` sees of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageChange {
    /// The user who made the change.
    pub by: UserId,
    /// The other side of the conversation.
    pub to: Recipient,
    /// The message.
    pub mid: Mid,
    /// What became of it.
    pub change: Change,
    /// The number among the changes of the conversation: 1, 2, 3 … From rule version 4 on it is 0 if the change [is for one](Change::is_for_one):
    /// then only the offset of its event gives its place among the other changes of `by`.
    pub change_seq: ChangeSeq,
    /// For a clear: how many messages the other user had sent up to `mid`; `None` if the sequencer no longer knew (PROTOCOL R5), and in a group.
    pub ordinal: Option<Ordinal>,
}

impl MessageChange {
    /// The conversation it belongs to.
    #[must_use]
    pub fn conversation(&self) -> ConversationId {
        self.to.conversation_with(self.by)
    }

    /// Whether the change has no number, because it concerns `by` alone (PROTOCOL C1).
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.change_seq == ChangeSeq::ZERO
    }
}

impl MessageChange {
    /// The columns of its table.
    pub const COLUMNS: &[Column<Self>] = crate::columns! {
        by: User(|c| Some(c.by)), "the user who made the change";
        peer: User(|c| c.to.uid_or_gid().0), "the other user; null in a group";
        gid: Group(|c| c.to.uid_or_gid().1), "the group; null between two users";
        mid: Number(|c| Some(c.mid.get())), "the message; up to which message, of a clear";
        kind: Word(|c| Some(c.change.kind())), "recall, delete, edit, hide, clear or react";
        msg: Text(|c| c.change.msg()), "the text of an edit; null of other kinds";
        emoji: Word(|c| c.change.emoji()), "the emoji of a reaction, empty if one is taken back; null of other kinds";
        chg: Number(|c| Some(c.change_seq.get()).filter(|chg| *chg > 0)),
            "the number among the changes of the conversation: 1, 2, 3 …; null of a hide or a clear";
        n: Number(|c| c.ordinal.map(Ordinal::get)),
            "of a clear: how many messages the other user had sent up to mid; null if that was no longer known, and in a group";
    };
}

fn change_seq(value: i64, change: &Change) -> Result<ChangeSeq, Malformed> {
    match ChangeSeq::try_from(value) {
        Ok(change_seq) if change_seq > ChangeSeq::ZERO || change.is_for_one() => Ok(change_seq),
        _ => Err(Malformed::new(
            "chg",
            format!("is {value}; must be 1 or more, or 0 of a hide or a clear"),
        )),
    }
}

impl TryFrom<proto::ChangeMessage> for ChangeMessage {
    type Error = Malformed;

    fn try_from(change: proto::ChangeMessage) -> Result<Self, Malformed> {
        Ok(Self {
            by: uid("by", change.by)?,
            to: Recipient::from_proto("peer", change.peer, change.gid)?,
            mid: mid(change.mid)?,
            change: Change::from_proto(change.kind, change.msg)?,
        })
    }
}

impl From<ChangeMessage> for proto::ChangeMessage {
    fn from(change: ChangeMessage) -> Self {
        let (peer, gid) = change.to.into_proto();
        let (kind, msg) = change.change.into_proto();
        Self {
            by: change.by.get(),
            peer,
            gid,
            mid: change.mid.get(),
            kind: kind.into(),
            msg,
        }
    }
}

impl TryFrom<proto::MessageChanged> for MessageChange {
    type Error = Malformed;

    fn try_from(changed: proto::MessageChanged) -> Result<Self, Malformed> {
        let change = Change::from_proto(changed.kind, changed.msg)?;
        Ok(Self {
            by: uid("by", changed.by)?,
            to: Recipient::from_proto("peer", changed.peer, changed.gid)?,
            mid: mid(changed.mid)?,
            change_seq: change_seq(changed.chg, &change)?,
            change,
            ordinal: ordinal_between_users(changed.n, changed.gid)?,
        })
    }
}

impl From<MessageChange> for proto::MessageChanged {
    fn from(change: MessageChange) -> Self {
        let (peer, gid) = change.to.into_proto();
        let (kind, msg) = change.change.into_proto();
        Self {
            by: change.by.get(),
            peer,
            gid,
            mid: change.mid.get(),
            kind: kind.into(),
            msg,
            chg: change.change_seq.get(),
            n: change.ordinal.map(Ordinal::get),
        }
    }
}

impl CommandKind for ChangeMessage {
    fn label(&self) -> &'static str {
        "message_change"
    }

    fn scope(&self) -> CommandScope {
        CommandScope::of_conversation(self.by, self.to)
    }

    fn author_field(&self) -> &'static str {
        "by"
    }

    fn rule_version(&self) -> u32 {
        match self.change {
            Change::React(_) => 5,
            _ => 3,
        }
    }

    fn line_field(&self) -> &'static str {
        match self.change {
            Change::React(_) => "reaction",
            _ => self.label(),
        }
    }

    fn set_by_user(&mut self, _by_user: bool) {}

    /// A recalled or hidden message does not come back, so an old recall or hide is safe.
    fn redrive(&self) -> Redrive {
        match self.change {
            Change::Edit(_) => Redrive::Never("it could take the place of edits made since"),
            Change::React(_) => Redrive::Never("it could take the place of a reaction made since"),
            Change::Recall | Change::Delete | Change::Hide | Change::Clear => {
                Redrive::IfMessageExisted(self.mid)
            }
        }
    }

    fn check_posted(&self) -> Result<(), Malformed> {
        let emoji = self.change.emoji().unwrap_or_default();
        let found = crate::Excerpt(emoji);
        let wrong = match emojis::get(emoji).map(emojis::Emoji::as_str) {
            _ if emoji.is_empty() => return Ok(()),
            Some(known) if known == emoji => return Ok(()),
            // Without the mark for the picture, for example: they look alike, and would be counted apart.
            Some(known) => format!("is {found:?}; must be {known:?}, its fully qualified form"),
            None => {
                format!("is {found:?}; must be one emoji, or empty to take the former one back")
            }
        };
        Err(Malformed::new("emoji", wrong))
    }

    fn concerned(&self) -> Vec<UserId> {
        if self.change.is_for_one() {
            vec![self.by]
        } else {
            both_users_or_author(self.by, self.to)
        }
    }

    fn text_mut(&mut self) -> Option<&mut String> {
        match &mut self.change {
            // Only emojis can be posted.
            Change::React(_) => None,
            Change::Edit(msg) => Some(msg),
            Change::Recall | Change::Delete | Change::Hide | Change::Clear => None,
        }
    }
}

impl EventKind for MessageChange {
    fn label(&self) -> &'static str {
        "message_change"
    }

    fn scope(&self) -> CommandScope {
        CommandScope::of_conversation(self.by, self.to)
    }

    fn is_for_author(&self) -> bool {
        self.change.is_for_one()
    }

    fn extra_bytes(&self) -> usize {
        self.change.content().len()
    }

    /// A user who clears a history has read it.
    fn read_positions(&self) -> [Option<ReadPosition>; 2] {
        match (&self.change, self.to) {
            (Change::Clear, Recipient::User(peer)) => {
                ReadPosition::of_both_classes(self.by, peer, self.mid, self.ordinal)
            }
            _ => [None; 2],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_edit_has_a_text() {
        for kind in ["recall", "delete", "hide", "clear"] {
            assert_eq!(Change::new(kind, None).unwrap().kind(), kind);
            let with_text = Change::new(kind, Some("new".to_owned()));
            assert_eq!(with_text.unwrap_err().field, "msg");
        }
        let edit = Change::new("edit", Some("new".to_owned())).unwrap();
        assert_eq!((edit.kind(), edit.msg()), ("edit", Some("new")));
        assert_eq!(Change::new("edit", None).unwrap_err().field, "msg");
        assert_eq!(Change::new("undo", None).unwrap_err().field, "kind");
    }

    #[test]
    fn a_reaction_is_an_emoji_or_nothing() {
        let check = |emoji: &str| {
            let change = Change::react("emoji", emoji.to_owned())?;
            assert_eq!((change.kind(), change.emoji()), ("react", Some(emoji)));
            let posted = ChangeMessage {
                by: 1.try_into().unwrap(),
                to: Recipient::User(2.try_into().unwrap()),
                mid: Mid::ZERO.next(),
                change,
            };
            posted.check_posted()
        };
        for emoji in ["", "👍", "❤️", "👩🏽\u{200d}🚀", "1️⃣", "🇩🇪"] {
            assert_eq!(check(emoji), Ok(()), "{emoji}");
        }
        let long = "👍".repeat(9);
        for wrong in [
            "a",
            "+1",
            "👍a",
            " ",
            "👍\0",
            "\u{202e}",
            "\u{200d}",
            "\u{fe0f}",
            &long,
            "❤",
            "👍👍",
            "📞0123",
            "👍\u{200d}",
            "🏽",
            "🇩",
            "👍\u{e0068}",
        ] {
            assert_eq!(check(wrong).unwrap_err().field, "emoji", "{wrong:?}");
        }
        // On the log there may be one of a later version of Unicode.
        assert!(Change::from_proto(6, "\u{1fac9}".to_owned()).is_ok());
    }

    #[test]
    fn only_what_concerns_its_author_alone_has_no_number() {
        let changed = |kind: ChangeKind, change_seq| {
            MessageChange::try_from(proto::MessageChanged {
                by: 1001,
                peer: 1000,
                mid: 3,
                kind: kind.into(),
                chg: change_seq,
                ..proto::MessageChanged::default()
            })
        };
        for (kind, may_lack_it) in [
            (ChangeKind::Hide, true),
            (ChangeKind::Clear, true),
            (ChangeKind::Recall, false),
            (ChangeKind::Delete, false),
        ] {
            assert!(!changed(kind, 1).unwrap().is_own());
            assert_eq!(changed(kind, 0).is_ok_and(|own| own.is_own()), may_lack_it);
            assert_eq!(changed(kind, -1).unwrap_err().field, "chg");
        }
    }

    #[test]
    fn the_field_at_fault_is_named() {
        let change = |edit: fn(&mut proto::ChangeMessage)| {
            let mut change = proto::ChangeMessage {
                by: 1001,
                peer: 1000,
                gid: 0,
                mid: 3,
                kind: ChangeKind::Recall.into(),
                msg: String::new(),
            };
            edit(&mut change);
            ChangeMessage::try_from(change)
        };
        assert!(change(|_| {}).is_ok());
        let field = |edit| change(edit).unwrap_err().field;
        assert_eq!(field(|c| c.by = 0), "by");
        assert_eq!(field(|c| c.peer = -1), "peer");
        assert_eq!(field(|c| c.gid = 5000), "peer");
        assert_eq!(field(|c| c.mid = 0), "mid");
        assert_eq!(field(|c| c.kind = 0), "kind");
        assert_eq!(field(|c| c.msg.push('x')), "msg");
        let long = |c: &mut proto::ChangeMessage| (c.kind, c.msg) = (6, "x".repeat(33));
        assert_eq!(field(long), "msg");
    }
}
