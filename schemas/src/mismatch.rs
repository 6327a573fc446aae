//! Compares a command with the event that should answer it.

use crate::{
    ChangeContact, ChangeGroup, ChangeMessage, ContactChange, GroupAction, GroupChange,
    MessageChange, Profile, Recipient, UserId,
    command::{Command, Control, ReadAck, SendMessage},
    event::{Body, Message, ReadPosition, Rules},
};

impl Command {
    /// The first field, by its name in the `.proto` file, in which `body` differs from what this command asks for. `None` if `body` can be
    /// the answer to it. A read position may be below the one asked for, never above (PROTOCOL S4).
    #[must_use]
    pub fn mismatched_field(&self, body: &Body) -> Option<&'static str> {
        match (self, body) {
            (Self::Send(send), Body::Message(message)) => of_send(send, message),
            (Self::ReadAck(ack), Body::ReadPosition(position)) => of_ack(ack, position),
            (Self::Control(control), Body::Control(rules)) => of_control(control, rules),
            (Self::ChangeMessage(asked), Body::MessageChange(change)) => {
                of_message_change(asked, change)
            }
            (Self::ChangeContact(asked), Body::ContactChange(change)) => {
                of_contact_change(asked, change)
            }
            (Self::ChangeGroup(asked), Body::GroupChange(change)) => of_group_change(asked, change),
            (Self::SetProfile(asked), Body::Profile(profile)) => of_profile(asked, profile),
            _ => Some("the kind"),
        }
    }
}

fn of_profile(asked: &Profile, profile: &Profile) -> Option<&'static str> {
    first_unequal([
        ("uid", asked.uid == profile.uid),
        ("nick", asked.nick == profile.nick),
        ("avatar", asked.avatar == profile.avatar),
        ("extra", asked.extra == profile.extra),
    ])
}

/// A change may concern fewer users than it names: those of whom it is true already are left out.
fn of_group_change(command: &ChangeGroup, change: &GroupChange) -> Option<&'static str> {
    let same = [
        ("gid", command.gid == change.gid),
        ("by", command.by == change.by),
        ("the kind", command.action.change_kind() == change.kind),
    ];
    if let Some(field) = first_unequal(same) {
        return Some(field);
    }
    let settings = &change.settings;
    let is_set = |asked: Option<bool>, set: bool| asked.is_none_or(|asked| asked == set);
    let only = |whom: &dyn Fn(UserId) -> bool| change.members.iter().all(|one| whom(one.uid));
    match &command.action {
        GroupAction::Create(create) => first_unequal([
            ("name", create.name == settings.name),
            ("owner", command.by == settings.owner),
            ("open", create.open == settings.open),
            (
                "whole_history",
                create.whole_history == settings.whole_history,
            ),
            (
                "members",
                only(&|one| one == command.by || create.members.contains(&one)),
            ),
        ]),
        GroupAction::Add(who) => first_unequal([("add", only(&|one| who.contains(&one)))]),
        GroupAction::Remove(who) => first_unequal([("remove", only(&|one| who.contains(&one)))]),
        GroupAction::Join | GroupAction::Leave => {
            first_unequal([("members", only(&|one| one == command.by))])
        }
        GroupAction::SetRole { uid, role } => first_unequal([(
            "role",
            change
                .members
                .iter()
                .any(|one| one.uid == *uid && one.role == Some(*role)),
        )]),
        GroupAction::Rename(name) => first_unequal([("name", *name == settings.name)]),
        GroupAction::Mute(None) => first_unequal([("muted", settings.muted)]),
        GroupAction::Unmute(None) => first_unequal([("muted", !settings.muted)]),
        GroupAction::Mute(Some(uid)) => first_unequal([("uid", only(&|one| one == *uid))]),
        GroupAction::Unmute(Some(uid)) => first_unequal([("uid", only(&|one| one == *uid))]),
        GroupAction::SetOptions(options) => first_unequal([
            ("open", is_set(options.open, settings.open)),
            (
                "whole_history",
                is_set(options.whole_history, settings.whole_history),
            ),
        ]),
        GroupAction::Dissolve => first_unequal([("dissolved", settings.dissolved)]),
    }
}

/// The field that names it: `of_user`, or that of a group.
fn receiver(of_user: &'static str, to: Recipient) -> &'static str {
    match to {
        Recipient::User(_) => of_user,
        Recipient::Group(_) => "gid",
    }
}

fn of_send(send: &SendMessage, message: &Message) -> Option<&'static str> {
    first_unequal([
        ("srcid", send.srcid == message.srcid),
        (receiver("destid", send.to), send.to == message.to),
        ("client_msg_id", send.client_msg_id == message.client_msg_id),
        ("msg", send.msg == message.msg),
    ])
}

fn of_ack(ack: &ReadAck, position: &ReadPosition) -> Option<&'static str> {
    first_unequal([
        ("uid", ack.uid == position.uid),
        (receiver("peer", ack.to), ack.to == position.to),
        ("device", ack.device == position.device),
        ("mid", ack.mid.is_none_or(|mid| position.mid <= mid)),
    ])
}

fn of_message_change(asked: &ChangeMessage, change: &MessageChange) -> Option<&'static str> {
    first_unequal([
        ("by", asked.by == change.by),
        (receiver("peer", asked.to), asked.to == change.to),
        ("mid", asked.mid == change.mid),
        ("kind", asked.change.kind() == change.change.kind()),
        ("msg", asked.change == change.change),
    ])
}

fn of_contact_change(asked: &ChangeContact, change: &ContactChange) -> Option<&'static str> {
    let flags = asked.applied_to(change.flags);
    first_unequal([
        ("uid", asked.uid == change.uid),
        ("peer", asked.peer == change.peer),
        ("favourite", flags.favourite == change.flags.favourite),
        ("pinned", flags.pinned == change.flags.pinned),
        ("muted", flags.muted == change.flags.muted),
        ("blocked", flags.blocked == change.flags.blocked),
        ("deleted", asked.deleted == change.deleted.is_some()),
    ])
}

fn of_control(control: &Control, rules: &Rules) -> Option<&'static str> {
    fn matches<T: PartialEq>(asked: Option<T>, found: T) -> bool {
        asked.is_none_or(|asked| asked == found)
    }
    let hash_key = rules.hash_key.as_ref().map_or(&[][..], |key| key.bytes());
    first_unequal([
        (
            "rule_version",
            matches(control.rule_version, rules.rule_version),
        ),
        (
            "dedup_window_ms",
            matches(control.dedup_window_ms, rules.dedup_window_ms),
        ),
        (
            "dedup_max_entries",
            matches(control.dedup_max_entries, rules.dedup_max_entries),
        ),
        (
            "max_msg_bytes",
            matches(control.max_msg_bytes, rules.max_msg_bytes),
        ),
        (
            "hash_key",
            rules.rule_version < 2 || matches(control.hash_key.as_deref(), hash_key),
        ),
        (
            "dedup_max_per_sender",
            rules.rule_version < 2
                || matches(control.dedup_max_per_sender, rules.dedup_max_per_sender),
        ),
        (
            "new_conversations_per_day",
            rules.rule_version < 2
                || matches(
                    control.new_conversations_per_day,
                    rules.new_conversations_per_day,
                ),
        ),
        (
            "recall_window_ms",
            rules.rule_version < 3 || matches(control.recall_window_ms, rules.recall_window_ms),
        ),
        (
            "delete_for_all",
            rules.rule_version < 3 || matches(control.delete_for_all, rules.delete_for_all),
        ),
        (
            "max_group_members",
            rules.rule_version < 3 || matches(control.max_group_members, rules.max_group_members),
        ),
        (
            "new_memberships_per_day",
            rules.rule_version < 4
                || matches(
                    control.new_memberships_per_day,
                    rules.new_memberships_per_day,
                ),
        ),
        (
            "max_memberships_by_others",
            rules.rule_version < 4
                || matches(
                    control.max_memberships_by_others,
                    rules.max_memberships_by_others,
                ),
        ),
    ])
}

fn first_unequal<const N: usize>(pairs: [(&'static str, bool); N]) -> Option<&'static str> {
    pairs
        .into_iter()
        .find(|(_, equal)| !equal)
        .map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeviceClass, Mid};

    fn mid(mid: i64) -> Mid {
        mid.try_into().unwrap()
    }

    fn ack(mid: Option<Mid>) -> Command {
        Command::ReadAck(ReadAck {
            uid: 1.try_into().unwrap(),
            to: Recipient::User(2.try_into().unwrap()),
            device: DeviceClass::Pc,
            mid,
        })
    }

    fn position(device: DeviceClass) -> Body {
        Body::ReadPosition(ReadPosition {
            uid: 1.try_into().unwrap(),
            to: Recipient::User(2.try_into().unwrap()),
            device,
            mid: mid(5),
            n: None,
        })
    }

    #[test]
    fn a_read_position_at_or_below_the_one_asked_for_matches() {
        let found = position(DeviceClass::Pc);
        for fits in [None, Some(mid(5)), Some(mid(9))] {
            assert_eq!(ack(fits).mismatched_field(&found), None, "{fits:?}");
        }
        assert_eq!(ack(Some(mid(4))).mismatched_field(&found), Some("mid"));
        let other = position(DeviceClass::Mobile);
        assert_eq!(ack(None).mismatched_field(&other), Some("device"));
        assert_eq!(
            ack(None).mismatched_field(&Body::Progress),
            Some("the kind")
        );
    }

    #[test]
    fn rules_match_where_all_that_was_asked_for_is_equal() {
        let asking = |max_msg_bytes| {
            Command::Control(Control {
                max_msg_bytes,
                ..Control::default()
            })
        };
        let rules = Rules::VERSION_1;
        let body = Body::Control(rules);
        assert_eq!(asking(None).mismatched_field(&body), None);
        let same = asking(Some(rules.max_msg_bytes));
        assert_eq!(same.mismatched_field(&body), None);
        let other = asking(Some(rules.max_msg_bytes + 1));
        assert_eq!(other.mismatched_field(&body), Some("max_msg_bytes"));
        let keyed = Command::Control(Control {
            hash_key: Some(vec![7; 16]),
            ..Control::default()
        });
        assert_eq!(keyed.mismatched_field(&body), None, "version 1 ignores it");
        let version_2 = |key: u8| {
            Body::Control(Rules {
                rule_version: 2,
                hash_key: Some([key; 16].into()),
                ..rules
            })
        };
        assert_eq!(keyed.mismatched_field(&version_2(7)), None);
        assert_eq!(keyed.mismatched_field(&version_2(8)), Some("hash_key"));
    }
}
