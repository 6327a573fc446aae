//! The expected outcome of a change to a message or to a contact, between two users.

use schemas::{
    Change, ChangeContact, ChangeMessage, ContactChange, ContactFlags, DirectConversation,
    dead_letter::Reason,
};

use super::{
    conversation::Conversation, expected::Expected, recall::expected_by_window,
    state_before::StateBefore,
};

/// The rule version with which a change to a message begins.
pub(super) fn first_version_of_change(change: &Change) -> u32 {
    match change {
        Change::React(_) => 5,
        _ => 3,
    }
}

pub(super) fn expected_of_message_change(
    asked: &ChangeMessage,
    id: DirectConversation,
    before: &StateBefore<'_>,
) -> Expected {
    let mid = asked.mid.get();
    let conversation = match before.conversation {
        Some(conversation) if mid <= conversation.last_mid() => conversation,
        _ => return Expected::Refused(Reason::UnknownMessage),
    };
    let side = id.side_of(asked.by);
    match asked.change {
        Change::Hide => Expected::Event,
        Change::Clear if mid <= conversation.clear_mid(side) => Expected::WithoutEffect,
        Change::Clear => Expected::Event,
        Change::React(_) => expected_of_reaction(asked, id, conversation),
        Change::Recall | Change::Delete | Change::Edit(_) => {
            expected_of_text_change(asked, id, conversation, before)
        }
    }
}

/// Either user reacts, unless the message was recalled or the other one blocks the user.
fn expected_of_reaction(
    asked: &ChangeMessage,
    id: DirectConversation,
    conversation: &Conversation,
) -> Expected {
    let mid = asked.mid.get();
    if conversation.known_author(mid).is_some() && conversation.is_recalled(mid) {
        Expected::Refused(Reason::Recalled)
    } else if conversation.flags(id.side_of(id.peer_of(asked.by))).blocked {
        Expected::Refused(Reason::Blocked)
    } else {
        Expected::Event
    }
}

/// For a change that an author makes to a message for both users.
fn expected_of_text_change(
    asked: &ChangeMessage,
    id: DirectConversation,
    conversation: &Conversation,
    before: &StateBefore<'_>,
) -> Expected {
    let mid = asked.mid.get();
    if asked.change == Change::Delete && !before.rules.delete_for_all {
        return Expected::Refused(Reason::NotAllowed);
    }
    let Some(author) = conversation.known_author(mid) else {
        return Expected::Refused(Reason::TooOld);
    };
    if author != id.side_of(asked.by) {
        return Expected::Refused(Reason::NotTheAuthor);
    }
    let is_recalled = conversation.is_recalled(mid);
    let Change::Edit(msg) = &asked.change else {
        return if is_recalled {
            Expected::WithoutEffect
        } else {
            let back = conversation.last_mid() - mid;
            expected_by_window((conversation.last_place, back), before)
        };
    };
    if is_recalled {
        Expected::Refused(Reason::Recalled)
    } else if msg.len() as i128 > i128::from(before.rules.max_msg_bytes) {
        Expected::Refused(Reason::TooLarge)
    } else if conversation.flags(id.side_of(id.peer_of(asked.by))).blocked {
        Expected::Refused(Reason::Blocked)
    } else {
        Expected::Event
    }
}

pub(super) fn expected_of_contact_change(
    asked: &ChangeContact,
    before: &StateBefore<'_>,
) -> Expected {
    let side = asked.conversation().side_of(asked.uid);
    let conversation = before.conversation;
    let flags = conversation.map_or_else(ContactFlags::default, |known| known.flags(side));
    let stays = !asked.deleted
        || conversation.is_none_or(|known| known.deleted_mid(side) == known.last_mid());
    if stays && flags_after(asked, flags) == flags {
        return Expected::WithoutEffect;
    }
    if conversation.is_none() && before.has_begun_enough(asked.uid, asked.by_user) {
        return Expected::Refused(Reason::TooManyConversations);
    }
    Expected::Event
}

/// The flags asked for, and the other flags as they were.
fn flags_after(asked: &ChangeContact, flags: ContactFlags) -> ContactFlags {
    ContactFlags {
        favourite: asked.favourite.unwrap_or(flags.favourite),
        pinned: asked.pinned.unwrap_or(flags.pinned),
        muted: asked.muted.unwrap_or(flags.muted),
        blocked: asked.blocked.unwrap_or(flags.blocked),
    }
}

/// Whether an event has the flags that a command leads to.
pub(super) fn has_the_flags(
    asked: &ChangeContact,
    change: &ContactChange,
    conversation: Option<&Conversation>,
) -> bool {
    let side = asked.conversation().side_of(asked.uid);
    let flags = conversation.map_or_else(ContactFlags::default, |known| known.flags(side));
    flags_after(asked, flags) == change.flags
}
