//! What users say about contacts.

use schemas::{ChangeContact, ContactChange, ContactFlags, UserId, command::Malformed};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::values::Id;

/// "uid says this about the contact with peer." What is absent stays as it is; one member at least is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ContactChangeBody {
    /// Whose contact it is.
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "1000")]
    pub uid: UserId,
    /// The other user.
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "1001")]
    pub peer: UserId,
    /// Whether it is marked as a favourite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub favourite: Option<bool>,
    /// Whether it is at the top of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = true)]
    pub pinned: Option<bool>,
    /// Whether `uid` wants no notifications. Messages are unread all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub muted: Option<bool>,
    /// Whether what `peer` sends to `uid` is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<bool>,
    /// `true`: the contact leaves the list until its next message, and what is in the conversation is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<bool>,
    /// The caller's own id of this command, 1 to 64 bytes without control characters, best a UUIDv7; a repeat with it changes nothing. If neither this field
    /// nor the header `Idempotency-Key` has one, it is generated and returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64)]
    pub command_id: Option<String>,
}

impl ContactChangeBody {
    /// The command.
    ///
    /// # Errors
    /// A field is wrong. What `deleted` is if it is there has to be checked before.
    pub fn into_command(self) -> Result<ChangeContact, Malformed> {
        let change = ChangeContact {
            uid: self.uid,
            peer: self.peer,
            favourite: self.favourite,
            pinned: self.pinned,
            muted: self.muted,
            blocked: self.blocked,
            deleted: self.deleted.is_some(),
            by_user: false,
        };
        change.checked()
    }
}

impl From<&ChangeContact> for ContactChangeBody {
    fn from(change: &ChangeContact) -> Self {
        Self {
            uid: change.uid,
            peer: change.peer,
            favourite: change.favourite,
            pinned: change.pinned,
            muted: change.muted,
            blocked: change.blocked,
            deleted: change.deleted.then_some(true),
            command_id: None,
        }
    }
}

/// What a user has set for a contact, as every answer shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Flags {
    /// Marked as a favourite.
    #[serde(default)]
    #[schema(required = true)]
    pub favourite: bool,
    /// Shown at the top of the user's list.
    #[serde(default)]
    #[schema(required = true)]
    pub pinned: bool,
    /// No notifications; unread messages count all the same.
    #[serde(default)]
    #[schema(required = true)]
    pub muted: bool,
    /// The peer cannot send to the user.
    #[serde(default)]
    #[schema(required = true)]
    pub blocked: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = ContactBody)]
pub struct ContactEvent {
    #[schema(value_type = Id)]
    pub uid: UserId,
    #[schema(value_type = Id)]
    pub peer: UserId,
    pub favourite: bool,
    pub pinned: bool,
    pub muted: bool,
    pub blocked: bool,
    /// The newest message when the contact was deleted with this change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_mid: Option<i64>,
    /// How many messages the peer had sent up to there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_n: Option<i64>,
}

impl ContactEvent {
    pub(crate) fn new(change: &ContactChange) -> Self {
        Self {
            uid: change.uid,
            peer: change.peer,
            favourite: change.flags.favourite,
            pinned: change.flags.pinned,
            muted: change.flags.muted,
            blocked: change.flags.blocked,
            deleted_mid: change.deleted.map(|deleted| deleted.mid.get()),
            deleted_n: change.deleted.map(|deleted| deleted.ordinal.get()),
        }
    }

    /// What the user has set from there on.
    #[must_use]
    pub fn flags(&self) -> Flags {
        Flags {
            favourite: self.favourite,
            pinned: self.pinned,
            muted: self.muted,
            blocked: self.blocked,
        }
    }
}

impl From<ContactFlags> for Flags {
    fn from(flags: ContactFlags) -> Self {
        let ContactFlags {
            favourite,
            pinned,
            muted,
            blocked,
        } = flags;
        Self {
            favourite,
            pinned,
            muted,
            blocked,
        }
    }
}
