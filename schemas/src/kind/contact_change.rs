//! What a user says about a contact.

use crate::{
    Column, DirectConversation, Mid, Ordinal, Recipient, UserId,
    kind::{
        CommandKind, CommandScope, EventKind, Redrive, Retry, first_unequal, read_ack::ReadPosition,
    },
    malformed::{Malformed, ordinal, uid},
    proto,
};

/// What a user has set for a contact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContactFlags {
    /// Marked as a favourite.
    pub favourite: bool,
    /// Shown at the top of the user's list.
    pub pinned: bool,
    /// No notifications. Unread messages count all the same.
    pub muted: bool,
    /// The peer cannot send to the user.
    pub blocked: bool,
}

/// The command: what `uid` says about the contact with `peer`. `None` leaves a flag as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeContact {
    /// The user who has the contact.
    pub uid: UserId,
    /// The other user. Users cannot block themselves.
    pub peer: UserId,
    /// See [`ContactFlags::favourite`].
    pub favourite: Option<bool>,
    /// See [`ContactFlags::pinned`].
    pub pinned: Option<bool>,
    /// See [`ContactFlags::muted`].
    pub muted: Option<bool>,
    /// See [`ContactFlags::blocked`].
    pub blocked: Option<bool>,
    /// The contact leaves the list until the next message, and the whole conversation counts as read.
    pub deleted: bool,
    /// The user posted the command, so the limits of users apply.
    pub by_user: bool,
}

impl ChangeContact {
    /// The conversation it belongs to.
    #[must_use]
    pub fn conversation(&self) -> DirectConversation {
        DirectConversation::new(self.uid, self.peer)
    }

    /// The flags after the command.
    #[must_use]
    pub fn applied_to(&self, flags: ContactFlags) -> ContactFlags {
        ContactFlags {
            favourite: self.favourite.unwrap_or(flags.favourite),
            pinned: self.pinned.unwrap_or(flags.pinned),
            muted: self.muted.unwrap_or(flags.muted),
            blocked: self.blocked.unwrap_or(flags.blocked),
        }
    }

    /// The first field in which the event differs from the command.
    pub(crate) fn mismatch(&self, change: &ContactChange) -> Option<&'static str> {
        let flags = self.applied_to(change.flags);
        first_unequal([
            ("uid", self.uid == change.uid),
            ("peer", self.peer == change.peer),
            ("favourite", flags.favourite == change.flags.favourite),
            ("pinned", flags.pinned == change.flags.pinned),
            ("muted", flags.muted == change.flags.muted),
            ("blocked", flags.blocked == change.flags.blocked),
            ("deleted", self.deleted == change.deleted.is_some()),
        ])
    }

    /// Checks that the command asks for something, and that `uid` is not blocking `uid`.
    ///
    /// # Errors
    /// [`Malformed`] if it asks for nothing, or `uid` would block `uid`.
    pub fn checked(self) -> Result<Self, Malformed> {
        let flags = [self.favourite, self.pinned, self.muted, self.blocked];
        if !self.deleted && flags == [None; 4] {
            let wrong = "is absent, and so are pinned, muted, blocked and deleted; must be one or more of them";
            return Err(Malformed::new("favourite", wrong));
        }
        if self.uid == self.peer && self.blocked == Some(true) {
            let wrong = "is true for oneself; must be absent or false";
            return Err(Malformed::new("blocked", wrong));
        }
        Ok(self)
    }
}

/// The event: what `uid` says about the contact with `peer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContactChange {
    /// The user who has the contact.
    pub uid: UserId,
    /// The other user.
    pub peer: UserId,
    /// All flags, as they are from this event on.
    pub flags: ContactFlags,
    /// The contact left the list.
    pub deleted: Option<DeletedContact>,
}

/// A contact left the list of a user, who has read everything in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletedContact {
    /// The newest message at that time; a later one brings the contact back.
    pub mid: Mid,
    /// How many messages the peer had sent up to `mid`.
    pub ordinal: Ordinal,
}

impl ContactChange {
    /// The conversation it belongs to.
    #[must_use]
    pub fn conversation(&self) -> DirectConversation {
        DirectConversation::new(self.uid, self.peer)
    }
}

impl ContactChange {
    /// The columns of its table.
    pub const COLUMNS: &[Column<Self>] = crate::columns! {
        uid: User(|c| Some(c.uid)), "the user who has the contact";
        peer: User(|c| Some(c.peer)), "the other user";
        favourite: Flag(|c| c.flags.favourite), "marked as a favourite from here on";
        pinned: Flag(|c| c.flags.pinned), "at the top of the list from here on";
        muted: Flag(|c| c.flags.muted), "without notifications from here on";
        blocked: Flag(|c| c.flags.blocked), "the peer cannot send from here on";
        deleted_mid: Number(|c| Some(c.deleted?.mid.get())),
            "the newest message when the contact was deleted; null if it was not";
        deleted_n: Number(|c| Some(c.deleted?.ordinal.get())),
            "how many messages the peer had sent up to deleted_mid; null if the contact was not deleted";
    };
}

impl TryFrom<proto::ChangeContact> for ChangeContact {
    type Error = Malformed;

    fn try_from(change: proto::ChangeContact) -> Result<Self, Malformed> {
        let change = Self {
            uid: uid("uid", change.uid)?,
            peer: uid("peer", change.peer)?,
            favourite: change.favourite,
            pinned: change.pinned,
            muted: change.muted,
            blocked: change.blocked,
            deleted: change.deleted,
            by_user: change.by_user,
        };
        change.checked()
    }
}

impl From<ChangeContact> for proto::ChangeContact {
    fn from(change: ChangeContact) -> Self {
        Self {
            uid: change.uid.get(),
            peer: change.peer.get(),
            favourite: change.favourite,
            pinned: change.pinned,
            muted: change.muted,
            blocked: change.blocked,
            deleted: change.deleted,
            by_user: change.by_user,
        }
    }
}

impl TryFrom<proto::ContactChanged> for ContactChange {
    type Error = Malformed;

    fn try_from(change: proto::ContactChanged) -> Result<Self, Malformed> {
        Ok(Self {
            uid: uid("uid", change.uid)?,
            peer: uid("peer", change.peer)?,
            flags: ContactFlags {
                favourite: change.favourite,
                pinned: change.pinned,
                muted: change.muted,
                blocked: change.blocked,
            },
            deleted: change.deleted.map(TryInto::try_into).transpose()?,
        })
    }
}

impl From<ContactChange> for proto::ContactChanged {
    fn from(change: ContactChange) -> Self {
        Self {
            uid: change.uid.get(),
            peer: change.peer.get(),
            favourite: change.flags.favourite,
            pinned: change.flags.pinned,
            muted: change.flags.muted,
            blocked: change.flags.blocked,
            deleted: change.deleted.map(Into::into),
        }
    }
}

impl TryFrom<proto::ContactDeleted> for DeletedContact {
    type Error = Malformed;

    fn try_from(deleted: proto::ContactDeleted) -> Result<Self, Malformed> {
        Ok(Self {
            mid: Mid::try_from(deleted.mid).map_err(|e| Malformed::new("deleted.mid", e))?,
            ordinal: ordinal(deleted.n)?,
        })
    }
}

impl From<DeletedContact> for proto::ContactDeleted {
    fn from(deleted: DeletedContact) -> Self {
        Self {
            mid: deleted.mid.get(),
            n: deleted.ordinal.get(),
        }
    }
}

impl CommandKind for ChangeContact {
    fn label(&self) -> &'static str {
        "contact_change"
    }

    fn scope(&self) -> CommandScope {
        CommandScope::of_conversation(self.uid, Recipient::User(self.peer))
    }

    fn author_field(&self) -> &'static str {
        "uid"
    }

    fn rule_version(&self) -> u32 {
        3
    }

    fn set_by_user(&mut self, by_user: bool) {
        self.by_user = by_user;
    }

    fn redrive(&self) -> Redrive {
        Redrive::Never("it would take the place of what its user has said since")
    }

    fn retry(&self) -> Retry {
        if self.deleted {
            Retry::CommandIdOfDeletion
        } else {
            Retry::CommandId
        }
    }
}

impl EventKind for ContactChange {
    fn label(&self) -> &'static str {
        "contact_change"
    }

    fn scope(&self) -> CommandScope {
        CommandScope::of_conversation(self.uid, Recipient::User(self.peer))
    }

    fn is_for_author(&self) -> bool {
        true
    }

    fn extra_bytes(&self) -> usize {
        0
    }

    /// A user who deletes a contact has read everything in the conversation.
    fn read_positions(&self) -> [Option<ReadPosition>; 2] {
        match self.deleted {
            Some(DeletedContact { mid, ordinal }) => {
                ReadPosition::of_both_classes(self.uid, self.peer, mid, Some(ordinal))
            }
            None => [None; 2],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_asks_for_something_and_nobody_blocks_himself() {
        let change = |edit: fn(&mut proto::ChangeContact)| {
            let mut change = proto::ChangeContact {
                uid: 1000,
                peer: 1001,
                ..proto::ChangeContact::default()
            };
            edit(&mut change);
            ChangeContact::try_from(change)
        };
        let field = |edit| change(edit).unwrap_err().field;
        assert_eq!(field(|_| {}), "favourite");
        assert_eq!(field(|c| c.uid = 0), "uid");
        let blocks_himself = |c: &mut proto::ChangeContact| {
            c.peer = c.uid;
            c.blocked = Some(true);
        };
        assert_eq!(field(blocks_himself), "blocked");
        let pinned = change(|c| c.pinned = Some(true)).unwrap();
        let before = ContactFlags {
            muted: true,
            ..ContactFlags::default()
        };
        let after = ContactFlags {
            pinned: true,
            ..before
        };
        assert_eq!(pinned.applied_to(before), after);
        assert!(change(|c| c.deleted = true).is_ok());
    }
}
