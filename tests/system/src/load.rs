//! Traffic that goes on while things break.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Context as _, Result, bail};
use tokio::{sync::watch, task::JoinSet};

use crate::{TestEnv, circle::Circle, until};

/// How far all circles are.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Accepted posts.
    pub(crate) accepted: AtomicU64,
    /// Circles that have followed a call to check.
    pub(crate) checked: AtomicU64,
}

/// What circles are told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Orders {
    /// To end after the present step.
    pub(crate) stop: bool,
    /// How often they were told to check what their users see.
    pub(crate) checks: u64,
}

/// Running traffic.
pub struct Load {
    orders: watch::Sender<Orders>,
    counters: Arc<Counters>,
    circles: JoinSet<Result<Circle>>,
    count: u64,
}

impl Load {
    /// Starts `circles` groups of users that write and read at the same time, always the same.
    pub fn start(env: &TestEnv, circles: u64) -> Self {
        Self::seeded(env, circles, 0)
    }

    /// The same with whatever follows from a seed.
    pub fn seeded(env: &TestEnv, circles: u64, seed: u64) -> Self {
        let (orders, told) = watch::channel(Orders::default());
        let counters = Arc::new(Counters::default());
        let mut running = JoinSet::new();
        for circle in 0..circles {
            let seed = seed.wrapping_add(circle);
            let circle = Circle::new(seed, env.client.clone(), Arc::clone(&counters));
            running.spawn(circle.run(told.clone()));
        }
        Self {
            orders,
            counters,
            circles: running,
            count: circles,
        }
    }

    /// How many posts were accepted so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.counters.accepted.load(Ordering::Relaxed)
    }

    /// Waits until so many posts more are accepted.
    ///
    /// # Errors
    /// A circle has failed, or nothing is accepted.
    pub async fn grows_by(&mut self, posts: u64) -> Result<()> {
        let accepted = self.accepted();
        self.reaches("accepted posts", accepted + posts, |counters| {
            &counters.accepted
        })
        .await
    }

    /// Lets every circle, before its next step, compare what each of its users sees with its model.
    ///
    /// # Errors
    /// A circle has failed: a user sees something else, say.
    pub async fn check(&mut self) -> Result<()> {
        let goal = self.counters.checked.load(Ordering::Relaxed) + self.count;
        self.orders.send_modify(|orders| orders.checks += 1);
        self.reaches("circles that checked", goal, |counters| &counters.checked)
            .await
    }

    async fn reaches(
        &mut self,
        what: &str,
        goal: u64,
        counter: impl Fn(&Counters) -> &AtomicU64,
    ) -> Result<()> {
        let (counters, circles) = (&self.counters, &mut self.circles);
        let reached = until(what, async || {
            if let Some(ended) = circles.try_join_next() {
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
    /// A circle has failed.
    pub async fn settle(mut self) -> Result<Settled> {
        self.orders.send_modify(|orders| orders.stop = true);
        let mut circles = Vec::new();
        while let Some(ended) = self.circles.join_next().await {
            circles.push(ended??);
        }
        Ok(Settled { circles })
    }
}

/// Circles end only when told to.
fn failure(ended: Result<Result<Circle>, tokio::task::JoinError>) -> anyhow::Error {
    match ended {
        Ok(Err(error)) => error.context("in the load"),
        Ok(Ok(_)) => anyhow::anyhow!("a circle ended by itself"),
        Err(error) => error.into(),
    }
}

/// Traffic that has ended, and what everybody must see of it.
pub struct Settled {
    circles: Vec<Circle>,
}

impl Settled {
    /// Everybody who took part.
    pub fn users(&self) -> BTreeSet<i64> {
        self.circles.iter().flat_map(Circle::users).collect()
    }

    /// How many messages were accepted.
    #[must_use]
    pub fn message_count(&self) -> usize {
        self.circles.iter().map(Circle::message_count).sum()
    }

    /// Compares what every user sees with the models: the counts on both classes, and every message of every
    /// conversation, once and in order.
    ///
    /// # Errors
    /// The first difference.
    pub async fn verify(&self) -> Result<()> {
        for circle in &self.circles {
            circle.verify_unread().await.context("after the load")?;
            circle.verify_history().await.context("after the load")?;
        }
        Ok(())
    }

    /// Compares, and runs the audit.
    ///
    /// # Errors
    /// A difference.
    pub async fn judge(&self, env: &TestEnv) -> Result<()> {
        self.verify().await?;
        let audited = env.audit(self.users()).await?;
        let messages = self.message_count();
        if audited.compared("messages") < messages as u64 {
            bail!("the audit compared fewer messages than the {messages} that were accepted");
        }
        Ok(())
    }
}
