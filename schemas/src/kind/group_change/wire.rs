//! The protobuf messages of groups, and their checks.

use crate::{
    ChangeGroup, CreateGroup, GroupAction, GroupChange, GroupId, GroupMember, GroupRole,
    GroupSettings, Mid, SetGroupOptions, UserId,
    kind::group_change::{GroupChangeKind, check_name},
    malformed::{Malformed, uid},
    proto,
};

fn uids(field: &'static str, uids: &[i64]) -> Result<Vec<UserId>, Malformed> {
    uids.iter().map(|one| uid(field, *one)).collect()
}

impl TryFrom<proto::ChangeGroup> for ChangeGroup {
    type Error = Malformed;

    fn try_from(change: proto::ChangeGroup) -> Result<Self, Malformed> {
        use proto::change_group::Action;

        let whom = |mute: proto::MuteGroup| match mute.uid {
            0 => Ok(None),
            one => uid("uid", one).map(Some),
        };
        let action = match change.action {
            None => {
                let wrong = "is absent; must be create, add, remove, join, leave, role, rename, mute, unmute, options or dissolve";
                return Err(Malformed::new("action", wrong));
            }
            Some(Action::Create(create)) => GroupAction::Create(CreateGroup {
                name: create.name,
                members: uids("members", &create.members)?,
                open: create.open,
                whole_history: create.whole_history,
                client_id: Some(create.client_id).filter(|id| !id.is_empty()),
            }),
            Some(Action::Add(who)) => GroupAction::Add(uids("add", &who.uids)?),
            Some(Action::Remove(who)) => GroupAction::Remove(uids("remove", &who.uids)?),
            Some(Action::Join(_)) => GroupAction::Join,
            Some(Action::Leave(_)) => GroupAction::Leave,
            Some(Action::Role(set)) => GroupAction::SetRole {
                uid: uid("uid", set.uid)?,
                role: GroupRole::from_proto(set.role).ok_or_else(|| {
                    let wrong = format!(
                        "is {}; must be 1 (member), 2 (admin) or 3 (owner)",
                        set.role
                    );
                    Malformed::new("role", wrong)
                })?,
            },
            Some(Action::Rename(name)) => GroupAction::Rename(name),
            Some(Action::Mute(mute)) => GroupAction::Mute(whom(mute)?),
            Some(Action::Unmute(mute)) => GroupAction::Unmute(whom(mute)?),
            Some(Action::Options(options)) => GroupAction::SetOptions(SetGroupOptions {
                open: options.open,
                whole_history: options.whole_history,
            }),
            Some(Action::Dissolve(_)) => GroupAction::Dissolve,
        };
        Self {
            gid: GroupId::try_from(change.gid).map_err(|e| Malformed::new("gid", e))?,
            by: uid("by", change.by)?,
            by_user: change.by_user,
            action,
        }
        .checked()
    }
}

impl From<ChangeGroup> for proto::ChangeGroup {
    fn from(change: ChangeGroup) -> Self {
        use proto::change_group::Action;

        let numbers = |users: Vec<UserId>| users.into_iter().map(UserId::get).collect();
        let whom = |uid: Option<UserId>| proto::MuteGroup {
            uid: uid.map_or(0, UserId::get),
        };
        let action = match change.action {
            GroupAction::Create(create) => Action::Create(proto::CreateGroup {
                name: create.name,
                members: numbers(create.members),
                open: create.open,
                whole_history: create.whole_history,
                client_id: create.client_id.unwrap_or_default(),
            }),
            GroupAction::Add(who) => Action::Add(proto::GroupUsers { uids: numbers(who) }),
            GroupAction::Remove(who) => Action::Remove(proto::GroupUsers { uids: numbers(who) }),
            GroupAction::Join => Action::Join(proto::GroupBy {}),
            GroupAction::Leave => Action::Leave(proto::GroupBy {}),
            GroupAction::SetRole { uid, role } => Action::Role(proto::SetGroupRole {
                uid: uid.get(),
                role: proto::GroupRole::from(role).into(),
            }),
            GroupAction::Rename(name) => Action::Rename(name),
            GroupAction::Mute(uid) => Action::Mute(whom(uid)),
            GroupAction::Unmute(uid) => Action::Unmute(whom(uid)),
            GroupAction::SetOptions(options) => Action::Options(proto::SetGroupOptions {
                open: options.open,
                whole_history: options.whole_history,
            }),
            GroupAction::Dissolve => Action::Dissolve(proto::GroupBy {}),
        };
        Self {
            gid: change.gid.get(),
            by: change.by.get(),
            action: Some(action),
            by_user: change.by_user,
        }
    }
}

impl TryFrom<proto::GroupSettings> for GroupSettings {
    type Error = Malformed;

    fn try_from(settings: proto::GroupSettings) -> Result<Self, Malformed> {
        check_name(&settings.name)?;
        Ok(Self {
            name: settings.name,
            owner: uid("owner", settings.owner)?,
            open: settings.open,
            whole_history: settings.whole_history,
            muted: settings.muted,
            dissolved: settings.dissolved,
        })
    }
}

impl From<GroupSettings> for proto::GroupSettings {
    fn from(settings: GroupSettings) -> Self {
        Self {
            name: settings.name,
            owner: settings.owner.get(),
            open: settings.open,
            whole_history: settings.whole_history,
            muted: settings.muted,
            dissolved: settings.dissolved,
        }
    }
}

/// The role in an event; `None` for a user who is no longer a member.
fn role_of_event(role: i32) -> Result<Option<GroupRole>, Malformed> {
    match (role, GroupRole::from_proto(role)) {
        (0, _) => Ok(None),
        (_, Some(role)) => Ok(Some(role)),
        (_, None) => {
            let wrong = format!("is {role}; must be from 0 to 3");
            Err(Malformed::new("members.role", wrong))
        }
    }
}

impl TryFrom<proto::GroupChanged> for GroupChange {
    type Error = Malformed;

    fn try_from(change: proto::GroupChanged) -> Result<Self, Malformed> {
        let settings = change
            .settings
            .ok_or_else(|| Malformed::new("settings", "is absent"))?;
        let members = change.members.iter().map(|member| {
            Ok(GroupMember {
                uid: uid("members.uid", member.uid)?,
                role: role_of_event(member.role)?,
                muted: member.muted,
                joined: member.joined,
            })
        });
        if change.member_count < 0 {
            return Err(Malformed::new("member_count", "is below 0"));
        }
        Ok(Self {
            gid: GroupId::try_from(change.gid).map_err(|e| Malformed::new("gid", e))?,
            by: uid("by", change.by)?,
            kind: GroupChangeKind::from_proto(change.kind)?,
            settings: settings.try_into()?,
            member_count: change.member_count,
            last_mid: Mid::try_from(change.last_mid).map_err(|e| Malformed::new("last_mid", e))?,
            members: members.collect::<Result<_, _>>()?,
        })
    }
}

impl From<GroupChange> for proto::GroupChanged {
    fn from(change: GroupChange) -> Self {
        let members = change.members.iter().map(|member| proto::GroupMember {
            uid: member.uid.get(),
            role: member
                .role
                .map_or(0, |role| proto::GroupRole::from(role).into()),
            muted: member.muted,
            joined: member.joined,
        });
        Self {
            gid: change.gid.get(),
            by: change.by.get(),
            kind: GroupChangeKind::ALL[change.kind as usize].1.into(),
            settings: Some(change.settings.into()),
            member_count: change.member_count,
            last_mid: change.last_mid.get(),
            members: members.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ConversationId, GroupChangeKind, TimestampMs,
        command::Command,
        event::{Body, Event, Source, SourceOffset},
    };

    fn user(uid: i64) -> UserId {
        UserId::try_from(uid).unwrap()
    }

    fn command(action: GroupAction) -> Command {
        Command::ChangeGroup(ChangeGroup {
            gid: GroupId::try_from(5000).unwrap(),
            by: user(1000),
            by_user: false,
            action,
        })
    }

    fn field(change: proto::ChangeGroup) -> &'static str {
        ChangeGroup::try_from(change).unwrap_err().field
    }

    #[test]
    fn every_command_round_trips() {
        let actions = [
            GroupAction::Create(CreateGroup {
                name: "Lunch".to_owned(),
                members: vec![user(1001), user(i64::MAX)],
                open: true,
                whole_history: true,
                client_id: Some("lunch".to_owned()),
            }),
            GroupAction::Add(vec![user(1)]),
            GroupAction::Remove(vec![user(1)]),
            GroupAction::Join,
            GroupAction::Leave,
            GroupAction::SetRole {
                uid: user(1),
                role: GroupRole::Owner,
            },
            GroupAction::Rename("Dinner".to_owned()),
            GroupAction::Mute(None),
            GroupAction::Unmute(Some(user(1))),
            GroupAction::SetOptions(SetGroupOptions {
                open: Some(false),
                whole_history: None,
            }),
            GroupAction::Dissolve,
        ];
        for action in actions {
            let command = command(action);
            assert_eq!(Command::parse(&command.clone().encode()).unwrap(), command);
            let key = command.conversation().map(|id| id.to_string());
            assert_eq!(key.as_deref(), Some("g:5000"));
        }
    }

    #[test]
    fn a_change_of_a_group_round_trips() {
        let settings = GroupSettings {
            name: "Lunch".to_owned(),
            owner: user(1000),
            open: false,
            whole_history: true,
            muted: true,
            dissolved: false,
        };
        let left = GroupMember {
            uid: user(1001),
            role: None,
            muted: true,
            joined: false,
        };
        let gid = GroupId::try_from(5000).unwrap();
        let event = Event {
            src: Source {
                offset: SourceOffset::START,
                leader_epoch: 0,
            },
            ts: TimestampMs(5),
            body: Body::GroupChange(Box::new(GroupChange {
                gid,
                by: user(1000),
                kind: GroupChangeKind::Leave,
                settings,
                member_count: 1,
                last_mid: Mid::ZERO.next(),
                members: vec![left],
            })),
            command: None,
            words: None,
        };
        let partition = ConversationId::Group(gid).partition();
        let read = Event::read(partition, &event.clone().encode(), event.ts);
        assert_eq!(read.unwrap(), event);
    }

    #[test]
    fn kinds_have_their_own_names() {
        let kinds = [GroupChangeKind::Create, GroupChangeKind::Dissolve];
        assert_eq!(kinds.map(GroupChangeKind::as_str), ["create", "dissolve"]);
        for (index, (kind, number, _)) in GroupChangeKind::ALL.into_iter().enumerate() {
            assert_eq!((kind as usize, number as usize), (index, index + 1));
        }
    }

    #[test]
    fn the_field_at_fault_is_named() {
        use proto::change_group::Action;

        let change = |action| proto::ChangeGroup {
            gid: 5000,
            by: 1000,
            action,
            by_user: false,
        };
        let dissolve = || Some(Action::Dissolve(proto::GroupBy {}));
        assert_eq!(field(change(None)), "action");
        let gid = 0;
        assert_eq!(
            field(proto::ChangeGroup {
                gid,
                ..change(dissolve())
            }),
            "gid"
        );
        let by = -1;
        assert_eq!(
            field(proto::ChangeGroup {
                by,
                ..change(dissolve())
            }),
            "by"
        );
        let add = |uids| change(Some(Action::Add(proto::GroupUsers { uids })));
        assert_eq!(field(add(vec![])), "add");
        assert_eq!(field(add(vec![0])), "add");
        assert_eq!(field(add((1..=1_001).collect())), "add");
        assert!(ChangeGroup::try_from(add((1..=1_000).collect())).is_ok());
        for name in [String::new(), "x".repeat(101), "a\nb".to_owned()] {
            assert_eq!(field(change(Some(Action::Rename(name)))), "rename");
        }
        let create = proto::CreateGroup {
            name: "Lunch".to_owned(),
            client_id: "x".repeat(65),
            ..proto::CreateGroup::default()
        };
        assert_eq!(field(change(Some(Action::Create(create)))), "client_id");
        let role = proto::SetGroupRole { uid: 1, role: 4 };
        assert_eq!(field(change(Some(Action::Role(role)))), "role");
        let options = proto::SetGroupOptions::default();
        assert_eq!(field(change(Some(Action::Options(options)))), "open");
        let mute = Action::Mute(proto::MuteGroup { uid: -1 });
        assert_eq!(field(change(Some(mute))), "uid");
        let create = |name: &str, members| {
            change(Some(Action::Create(proto::CreateGroup {
                name: name.to_owned(),
                members,
                ..proto::CreateGroup::default()
            })))
        };
        assert!(ChangeGroup::try_from(create(&"\u{e4}".repeat(100), Vec::new())).is_ok());
        assert!(ChangeGroup::try_from(create("Lunch", (2..=1_001).collect())).is_ok());
        for name in [String::new(), "a".repeat(101), "a\u{85}b".to_owned()] {
            assert_eq!(field(create(&name, Vec::new())), "name");
        }
        assert_eq!(field(create("Lunch", (2..=1_002).collect())), "members");
        assert_eq!(field(create("Lunch", vec![0])), "members");
    }

    #[test]
    fn the_field_of_an_event_at_fault_is_named() {
        let field = |edit: fn(&mut proto::GroupChanged)| {
            let mut changed = proto::GroupChanged {
                gid: 5000,
                by: 1000,
                kind: 1,
                settings: Some(proto::GroupSettings {
                    name: "Lunch".to_owned(),
                    owner: 1000,
                    ..proto::GroupSettings::default()
                }),
                member_count: 1,
                last_mid: 0,
                members: vec![proto::GroupMember {
                    uid: 1000,
                    role: 3,
                    muted: false,
                    joined: true,
                }],
            };
            edit(&mut changed);
            let read = GroupChange::try_from(changed);
            read.err().map(|malformed| malformed.field)
        };
        assert_eq!(field(|_| {}), None);
        assert_eq!(field(|c| c.gid = 0), Some("gid"));
        assert_eq!(field(|c| c.by = 0), Some("by"));
        assert_eq!(field(|c| c.kind = 0), Some("kind"));
        assert_eq!(field(|c| c.kind = 12), Some("kind"));
        assert_eq!(field(|c| c.settings = None), Some("settings"));
        assert_eq!(
            field(|c| c.settings.as_mut().unwrap().name.clear()),
            Some("name")
        );
        assert_eq!(
            field(|c| c.settings.as_mut().unwrap().owner = 0),
            Some("owner")
        );
        assert_eq!(field(|c| c.member_count = -1), Some("member_count"));
        assert_eq!(field(|c| c.last_mid = -1), Some("last_mid"));
        assert_eq!(field(|c| c.members[0].uid = 0), Some("members.uid"));
        assert_eq!(field(|c| c.members[0].role = 4), Some("members.role"));
    }
}
