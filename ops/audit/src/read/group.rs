//! Changes of groups.

use schemas::{
    ChangeGroup, CreateGroup, GroupAction, GroupChange, GroupChangeKind, GroupMember, GroupRole,
    GroupSettings, Mid, SetGroupOptions, UserId,
    proto::{self, change_group::Action},
};

use super::field;

pub(super) fn change(asked: &proto::ChangeGroup) -> Result<ChangeGroup, String> {
    let action = asked.action.as_ref().ok_or("action is absent")?;
    Ok(ChangeGroup {
        gid: field("gid", asked.gid)?,
        by: field("by", asked.by)?,
        by_user: asked.by_user,
        action: action_of(action)?,
    })
}

fn action_of(action: &Action) -> Result<GroupAction, String> {
    Ok(match action {
        Action::Create(asked) => GroupAction::Create(CreateGroup {
            name: name(&asked.name)?,
            members: users(&asked.members, 0)?,
            open: asked.open,
            whole_history: asked.whole_history,
            client_id: client_id(&asked.client_id)?,
        }),
        Action::Add(asked) => GroupAction::Add(users(&asked.uids, 1)?),
        Action::Remove(asked) => GroupAction::Remove(users(&asked.uids, 1)?),
        Action::Join(_) => GroupAction::Join,
        Action::Leave(_) => GroupAction::Leave,
        Action::Role(asked) => GroupAction::SetRole {
            uid: field("uid", asked.uid)?,
            role: role(asked.role)?.ok_or("role is absent")?,
        },
        Action::Rename(asked) => GroupAction::Rename(name(asked)?),
        Action::Mute(asked) => GroupAction::Mute(one_or_all(asked)?),
        Action::Unmute(asked) => GroupAction::Unmute(one_or_all(asked)?),
        Action::Options(asked) if asked.open.is_none() && asked.whole_history.is_none() => {
            return Err("no option is asked for".to_owned());
        }
        Action::Options(asked) => GroupAction::SetOptions(SetGroupOptions {
            open: asked.open,
            whole_history: asked.whole_history,
        }),
        Action::Dissolve(_) => GroupAction::Dissolve,
    })
}

fn client_id(id: &str) -> Result<Option<String>, String> {
    match id.len() {
        0 => Ok(None),
        1..=64 => Ok(Some(id.to_owned())),
        bytes => Err(format!("client_id has {bytes} bytes")),
    }
}

pub(super) fn changed(changed: &proto::GroupChanged) -> Result<GroupChange, String> {
    let settings = changed.settings.as_ref().ok_or("settings are absent")?;
    if changed.member_count < 0 {
        return Err("member_count is below 0".to_owned());
    }
    let members = changed.members.iter().map(|member| {
        Ok(GroupMember {
            uid: field("members.uid", member.uid)?,
            role: role(member.role).unwrap_or(None),
            muted: member.muted,
            joined: member.joined,
        })
    });
    Ok(GroupChange {
        gid: field("gid", changed.gid)?,
        by: field("by", changed.by)?,
        kind: kind(changed.kind)?,
        settings: GroupSettings {
            name: name(&settings.name)?,
            owner: field("owner", settings.owner)?,
            open: settings.open,
            whole_history: settings.whole_history,
            muted: settings.muted,
            dissolved: settings.dissolved,
        },
        member_count: changed.member_count,
        last_mid: field::<_, Mid>("last_mid", changed.last_mid)?,
        members: members.collect::<Result<_, String>>()?,
    })
}

fn kind(number: i32) -> Result<GroupChangeKind, String> {
    Ok(match number {
        1 => GroupChangeKind::Create,
        2 => GroupChangeKind::Add,
        3 => GroupChangeKind::Remove,
        4 => GroupChangeKind::Join,
        5 => GroupChangeKind::Leave,
        6 => GroupChangeKind::SetRole,
        7 => GroupChangeKind::Rename,
        8 => GroupChangeKind::Mute,
        9 => GroupChangeKind::Unmute,
        10 => GroupChangeKind::SetOptions,
        11 => GroupChangeKind::Dissolve,
        _ => return Err(format!("kind is {number}")),
    })
}

/// `None` for no role.
fn role(number: i32) -> Result<Option<GroupRole>, String> {
    match number {
        0 => Ok(None),
        1 => Ok(Some(GroupRole::Member)),
        2 => Ok(Some(GroupRole::Admin)),
        3 => Ok(Some(GroupRole::Owner)),
        _ => Err(format!("role is {number}")),
    }
}

fn name(text: &str) -> Result<String, String> {
    let is_right = (1..=100).contains(&text.chars().count());
    if !is_right || text.contains(char::is_control) {
        return Err("name is not 1 to 100 characters without control characters".to_owned());
    }
    Ok(text.to_owned())
}

fn users(uids: &[i64], least: usize) -> Result<Vec<UserId>, String> {
    if uids.len() < least || uids.len() > 1_000 {
        return Err(format!("{} users are named", uids.len()));
    }
    uids.iter().map(|uid| field("uids", *uid)).collect()
}

fn one_or_all(mute: &proto::MuteGroup) -> Result<Option<UserId>, String> {
    match mute.uid {
        0 => Ok(None),
        uid => field("uid", uid).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use event_log::Record;
    use prost::Message as _;
    use schemas::{Partition, TimestampMs, command::Command, proto::inbound_command};

    use super::*;

    fn record(value: Vec<u8>) -> Record {
        Record {
            partition: Partition::try_from(3).unwrap(),
            offset: 0,
            timestamp: TimestampMs(1),
            leader_epoch: 0,
            key: None,
            value: Some(value),
            headers: Vec::new(),
        }
    }

    fn is_command(command: inbound_command::Command) -> bool {
        let command = Some(command);
        let value = proto::InboundCommand {
            command,
            ..proto::InboundCommand::default()
        }
        .encode_to_vec();
        let read = crate::read::value(&record(value.clone())).map(|value| value.command);
        // Services read it by other code.
        assert_eq!(read.as_ref().ok(), Command::parse(&value).as_ref().ok());
        read.is_ok()
    }

    fn asked(action: Action) -> proto::ChangeGroup {
        proto::ChangeGroup {
            gid: 3,
            by: 1,
            action: Some(action),
            by_user: true,
        }
    }

    fn is_change(change: proto::ChangeGroup) -> bool {
        is_command(inbound_command::Command::ChangeGroup(change))
    }

    fn create(name: &str, members: Vec<i64>) -> Action {
        let name = name.to_owned();
        Action::Create(proto::CreateGroup {
            name,
            members,
            open: true,
            whole_history: false,
            client_id: String::new(),
        })
    }

    #[test]
    fn commands_of_groups_are_read_or_refused() {
        let add = |uids| Action::Add(proto::GroupUsers { uids });
        let role = |uid, role| Action::Role(proto::SetGroupRole { uid, role });
        let mute = |uid| Action::Mute(proto::MuteGroup { uid });
        let options = |open| {
            let whole_history = None;
            Action::Options(proto::SetGroupOptions {
                open,
                whole_history,
            })
        };
        for right in [
            create("Lunch", (2..=1_001).collect()),
            create(&"ä".repeat(100), Vec::new()),
            add(vec![2, 2]),
            role(2, 3),
            mute(0),
            mute(2),
            options(Some(false)),
            Action::Rename("Dinner".to_owned()),
            Action::Join(proto::GroupBy {}),
        ] {
            assert!(is_change(asked(right.clone())), "{right:?}");
        }
        for wrong in [
            create("", Vec::new()),
            create(&"a".repeat(101), Vec::new()),
            create("a\u{85}b", Vec::new()),
            create("Lunch", (2..=1_002).collect()),
            create("Lunch", vec![0]),
            add(Vec::new()),
            add((2..=1_002).collect()),
            role(2, 0),
            role(2, 4),
            role(0, 1),
            mute(-1),
            options(None),
            Action::Rename(String::new()),
        ] {
            assert!(!is_change(asked(wrong.clone())), "{wrong:?}");
        }
        let join = || asked(Action::Join(proto::GroupBy {}));
        assert!(!is_change(proto::ChangeGroup { gid: 0, ..join() }));
        assert!(!is_change(proto::ChangeGroup { by: 0, ..join() }));
        let action = None;
        assert!(!is_change(proto::ChangeGroup { action, ..join() }));
    }

    #[test]
    fn what_is_said_in_a_group_names_no_user_beside_it() {
        for destid in [0, 2] {
            let send = proto::SendMessage {
                srcid: 1,
                destid,
                client_msg_id: "a".to_owned(),
                msg: "hello".to_owned(),
                by_user: false,
                gid: 3,
            };
            let is_right = is_command(inbound_command::Command::SendMessage(send));
            assert_eq!(is_right, destid == 0);
            let ack = proto::ReadAck {
                uid: 1,
                peer: destid,
                device: 1,
                mid: None,
                gid: 3,
            };
            let is_right = is_command(inbound_command::Command::ReadAck(ack));
            assert_eq!(is_right, destid == 0);
            let asked = proto::ChangeMessage {
                by: 1,
                peer: destid,
                gid: 3,
                mid: 1,
                kind: 1,
                msg: String::new(),
            };
            let is_right = is_command(inbound_command::Command::ChangeMessage(asked));
            assert_eq!(is_right, destid == 0);
        }
    }

    #[test]
    fn an_event_of_a_group_has_valid_settings() {
        let read = |edit: fn(&mut proto::GroupChanged)| {
            let mut changed = proto::GroupChanged {
                gid: 3,
                by: 1,
                kind: 1,
                settings: Some(proto::GroupSettings {
                    name: "Lunch".to_owned(),
                    owner: 1,
                    ..proto::GroupSettings::default()
                }),
                member_count: 1,
                last_mid: 0,
                members: vec![proto::GroupMember {
                    uid: 1,
                    role: 3,
                    muted: false,
                    joined: true,
                }],
            };
            edit(&mut changed);
            super::changed(&changed).is_ok()
        };
        assert!(read(|_| {}));
        let wrong: [fn(&mut proto::GroupChanged); 9] = [
            |c| c.gid = 0,
            |c| c.by = 0,
            |c| c.kind = 0,
            |c| c.kind = 12,
            |c| c.settings = None,
            |c| c.settings.as_mut().unwrap().name.clear(),
            |c| c.settings.as_mut().unwrap().owner = 0,
            |c| c.member_count = -1,
            |c| c.members[0].uid = 0,
        ];
        for wrong in wrong {
            assert!(!read(wrong));
        }
    }
}
