//! Commands whose records are there twice, since the producer raised its epoch, or since somebody appended them again.

use std::collections::HashSet;

use anyhow::{Result, ensure};
use rustix::process::Signal;
use schemas::{
    Change, ChangeContact, ChangeGroup, ChangeMessage, CreateGroup, DeviceClass, GroupAction,
    InboundPosition, Mid, Partition, PartitionMap, Profile, Recipient, UserId,
    command::{Command, Control, InboundValue, ReadAck, SendMessage},
};
use system_tests::{Load, Servers, Settings, TestEnv, new_users, run, until};

/// Messages wait longer than a broker is away, and requests do not.
const PATIENT: Settings = Settings {
    overrides: &[
        "ingest.message_timeout_ms=20000",
        "ingest.request_deadline_ms=25000",
    ],
    ..Settings::USUAL
};
/// Shorter than the pause, so that the producer gives up what the broker has not answered.
const IMPATIENT: Settings = Settings {
    overrides: &[
        "ingest.message_timeout_ms=1000",
        "ingest.request_deadline_ms=1500",
    ],
    ..Settings::USUAL
};
const ROUNDS: usize = 6;
const MEANWHILE: u64 = 200;

#[test]
fn no_command_is_applied_twice_where_the_broker_dies_with_it() {
    run(Servers::Own(PATIENT), async |env| {
        let mut load = Load::start(env, 8);
        for _ in 0..ROUNDS {
            load.grows_by(MEANWHILE).await?;
            env.end("kafka", Signal::KILL).await?;
            env.start_servers().await?;
        }
        load.grows_by(MEANWHILE).await?;
        load.finish().await?.judge(env).await?;
        each_command_has_one_event(env).await
    });
}

#[test]
fn no_command_is_applied_twice_where_the_broker_pauses_with_it() {
    run(Servers::Own(IMPATIENT), async |env| {
        let mut load = Load::start(env, 8);
        for _ in 0..ROUNDS {
            load.grows_by(MEANWHILE).await?;
            env.signal("kafka", Signal::STOP)?;
            let goal = env.client.unknown() + 16;
            let left_unknown = until("unknown outcomes", async || match env.client.unknown() {
                now if now >= goal => Ok(()),
                now => Err(format!("{now} of {goal}")),
            });
            let left_unknown = left_unknown.await;
            env.signal("kafka", Signal::CONT)?;
            left_unknown?;
        }
        load.grows_by(MEANWHILE).await?;
        load.finish().await?.judge(env).await?;
        each_command_has_one_event(env).await
    });
}

/// By what the events say of their commands. A former owner of a partition may have appended its decisions again (PROTOCOL S11).
async fn each_command_has_one_event(env: &TestEnv) -> Result<()> {
    let ends = env.events.ends().await?;
    let (mut sources, mut commands) = (HashSet::new(), HashSet::new());
    for event in env.events.decisions(&PartitionMap::new(), &ends).await? {
        let (Some(command), Some(partition)) = (&event.command, event.partition()) else {
            continue;
        };
        if sources.insert((partition, event.src.offset)) {
            let is_new = commands.insert((partition, event.body.scope(), command.id.clone()));
            ensure!(is_new, "applied twice: {event:?}");
        }
    }
    ensure!(!commands.is_empty(), "no event names a command");
    Ok(())
}

/// A command, and another one after which it would have its effect again.
struct Pair {
    command: Command,
    then: Command,
}

#[test]
fn a_record_that_is_there_twice_is_applied_once() {
    run(Servers::Shared, async |env| {
        let [one, other, gid] = new_users();
        let users = Users::new(one, other, gid)?;
        for command in users.begin() {
            append(env, command, "").await?;
        }
        for (number, Pair { command, then }) in users.pairs().into_iter().enumerate() {
            let id = format!("once-{number}");
            let first = append(env, command.clone(), &id).await?;
            append(env, then, "").await?;
            let second = append(env, command, &id).await?;
            let (held, repeat) = (
                env.client.outcome(first).await?,
                env.client.outcome(second).await?,
            );
            let did_something = !["repeat", "refused"]
                .map(Some)
                .contains(&held["state"].as_str());
            ensure!(did_something, "{number}: {held}");
            ensure!(
                repeat["state"] == "repeat" && repeat["of_offset"] == first.offset,
                "{number}: {held}, then {repeat}"
            );
            ensure!(
                repeat["of_mid"] == held["mid"] || held["state"] != "sequenced",
                "{repeat}"
            );
        }
        env.audit([one, other]).await?;
        Ok(())
    });
}

/// Past ingest, and waits until it is decided.
async fn append(env: &TestEnv, command: Command, id: &str) -> Result<InboundPosition> {
    let partition = command.partition().unwrap_or(Partition::FIRST);
    let value = InboundValue {
        id: id.to_owned(),
        ..command.into()
    };
    let at = env
        .events
        .append_inbound(partition, &value.encode(), &[])
        .await?;
    let outcome = env.client.outcome(at).await?;
    ensure!(outcome["state"] != "refused", "{outcome}");
    Ok(at)
}

#[derive(Clone, Copy)]
struct Users {
    one: UserId,
    other: UserId,
    group: Recipient,
}

impl Users {
    fn new(one: i64, other: i64, gid: i64) -> Result<Self> {
        Ok(Self {
            one: one.try_into()?,
            other: other.try_into()?,
            group: Recipient::Group(gid.try_into()?),
        })
    }

    /// A message and a group.
    fn begin(self) -> [Command; 2] {
        let create = GroupAction::Create(CreateGroup {
            name: "Lunch".to_owned(),
            client_id: None,
            members: vec![self.other],
            open: true,
            whole_history: false,
        });
        [
            self.send(self.one, "first"),
            self.in_group(self.one, create),
        ]
    }

    fn pairs(self) -> Vec<Pair> {
        let of = |command, then| Pair { command, then };
        let rename = |name: &str| self.in_group(self.one, GroupAction::Rename(name.to_owned()));
        let by_other = |action| self.in_group(self.other, action);
        vec![
            of(
                self.send(self.other, "again"),
                self.send(self.one, "between"),
            ),
            of(self.reads(), self.send(self.other, "later")),
            of(self.edit("new"), self.edit("newer")),
            of(self.pin(true), self.pin(false)),
            of(self.nick("Ann"), self.nick("Anna")),
            of(rename("Dinner"), rename("Supper")),
            of(by_other(GroupAction::Leave), by_other(GroupAction::Join)),
            of(limit(60_000), limit(65_535)),
        ]
    }

    fn send(self, srcid: UserId, msg: &str) -> Command {
        let destid = if srcid == self.one {
            self.other
        } else {
            self.one
        };
        Command::Send(SendMessage {
            srcid,
            to: Recipient::User(destid),
            client_msg_id: client::new_client_msg_id(),
            msg: msg.to_owned(),
            by_user: false,
        })
    }

    fn in_group(self, by: UserId, action: GroupAction) -> Command {
        let Recipient::Group(gid) = self.group else {
            unreachable!("it is a group");
        };
        Command::ChangeGroup(ChangeGroup {
            gid,
            by,
            by_user: false,
            action,
        })
    }

    /// Everything so far.
    fn reads(self) -> Command {
        Command::ReadAck(ReadAck {
            uid: self.one,
            to: Recipient::User(self.other),
            device: DeviceClass::Pc,
            mid: None,
        })
    }

    fn edit(self, msg: &str) -> Command {
        Command::ChangeMessage(ChangeMessage {
            by: self.one,
            to: Recipient::User(self.other),
            mid: Mid::ZERO.next(),
            change: Change::Edit(msg.to_owned()),
        })
    }

    fn pin(self, pinned: bool) -> Command {
        Command::ChangeContact(ChangeContact {
            uid: self.one,
            peer: self.other,
            favourite: None,
            pinned: Some(pinned),
            muted: None,
            blocked: None,
            deleted: false,
            by_user: false,
        })
    }

    fn nick(self, nick: &str) -> Command {
        Command::SetProfile(Profile {
            uid: self.one,
            nick: nick.to_owned(),
            avatar: None,
            extra: None,
        })
    }
}

/// Of a message's bytes, in the first partition.
fn limit(max_msg_bytes: i64) -> Command {
    Command::Control(Control {
        max_msg_bytes: Some(max_msg_bytes),
        ..Control::default()
    })
}
