//! Users who write to each other and in two groups.

use anyhow::Result;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use schemas::{Change, CreateGroup, GroupAction, GroupCommand, InboundPosition, UserId};
use system_tests::TestEnv;

pub struct Traffic<'a> {
    env: &'a TestEnv,
    users: [i64; 5],
    groups: [i64; 2],
    rng: StdRng,
    sent: usize,
}

impl<'a> Traffic<'a> {
    pub fn new(env: &'a TestEnv, users: [i64; 5]) -> Self {
        Self {
            env,
            users,
            groups: [users[3], users[4]],
            rng: StdRng::seed_from_u64(7),
            sent: 0,
        }
    }

    /// Happens once in so many times.
    pub fn happens(&mut self, once_in: u32) -> bool {
        self.rng.random_ratio(1, once_in)
    }

    /// Creates the groups.
    pub async fn begin(&self) -> Result<Vec<InboundPosition>> {
        let mut begun = Vec::new();
        for gid in self.groups {
            let members = self.users[1..3].iter();
            let members = members.map(|uid| Ok(UserId::try_from(*uid)?));
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

    pub async fn step(&mut self) -> Result<InboundPosition> {
        let [from, to] = [0; 2].map(|_| self.users[self.rng.random_range(0..self.users.len())]);
        let mid = self.rng.random_range(1..5);
        let client = &self.env.client;
        let id = format!("{from}-{}", self.sent);
        self.sent += 1;
        match self.rng.random_range(0..10) {
            0..=2 => client.send(from, to, &id, "hello").await,
            3 => client.flag_contact(from, to, "pinned").await,
            4 => client.flag_contact(from, to, "muted").await,
            5 => client.change_message(from, to, mid, Change::Recall).await,
            _ => self.step_in_group(from, to, id).await,
        }
    }

    async fn step_in_group(&mut self, by: i64, other: i64, id: String) -> Result<InboundPosition> {
        let gid = self.groups[self.rng.random_range(0..self.groups.len())];
        let owner = self.users[0];
        let (by, action) = match self.rng.random_range(0..8) {
            0 | 1 => (owner, GroupAction::Add(vec![UserId::try_from(other)?])),
            2 => (owner, GroupAction::Remove(vec![UserId::try_from(other)?])),
            3 => (by, GroupAction::Leave),
            4 => (owner, GroupAction::Rename(id)),
            _ => {
                let action = GroupAction::Send {
                    client_msg_id: id.try_into()?,
                    msg: "hello all".to_owned(),
                };
                (by, action)
            }
        };
        self.post(gid, by, action).await
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
