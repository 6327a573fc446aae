//! Traffic that continues while faults happen.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Context as _, Result, bail};
use tokio::{sync::watch, task::JoinSet};

use crate::{Model, TestEnv, until, user_group::UserGroup};

/// The counters of all groups.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Accepted posts.
    pub(crate) accepted: AtomicU64,
    /// How many checks the groups have made.
    pub(crate) checked: AtomicU64,
}

/// Commands to all groups.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Control {
    /// Stop after the present step.
    pub(crate) stop: bool,
    /// How many checks of what their users see were requested.
    pub(crate) checks: u64,
    /// Whether the next check also requests the counts of groups, which are read from MySQL.
    pub(crate) of_groups: bool,
}

/// Running traffic.
pub struct Load {
    control: watch::Sender<Control>,
    counters: Arc<Counters>,
    groups: JoinSet<Result<UserGroup>>,
    users: Vec<i64>,
    count: u64,
}

impl Load {
    /// Starts `groups` groups of users that write and read at the same time, with the same seed every time.
    pub fn start(env: &TestEnv, groups: u64) -> Self {
        Self::seeded(env, groups, 0)
    }

    /// As [`Self::start`], with a seed that decides what the users do.
    pub fn seeded(env: &TestEnv, groups: u64, seed: u64) -> Self {
        Self::of(env, groups, seed, |group| group)
    }

    /// As [`Self::seeded`], with only the features of rule version 2.
    pub fn of_version_2(env: &TestEnv, groups: u64, seed: u64) -> Self {
        Self::of(env, groups, seed, UserGroup::of_version_2)
    }

    fn of(env: &TestEnv, groups: u64, seed: u64, of: impl Fn(UserGroup) -> UserGroup) -> Self {
        let (control, commands) = watch::channel(Control::default());
        let counters = Arc::new(Counters::default());
        let (mut running, mut users) = (JoinSet::new(), Vec::new());
        for group in 0..groups {
            let seed = seed.wrapping_add(group);
            let group = UserGroup::new(seed, env.client.clone(), Arc::clone(&counters));
            users.extend(group.users());
            running.spawn(of(group).run(commands.clone()));
        }
        Self {
            control,
            counters,
            groups: running,
            users,
            count: groups,
        }
    }

    /// All users of the traffic.
    pub fn users(&self) -> impl Iterator<Item = i64> {
        self.users.iter().copied()
    }

    /// How many posts were accepted so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.counters.accepted.load(Ordering::Relaxed)
    }

    /// Waits until `posts` more posts are accepted.
    ///
    /// # Errors
    /// If a group has failed, or nothing is accepted.
    pub async fn grows_by(&mut self, posts: u64) -> Result<()> {
        let accepted = self.accepted();
        self.reaches("accepted posts", accepted + posts, |counters| {
            &counters.accepted
        })
        .await
    }

    /// Lets every group, before its next step, compare what each of its users sees with its model.
    ///
    /// # Errors
    /// If a group has failed, for example because a user sees something wrong.
    pub async fn check(&mut self) -> Result<()> {
        self.check_counts(true).await
    }

    /// As [`Self::check`], for direct conversations only, whose counts need no MySQL.
    ///
    /// # Errors
    /// If a group has failed.
    pub async fn check_direct(&mut self) -> Result<()> {
        self.check_counts(false).await
    }

    async fn check_counts(&mut self, of_groups: bool) -> Result<()> {
        let goal = self.counters.checked.load(Ordering::Relaxed) + self.count;
        self.control.send_modify(|control| {
            control.checks += 1;
            control.of_groups = of_groups;
        });
        self.reaches("groups that checked", goal, |counters| &counters.checked)
            .await
    }

    async fn reaches(
        &mut self,
        what: &str,
        goal: u64,
        counter: impl Fn(&Counters) -> &AtomicU64,
    ) -> Result<()> {
        let (counters, groups) = (&self.counters, &mut self.groups);
        let reached = until(what, async || {
            if let Some(ended) = groups.try_join_next() {
                return Ok(Err(failure(ended)));
            }
            match counter(counters).load(Ordering::Relaxed) {
                now if now >= goal => Ok(Ok(())),
                now => Err(format!("{now} of {goal}")),
            }
        });
        reached.await?
    }

    /// Ends the traffic.
    ///
    /// # Errors
    /// If a group has failed.
    pub async fn finish(mut self) -> Result<FinishedLoad> {
        self.control.send_modify(|control| control.stop = true);
        let mut groups = Vec::new();
        while let Some(ended) = self.groups.join_next().await {
            groups.push(ended??);
        }
        Ok(FinishedLoad { groups })
    }
}

/// Groups end only on request.
fn failure(ended: Result<Result<UserGroup>, tokio::task::JoinError>) -> anyhow::Error {
    match ended {
        Ok(Err(error)) => error.context("in the load"),
        Ok(Ok(_)) => anyhow::anyhow!("a group ended by itself"),
        Err(error) => error.into(),
    }
}

/// Traffic that has ended, with what all users must see of it.
pub struct FinishedLoad {
    groups: Vec<UserGroup>,
}

impl FinishedLoad {
    /// All users of the traffic.
    pub fn users(&self) -> BTreeSet<i64> {
        self.groups.iter().flat_map(UserGroup::users).collect()
    }

    /// The model of what a user must see of conversations with the others.
    pub(crate) fn model_of(&self, uid: i64) -> Option<&Model> {
        let mut groups = self.groups.iter();
        let group = groups.find(|group| group.users().any(|user| user == uid));
        group.map(UserGroup::model)
    }

    /// How many messages were accepted.
    #[must_use]
    pub fn message_count(&self) -> usize {
        self.groups.iter().map(UserGroup::message_count).sum()
    }

    /// Compares what every user sees with the models: the counts on both classes, and every message of every
    /// conversation, once and in order.
    ///
    /// # Errors
    /// The first difference.
    pub async fn verify(&self) -> Result<()> {
        for group in &self.groups {
            group.verify_unread(true).await.context("after the load")?;
            group.verify_history().await.context("after the load")?;
        }
        Ok(())
    }

    /// Compares, and runs the audit.
    ///
    /// # Errors
    /// If there is a difference.
    pub async fn judge(&self, env: &TestEnv) -> Result<()> {
        self.verify().await?;
        let audited = env.audit(self.users()).await?;
        let messages = self.message_count();
        if audited.compared("messages") < messages as u64 {
            bail!("the audit compared fewer messages than the {messages} that were accepted");
        }
        let of_groups: usize = self.groups.iter().map(UserGroup::group_message_count).sum();
        if audited.compared("group-messages") < of_groups as u64 {
            bail!(
                "the audit compared fewer messages of groups than the {of_groups} that were accepted"
            );
        }
        Ok(())
    }
}
