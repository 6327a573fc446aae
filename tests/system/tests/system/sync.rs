//! A device that syncs now and then ends with what a new device gets.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use schemas::{
    Change, CreateGroup, DeviceClass, GroupAction, GroupCommand, InboundPosition, Mid, UserId,
};
use serde_json::Value;
use system_tests::{Servers, TestEnv, new_users, run};

/// What a device has.
#[derive(Debug, Default, PartialEq)]
struct Device {
    token: Option<String>,
    conversations: BTreeMap<String, Value>,
    groups: BTreeMap<String, Value>,
    /// How many answers had everything.
    full: usize,
}

impl Device {
    /// Follows the pages of a sync.
    async fn sync(&mut self, env: &TestEnv, uid: i64, limit: usize) -> Result<()> {
        let mut is_first = true;
        loop {
            let since = self.token.as_ref().map(|token| format!("&since={token}"));
            let path = format!(
                "/v1/users/{uid}/sync?limit={limit}{}",
                since.unwrap_or_default()
            );
            let answer: Value = env.client.ask(&path).await?;
            if answer["full"] == true && is_first {
                (self.conversations, self.groups) = Default::default();
                self.full += 1;
            }
            is_first = false;
            self.take(&answer)?;
            if answer["more"] == false {
                return Ok(());
            }
        }
    }

    fn take(&mut self, answer: &Value) -> Result<()> {
        let rows = |name: &str| answer[name].as_array().with_context(|| format!("{answer}"));
        for row in rows("conversations")? {
            let peer = row["peer"].as_str().context("no peer")?.to_owned();
            match row["deleted"] == true {
                true => self.conversations.remove(&peer),
                false => self.conversations.insert(peer, row.clone()),
            };
        }
        for row in rows("groups")? {
            let gid = row["gid"].as_str().context("no gid")?.to_owned();
            self.groups.insert(gid, row.clone());
        }
        for gid in rows("left")? {
            self.groups.remove(gid.as_str().context("no gid")?);
        }
        self.token = Some(answer["next"].as_str().context("no token")?.to_owned());
        Ok(())
    }
}

/// Users who write to each other and in two groups.
struct Traffic<'a> {
    env: &'a TestEnv,
    users: [i64; 5],
    groups: [i64; 2],
    rng: StdRng,
    sent: usize,
}

impl Traffic<'_> {
    async fn step(&mut self) -> Result<InboundPosition> {
        let [from, to] = [0; 2].map(|_| self.users[self.rng.random_range(0..self.users.len())]);
        let mid = self.rng.random_range(1..5);
        let client = &self.env.client;
        let id = format!("{from}-{}", self.sent);
        self.sent += 1;
        match self.rng.random_range(0..12) {
            0..=3 => client.send(from, to, &id, "hello").await,
            4 => client.ack(from, to, DeviceClass::Mobile, mid).await,
            5 => {
                client
                    .flag_contact(
                        from,
                        to,
                        *["pinned", "muted", "deleted"]
                            .choose(&mut self.rng)
                            .unwrap_or(&"pinned"),
                    )
                    .await
            }
            6 => client.change_message(from, to, mid, Change::Hide).await,
            7 => client.change_message(from, to, mid, Change::Clear).await,
            8 => client.change_message(from, to, mid, Change::Recall).await,
            _ => self.step_in_group(from, to, id).await,
        }
    }

    async fn step_in_group(&mut self, by: i64, other: i64, id: String) -> Result<InboundPosition> {
        let gid = *self.groups.choose(&mut self.rng).unwrap_or(&self.groups[0]);
        let owner = self.users[0];
        let (by, action) = match self.rng.random_range(0..8) {
            0 => (owner, GroupAction::Add(vec![UserId::try_from(other)?])),
            1 => (owner, GroupAction::Remove(vec![UserId::try_from(other)?])),
            2 => (by, GroupAction::Leave),
            3 => (owner, GroupAction::Rename(id)),
            4 => (
                by,
                GroupAction::Read {
                    device: DeviceClass::Pc,
                    mid: None,
                },
            ),
            5 => (
                by,
                GroupAction::ChangeMessage {
                    mid: Mid::try_from(2)?,
                    change: Change::Hide,
                },
            ),
            _ => (
                by,
                GroupAction::Send {
                    client_msg_id: id.try_into()?,
                    msg: "hello all".to_owned(),
                },
            ),
        };
        self.post(gid, by, action).await
    }

    async fn begin(&self) -> Result<Vec<InboundPosition>> {
        let mut begun = Vec::new();
        for gid in self.groups {
            let members = self.users[1..3]
                .iter()
                .map(|uid| Ok(UserId::try_from(*uid)?));
            let create = GroupAction::Create(CreateGroup {
                name: "Lunch".to_owned(),
                members: members.collect::<Result<_>>()?,
                open: true,
                whole_history: false,
            });
            begun.push(self.post(gid, self.users[0], create).await?);
        }
        Ok(begun)
    }

    async fn post(&self, gid: i64, by: i64, action: GroupAction) -> Result<InboundPosition> {
        let command = GroupCommand {
            gid: gid.try_into()?,
            by: by.try_into()?,
            by_user: false,
            action,
        };
        self.env.client.post_group(&command).await
    }
}

#[test]
fn a_device_that_syncs_has_what_a_new_one_gets() {
    run(Servers::Shared, async |env| {
        let users = new_users();
        let mut traffic = Traffic {
            env,
            users,
            groups: [users[3], users[4]],
            rng: StdRng::seed_from_u64(7),
            sent: 0,
        };
        let mut posted = traffic.begin().await?;
        let mut devices = users.map(|_| Device::default());
        for step in 0..240 {
            posted.push(traffic.step().await?);
            if step % 6 == 0 {
                let which = step / 6 % users.len();
                devices[which].sync(env, users[which], 1 + step % 4).await?;
            }
        }
        let mut newest: BTreeMap<_, InboundPosition> = BTreeMap::new();
        for at in posted {
            newest
                .entry(at.partition)
                .and_modify(|last| last.offset = last.offset.max(at.offset))
                .or_insert(at);
        }
        let after: Vec<InboundPosition> = newest.into_values().collect();
        for (uid, device) in users.into_iter().zip(&mut devices) {
            // Both stores have everything then.
            env.client.conversations(uid, &after).await?;
            device.sync(env, uid, 2).await?;
            let mut new = Device::default();
            new.sync(env, uid, 1_000).await?;
            ensure!(
                device.full == 1,
                "{uid} got everything {} times",
                device.full
            );
            ensure!(
                (&device.conversations, &device.groups) == (&new.conversations, &new.groups),
                "{uid} has {device:#?}\nand a new device {new:#?}"
            );
            // Nothing has changed since.
            let token = device.token.clone().context("no token")?;
            let again: Value = env
                .client
                .ask(&format!("/v1/users/{uid}/sync?since={token}"))
                .await?;
            ensure!(
                again["conversations"].as_array().is_some_and(Vec::is_empty),
                "{again}"
            );
        }
        ensure!(
            devices.iter().any(|device| !device.groups.is_empty()),
            "no groups"
        );
        Ok(())
    });
}
