use schemas::ContactFlags;
use serde::Serialize;
use utoipa::ToSchema;

/// What a user has set for a contact, as every answer shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Flags {
    /// Marked as a favourite.
    favourite: bool,
    /// Shown at the top of the user's list.
    pinned: bool,
    /// No notifications; unread messages count all the same.
    muted: bool,
    /// The peer cannot send to the user.
    blocked: bool,
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
