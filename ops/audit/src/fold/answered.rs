//! The command that an event answers, derived from the event.

use schemas::{
    ChangeContact, ChangeGroup, ChangeMessage, CreateGroup, GroupAction, GroupChange,
    GroupChangeKind, GroupRole, Recipient, SetGroupOptions,
    command::{Command, ReadAck, SendMessage},
    event::Body,
};

/// The command that an event answers, if it changes a message, a contact or a profile, or is in a group: it asks for everything that the event says.
/// The event does not say whether a user posted the command.
pub(super) fn command_of(body: &Body) -> Option<Command> {
    match body {
        Body::MessageChange(change) => Some(Command::ChangeMessage(ChangeMessage {
            by: change.by,
            to: change.to,
            mid: change.mid,
            change: change.change.clone(),
        })),
        Body::Message(message) if is_group(message.to) => Some(Command::Send(SendMessage {
            srcid: message.srcid,
            to: message.to,
            client_msg_id: message.client_msg_id.clone(),
            msg: message.msg.clone(),
            by_user: false,
        })),
        Body::ReadPosition(position) if is_group(position.to) => Some(Command::ReadAck(ReadAck {
            uid: position.uid,
            to: position.to,
            device: position.device,
            mid: Some(position.mid),
        })),
        Body::ContactChange(change) => Some(Command::ChangeContact(ChangeContact {
            uid: change.uid,
            peer: change.peer,
            favourite: Some(change.flags.favourite),
            pinned: Some(change.flags.pinned),
            muted: Some(change.flags.muted),
            blocked: Some(change.flags.blocked),
            deleted: change.deleted.is_some(),
            by_user: false,
        })),
        Body::GroupChange(change) => Some(Command::ChangeGroup(change_asked_for(change))),
        // So that a profile below rule version 3 is reported, whether its cause is retained or not.
        Body::Profile(profile) => Some(Command::SetProfile(profile.clone())),
        Body::Message(_) | Body::ReadPosition(_) | Body::Control(_) | Body::Progress => None,
    }
}

fn is_group(to: Recipient) -> bool {
    matches!(to, Recipient::Group(_))
}

/// The command that a change answers: it asks for everything that the event says. The event does not say whether a user posted the command.
fn change_asked_for(change: &GroupChange) -> ChangeGroup {
    ChangeGroup {
        gid: change.gid,
        by: change.by,
        by_user: false,
        action: action_of(change),
    }
}

fn action_of(change: &GroupChange) -> GroupAction {
    let by = change.by;
    let GroupChange {
        settings, members, ..
    } = change;
    let named = || members.iter().map(|member| member.uid).collect();
    let first = members.first().map(|member| member.uid);
    match change.kind {
        GroupChangeKind::Create => GroupAction::Create(CreateGroup {
            name: settings.name.clone(),
            members: named(),
            open: settings.open,
            whole_history: settings.whole_history,
            client_id: None,
        }),
        GroupChangeKind::Add => GroupAction::Add(named()),
        GroupChangeKind::Remove => GroupAction::Remove(named()),
        GroupChangeKind::Join => GroupAction::Join,
        GroupChangeKind::Leave => GroupAction::Leave,
        GroupChangeKind::SetRole => {
            // The former owner is in the event, too.
            let of_other = members.iter().find(|member| member.uid != by);
            GroupAction::SetRole {
                uid: of_other.map_or(by, |member| member.uid),
                role: of_other
                    .and_then(|member| member.role)
                    .unwrap_or(GroupRole::Member),
            }
        }
        GroupChangeKind::Rename => GroupAction::Rename(settings.name.clone()),
        GroupChangeKind::Mute => GroupAction::Mute(first),
        GroupChangeKind::Unmute => GroupAction::Unmute(first),
        GroupChangeKind::SetOptions => GroupAction::SetOptions(SetGroupOptions {
            open: Some(settings.open),
            whole_history: Some(settings.whole_history),
        }),
        GroupChangeKind::Dissolve => GroupAction::Dissolve,
    }
}
