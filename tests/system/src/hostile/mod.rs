//! What accounts within every limit can cost others: each way in turn beside one account that measures, then all at once.

mod account;
mod http_ways;
mod log_ways;
mod observer;
mod socket_ways;

use std::{fmt, time::Duration};

use anyhow::{Context as _, Result, ensure};
use futures::future::BoxFuture;
use tokio::{task::JoinSet, time::sleep};

use self::{
    account::{Account, Stage},
    observer::{Measured, Observer},
};
use crate::{Settings, TestEnv};

/// For how long each way is measured while nobody attacks.
const QUIET: Duration = Duration::from_secs(8);
/// A broker that has just started is ten times as slow as it is later.
const WARM_UP: Duration = Duration::from_secs(20);
/// How many times as long the 99th of a hundred calls of the measuring account may take during an attack.
const FACTOR: f64 = 3.0;
/// Two cores run the attackers as well: a call that takes less than this is never counted as slow, ms.
const FLOOR_MS: f64 = 150.0;

/// One way in which accounts may try to cost others something.
#[derive(Debug)]
pub struct Way {
    /// For `--only`.
    pub name: &'static str,
    /// What they do, for people.
    pub what: &'static str,
    accounts: usize,
    attack: fn(Stage, Vec<Account>) -> BoxFuture<'static, Result<()>>,
}

/// Every way that is tried.
pub const WAYS: &[Way] = &[
    Way {
        name: "bodies",
        what: "ten accounts declare bodies of 256 KiB over 126 connections, and send a byte of each",
        accounts: 10,
        attack: |stage, accounts| Box::pin(http_ways::bodies(stage, accounts)),
    },
    Way {
        name: "batches",
        what: "32 accounts begin 8 batches each, and bring no line",
        accounts: 32,
        attack: |stage, accounts| Box::pin(http_ways::batches(stage, accounts)),
    },
    Way {
        name: "silent-connections",
        what: "4,300 connections to the gateway and to query-api say nothing",
        accounts: 1,
        attack: |stage, _| Box::pin(http_ways::silent_connections(stage)),
    },
    Way {
        name: "waits",
        what: "16 accounts wait for a record that will never be there",
        accounts: 16,
        attack: |stage, accounts| Box::pin(http_ways::waits(stage, accounts)),
    },
    Way {
        name: "presence",
        what: "four accounts ask who is present, 100 users a call, and go away before the answer",
        accounts: 4,
        attack: |stage, accounts| Box::pin(http_ways::presence(stage, accounts)),
    },
    Way {
        name: "hides",
        what: "an account hides the same message all the time, and asks for the changes of the conversation 16 times at once",
        accounts: 2,
        attack: |stage, accounts| Box::pin(log_ways::hides(stage, accounts)),
    },
    Way {
        name: "members",
        what: "an account adds 1,000 users to a group, removes them and adds them again",
        accounts: 1,
        attack: |stage, accounts| Box::pin(log_ways::members(stage, accounts)),
    },
    Way {
        name: "memberships",
        what: "30 accounts make groups with those who measure, who list them and sync",
        accounts: 30,
        attack: |stage, accounts| Box::pin(log_ways::memberships(stage, accounts)),
    },
    Way {
        name: "dead-letters",
        what: "four accounts post what the log refuses, as large as it may be",
        accounts: 4,
        attack: |stage, accounts| Box::pin(log_ways::dead_letters(stage, accounts)),
    },
    Way {
        name: "ring",
        what: "three accounts post messages of 16 kB",
        accounts: 3,
        attack: |stage, accounts| Box::pin(log_ways::large_messages(stage, accounts)),
    },
    Way {
        name: "resumes",
        what: "two accounts with 300 groups resume over 16 connections all the time",
        accounts: 2,
        attack: |stage, accounts| Box::pin(socket_ways::resumes(stage, accounts)),
    },
    Way {
        name: "devices",
        what: "an account connects as one device after the other, each with an id of its own",
        accounts: 1,
        attack: |stage, accounts| Box::pin(socket_ways::devices(stage, accounts)),
    },
];

/// How ways are tried.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// For how long each.
    pub length: Duration,
    /// For how long all of them at once, afterwards.
    pub together: Option<Duration>,
    /// Whether the measuring account may not wait much longer than before. If not, it only may not be refused: whoever else uses this machine
    /// makes it wait, too.
    pub timed: bool,
}

/// Runs ways one after the other on one stack with authentication and default limits, and prints what was measured of each.
///
/// # Errors
/// The measuring account was refused, or waited too long; or the audit finds a difference.
pub async fn run(ways: &[&Way], options: Options) -> Result<()> {
    let env = TestEnv::start(Settings {
        authenticated: true,
        as_shipped: true,
        ..Settings::USUAL
    })
    .await?;
    let outcome = run_on(&env, ways, options).await;
    outcome.with_context(|| format!("the logs: {}", env.save_logs("hostile")))
}

/// As [`run`], on an environment with authentication.
///
/// # Errors
/// As [`run`].
pub async fn run_on(env: &TestEnv, ways: &[&Way], options: Options) -> Result<()> {
    let stage = Stage::new(env)?;
    let observer = Observer::start(&stage).await?;
    sleep(WARM_UP).await;
    observer.take()?;
    let mut failed = Vec::new();
    for way in ways {
        let tried = Tried::run(&stage, &observer, way.name, &[*way], options.length).await?;
        println!("{tried}");
        failed.extend(tried.failure(options.timed));
    }
    if let Some(length) = options.together {
        let tried = Tried::run(&stage, &observer, "all of them", ways, length).await?;
        println!("{tried}");
        failed.extend(tried.failure(options.timed));
    }
    observer.end().await;
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    let audit = env.tidemark(&["audit", "--json"]).await?;
    let report = audit.json()?;
    ensure!(report["differences"] == 0, "{report:#}");
    println!("audit: no difference");
    Ok(())
}

/// What became of one way, or of several at once.
struct Tried {
    name: String,
    before: Measured,
    during: Measured,
    after: Measured,
}

impl Tried {
    async fn run(
        stage: &Stage,
        observer: &Observer,
        name: &str,
        ways: &[&Way],
        length: Duration,
    ) -> Result<Self> {
        observer.take()?;
        sleep(QUIET).await;
        let before = observer.take()?;
        let mut attacks = JoinSet::new();
        for way in ways {
            let accounts = (0..way.accounts).map(|_| Account::new(stage));
            let accounts = accounts.collect::<Result<_>>()?;
            attacks.spawn((way.attack)(stage.clone(), accounts));
        }
        sleep(length).await;
        let during = observer.take()?;
        while let Some(ended) = attacks.try_join_next() {
            ended?.with_context(|| format!("{name}: the attack itself failed"))?;
        }
        attacks.shutdown().await;
        sleep(QUIET).await;
        let after = observer.take()?;
        Ok(Self {
            name: name.to_owned(),
            before,
            during,
            after,
        })
    }

    fn failure(&self, timed: bool) -> Option<String> {
        let slow = timed.then(|| self.during.slower(&self.before)).flatten();
        let refused = self.during.refused.first().or(self.after.refused.first());
        match (slow, refused) {
            (None, None) => None,
            (Some(slow), _) => Some(format!("{}: {slow}", self.name)),
            (None, Some(refused)) => Some(format!("{}: {refused}", self.name)),
        }
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.name)?;
        for (when, measured) in [
            ("before", &self.before),
            ("during", &self.during),
            ("after", &self.after),
        ] {
            writeln!(f, "  {when:6}  {measured}")?;
        }
        Ok(())
    }
}
