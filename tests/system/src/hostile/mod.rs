//! The cost, for others, of accounts that keep within every limit: each way in turn beside one account that measures, then all at once.

mod account;
mod http_ways;
mod left;
mod log_ways;
mod observer;
mod socket_ways;

use std::{fmt, time::Duration};

use anyhow::{Context as _, Result, ensure};
use futures::future::{BoxFuture, LocalBoxFuture, try_join_all};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use self::{
    account::{Account, Stage},
    left::Left,
    observer::{Measured, Observer},
};
use crate::{Settings, TestEnv};

/// How long each way is measured without an attack.
const QUIET: Duration = Duration::from_secs(8);
/// How long [`WARMING`] accounts post at first: a broker that has just started is ten times as slow as it is later.
const WARM_UP: Duration = Duration::from_secs(30);
const WARMING: usize = 10;
/// How many groups the measuring account shares with its friend, in nearly all partitions.
const GROUPS: usize = 200;
/// How many times as long the 99th of a hundred calls of the measuring account may take during an attack.
const FACTOR: f64 = 3.0;
/// Two cores run the attackers as well: a call that takes less than this is never counted as slow, ms.
const FLOOR_MS: f64 = 150.0;

/// One way in which accounts may try to cost others something.
#[derive(Debug)]
pub struct Way {
    /// The name for `--only`.
    pub name: &'static str,
    /// A description of the way, for people.
    pub what: &'static str,
    act: Act,
    /// The most that docs/SECURITY.md lets them leave behind in this many seconds.
    most: fn(u64) -> Left,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    /// This many accounts attack until they are stopped.
    Attack(
        usize,
        fn(Stage, Vec<Account>) -> BoxFuture<'static, Result<()>>,
    ),
    /// A server or a service is away for some of the time. The outage itself judges what needs that server or service; of the measuring account only
    /// the posts are judged.
    Outage(fn(&TestEnv, Stage, Duration) -> LocalBoxFuture<'_, Result<()>>),
}

/// How many events `accounts` accounts may post in `seconds` seconds (`auth.user_limits`), each of up to a KiB.
const fn events(accounts: u64, seconds: u64) -> u64 {
    accounts * (500 + 50 * seconds)
}

/// On the log an event takes its command, its result, and the names of both.
const fn log_kib(accounts: u64, seconds: u64) -> u64 {
    3 * events(accounts, seconds)
}

/// How many memberships an account creates in a partition in a day, as rows of the group and of the member (`new_memberships_per_day`).
const MEMBERSHIPS: u64 = 1_000;
/// How many memberships others give to two users in groups of all partitions (`max_memberships_by_others`).
const MEMBERSHIPS_BY_OTHERS: u64 = 64 * 100;
/// How many devices of a user there may be: those that the janitor leaves, and as many that are added before it comes.
const DEVICES: u64 = 2 * 100;

/// All ways.
pub const WAYS: &[Way] = &[
    Way {
        name: "bodies",
        what: "ten accounts declare bodies of 256 KiB over 126 connections, and send a byte of each",
        act: Act::Attack(10, |stage, accounts| {
            Box::pin(http_ways::bodies(stage, accounts))
        }),
        most: |_| Left {
            resident_mib: 16,
            ..Left::NOTHING
        },
    },
    Way {
        name: "batches",
        what: "32 accounts begin 8 batches each, and bring no line",
        act: Act::Attack(32, |stage, accounts| {
            Box::pin(http_ways::batches(stage, accounts))
        }),
        most: |_| Left {
            resident_mib: 48,
            ..Left::NOTHING
        },
    },
    Way {
        name: "silent-connections",
        what: "4,300 connections to the gateway and to query-api say nothing",
        act: Act::Attack(1, |stage, _| Box::pin(http_ways::silent_connections(stage))),
        most: |_| Left {
            resident_mib: 128,
            ..Left::NOTHING
        },
    },
    Way {
        name: "waits",
        what: "16 accounts wait for a record that will never be there",
        act: Act::Attack(16, |stage, accounts| {
            Box::pin(http_ways::waits(stage, accounts))
        }),
        most: |_| Left::NOTHING,
    },
    Way {
        name: "presence",
        what: "four accounts ask who is present, 100 users a call, and go away before the answer",
        act: Act::Attack(4, |stage, accounts| {
            Box::pin(http_ways::presence(stage, accounts))
        }),
        most: |_| Left::NOTHING,
    },
    Way {
        name: "hides",
        what: "an account hides the same message all the time, and asks for the changes of the conversation 16 times at once",
        act: Act::Attack(2, |stage, accounts| {
            Box::pin(log_ways::hides(stage, accounts))
        }),
        most: |s| Left {
            rows: 10,
            keys: 6,
            log_kib: log_kib(1, s),
            ..Left::NOTHING
        },
    },
    Way {
        name: "members",
        what: "an account adds 1,000 users to a group, removes them and adds them again",
        act: Act::Attack(1, |stage, accounts| {
            Box::pin(log_ways::members(stage, accounts))
        }),
        most: |s| Left {
            rows: 2 * MEMBERSHIPS + 10,
            log_kib: log_kib(1, s),
            ..Left::NOTHING
        },
    },
    Way {
        name: "memberships",
        what: "six accounts make as many groups as they may with those who measure, who list them and sync",
        act: Act::Attack(6, |stage, accounts| {
            Box::pin(log_ways::memberships(stage, accounts))
        }),
        most: |s| Left {
            rows: 7 * MEMBERSHIPS_BY_OTHERS,
            log_kib: log_kib(6, s),
            resident_mib: 64,
            ..Left::NOTHING
        },
    },
    Way {
        name: "dead-letters",
        what: "four accounts post what the log refuses, as large as it may be",
        act: Act::Attack(4, |stage, accounts| {
            Box::pin(log_ways::dead_letters(stage, accounts))
        }),
        most: |s| Left {
            rows: 20,
            keys: 12,
            log_kib: log_kib(4, s),
            ..Left::NOTHING
        },
    },
    Way {
        name: "look-ups",
        what: "three accounts ask what became of a command that is looked for among their dead letters, 16 times at once",
        act: Act::Attack(3, |stage, accounts| {
            Box::pin(log_ways::look_ups(stage, accounts))
        }),
        most: |s| Left {
            rows: 20,
            keys: 12,
            log_kib: log_kib(3, s),
            ..Left::NOTHING
        },
    },
    Way {
        name: "ring",
        what: "three accounts post messages of 16 kB",
        act: Act::Attack(3, |_, accounts| {
            Box::pin(log_ways::messages(accounts, 16_000))
        }),
        most: |s| Left {
            rows: 20 + events(3, s) / 16,
            keys: 20,
            log_kib: log_kib(3, s),
            resident_mib: 12,
            ..Left::NOTHING
        },
    },
    Way {
        name: "resumes",
        what: "two accounts with 300 groups resume over 16 connections all the time",
        act: Act::Attack(2, |stage, accounts| {
            Box::pin(socket_ways::resumes(stage, accounts))
        }),
        most: |s| Left {
            rows: 7 * 300 + 16,
            keys: 20,
            log_kib: log_kib(2, s),
            resident_mib: 32,
            ..Left::NOTHING
        },
    },
    Way {
        name: "devices",
        what: "an account connects as one device after the other, each with an id of its own",
        act: Act::Attack(1, |stage, accounts| {
            Box::pin(socket_ways::devices(stage, accounts))
        }),
        most: |s| Left {
            rows: DEVICES + 10 * s,
            keys: 4,
            ..Left::NOTHING
        },
    },
    Way {
        name: "group-changes",
        what: "an account adds 100 users to a group, removes and renames all the time, while 200 members are connected",
        act: Act::Attack(201, |stage, accounts| {
            Box::pin(socket_ways::group_changes(stage, accounts))
        }),
        most: |s| Left {
            rows: 2 * (100 + 200) + 200 + 10,
            keys: 200,
            log_kib: log_kib(1, s),
            resident_mib: 64,
            ..Left::NOTHING
        },
    },
    Way {
        name: "hello-without-mysql",
        what: "devices say hello while MySQL does not answer",
        act: Act::Outage(|env, stage, length| {
            Box::pin(socket_ways::hello_without_mysql(env, stage, length))
        }),
        most: |s| Left {
            rows: 16 * s,
            keys: 16 * s,
            ..Left::NOTHING
        },
    },
    Way {
        name: "gateway-restart",
        what: "a gateway is killed while 100 members of a busy group are connected, who come back",
        act: Act::Outage(|env, stage, length| {
            Box::pin(socket_ways::gateway_restart(env, stage, length))
        }),
        most: |s| Left {
            rows: 5 * 100 + 10 + 10 * s,
            keys: 100,
            log_kib: log_kib(1, s),
            resident_mib: 64,
            ..Left::NOTHING
        },
    },
];

/// The options of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long each way is tried.
    pub length: Duration,
    /// How long all ways are tried at once, afterwards.
    pub together: Option<Duration>,
    /// Whether the measuring account must not wait much longer than before. If not, it only must not be refused: other programs on this machine would
    /// make it wait, too.
    pub timed: bool,
}

/// Runs ways one after the other on one stack with authentication and default limits, and prints the measurements of each.
///
/// # Errors
/// If the measuring account was refused, or waited too long, or the audit finds a difference.
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
    // Like most accounts, the measuring ones have groups: data that is read of these must not be read for the first time during an attack.
    let owner = Account::of(&stage, stage.measuring)?;
    log_ways::groups_of(&owner, GROUPS, &[stage.friend]).await?;
    let warming = (0..WARMING).map(|_| Account::new(&stage));
    let warming = log_ways::messages(warming.collect::<Result<_>>()?, 100);
    if let Ok(ended) = timeout(WARM_UP, warming).await {
        ended?;
    }
    observer.take()?;
    let mut failed = Vec::new();
    let mut tried = Vec::new();
    for way in ways {
        tried.push((way.name, vec![*way], options.length));
    }
    if let Some(length) = options.together {
        let attacks = ways.iter().filter(|way| matches!(way.act, Act::Attack(..)));
        tried.push(("all of them", attacks.copied().collect(), length));
    }
    for (name, ways, length) in tried {
        // With all ways at once, the attackers alone take more than all cores.
        let timed = options.timed && ways.len() == 1;
        let tried = Tried::run(env, &stage, &observer, name, &ways, length).await?;
        println!("{tried}");
        failed.extend(tried.failure(timed));
    }
    observer.end().await;
    let audit = env.tidemark(&["audit", "--json"]).await?;
    let report = audit.json()?;
    ensure!(report["differences"] == 0, "{report:#}");
    println!("audit: no difference");
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

/// The result of one way, or of several at once.
struct Tried {
    name: String,
    before: Measured,
    during: Measured,
    after: Measured,
    left: Left,
    most: Left,
    /// Whether this is an outage: then, of the measuring account's calls, only its posts are judged.
    is_outage: bool,
}

impl Tried {
    async fn run(
        env: &TestEnv,
        stage: &Stage,
        observer: &Observer,
        name: &str,
        ways: &[&Way],
        length: Duration,
    ) -> Result<Self> {
        let begun = Instant::now();
        let left_before = Left::settled(env).await?;
        observer.take()?;
        sleep(QUIET).await;
        let before = observer.take()?;
        let attacked = attack(env, stage, ways, length).await;
        attacked.with_context(|| format!("{name}: it does not go as it should"))?;
        let during = observer.take()?;
        sleep(QUIET).await;
        let after = observer.take()?;
        let left = Left::settled(env).await?;
        let anyway = Left::anyway(begun.elapsed().as_secs());
        let most = ways.iter().map(|way| (way.most)(length.as_secs()));
        Ok(Self {
            name: name.to_owned(),
            before,
            during,
            after,
            left: left.with(left_before, u64::saturating_sub),
            most: most.fold(anyway, |sum, most| sum.with(most, |a, b| a + b)),
            is_outage: ways.iter().any(|way| matches!(way.act, Act::Outage(_))),
        })
    }

    fn failure(&self, timed: bool) -> Option<String> {
        let slow = timed.then(|| self.during.slower(&self.before, self.is_outage));
        let mut refused = [&self.during, &self.after].into_iter();
        let refused = refused.find_map(|measured| measured.refused(self.is_outage));
        let left = self.left.above(self.most);
        let failures = [slow.flatten(), refused.cloned(), left];
        let failures: Vec<String> = failures.into_iter().flatten().collect();
        (!failures.is_empty()).then(|| format!("{}: {}", self.name, failures.join("; ")))
    }
}

/// Does all of it at once, for `length`.
///
/// # Errors
/// If an attack itself fails, or an outage affects devices in a wrong way.
async fn attack(env: &TestEnv, stage: &Stage, ways: &[&Way], length: Duration) -> Result<()> {
    let mut attacks = JoinSet::new();
    let mut outages = Vec::new();
    for way in ways {
        match way.act {
            Act::Attack(accounts, attack) => {
                let accounts = (0..accounts).map(|_| Account::new(stage));
                let accounts = accounts.collect::<Result<_>>()?;
                attacks.spawn(attack(stage.clone(), accounts));
            }
            Act::Outage(outage) => outages.push(outage(env, stage.clone(), length)),
        }
    }
    let (outages, ()) = tokio::join!(try_join_all(outages), sleep(length));
    outages?;
    while let Some(ended) = attacks.try_join_next() {
        ended??;
    }
    attacks.shutdown().await;
    Ok(())
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
        writeln!(f, "  left    {}", self.left)?;
        writeln!(f, "  of      {}", self.most)
    }
}
