//! What can be done to a cluster, and undone.

use std::{str::FromStr, time::Duration};

use anyhow::Result;
use rand::{Rng as _, rngs::StdRng, seq::IndexedRandom as _};
use rustix::process::Signal;
use tokio::time::sleep;

use crate::{Load, World};

/// Accepted posts while something is away.
const MEANWHILE: u64 = 50;
/// Longer than sessions of consumer groups (10 s) and of brokers (9 s): others take over.
const ASLEEP: Duration = Duration::from_secs(12);
/// How long sends find nobody.
const NOBODY: Duration = Duration::from_secs(3);
const BROKERS: [&str; 3] = ["kafka", "kafka-2", "kafka-3"];
/// Services that share out partitions.
const SHARED_OUT: [&str; 3] = ["sequencer", "projector-unread", "projector-mysql"];

/// A fault, from its beginning until it is healed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// kill -9 of one of two processes of a service.
    KillSequencer,
    /// As above.
    KillProjectorUnread,
    /// As above.
    KillProjectorMysql,
    /// kill -9 of the only ingest that clients call.
    KillIngest,
    /// kill -9 of the only query-api that clients call.
    KillQueryApi,
    /// SIGSTOP until the other process has taken over, then SIGCONT: two owners at once.
    PauseSequencer,
    /// As above.
    PauseProjectorUnread,
    /// As above.
    PauseProjectorMysql,
    /// Processes leave in good order and come back, one after the other.
    RebalanceStorm,
    /// kill -9 of one of three brokers, the controller's leader among them.
    KillBroker,
    /// SIGSTOP of a broker until the others have given it up, then SIGCONT.
    PauseBroker,
    /// kill -9 of two brokers: sends are refused until one is back.
    KillTwoBrokers,
    /// kill -9; it comes back empty.
    KillRedis,
    /// FLUSHALL.
    FlushRedis,
    /// kill -9; its last second of commits may be gone.
    KillMariadb,
    /// SIGSTOP: connections hang instead of closing.
    PauseMariadb,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::KillSequencer,
        Self::KillProjectorUnread,
        Self::KillProjectorMysql,
        Self::KillIngest,
        Self::KillQueryApi,
        Self::PauseSequencer,
        Self::PauseProjectorUnread,
        Self::PauseProjectorMysql,
        Self::RebalanceStorm,
        Self::KillBroker,
        Self::PauseBroker,
        Self::KillTwoBrokers,
        Self::KillRedis,
        Self::FlushRedis,
        Self::KillMariadb,
        Self::PauseMariadb,
    ];

    /// Its name on the command line and in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::KillSequencer => "kill-sequencer",
            Self::KillProjectorUnread => "kill-projector-unread",
            Self::KillProjectorMysql => "kill-projector-mysql",
            Self::KillIngest => "kill-ingest",
            Self::KillQueryApi => "kill-query-api",
            Self::PauseSequencer => "pause-sequencer",
            Self::PauseProjectorUnread => "pause-projector-unread",
            Self::PauseProjectorMysql => "pause-projector-mysql",
            Self::RebalanceStorm => "rebalance-storm",
            Self::KillBroker => "kill-broker",
            Self::PauseBroker => "pause-broker",
            Self::KillTwoBrokers => "kill-two-brokers",
            Self::KillRedis => "kill-redis",
            Self::FlushRedis => "flush-redis",
            Self::KillMariadb => "kill-mariadb",
            Self::PauseMariadb => "pause-mariadb",
        }
    }

    /// Inflicts it on a system at work and heals it.
    pub(super) async fn strike(
        self,
        world: &World,
        load: &mut Load,
        rng: &mut StdRng,
    ) -> Result<()> {
        let mut either = |service: &str| match rng.random() {
            true => service.to_owned(),
            false => format!("{service}-2"),
        };
        match self {
            Self::KillSequencer => kill_service(world, load, &either("sequencer")).await,
            Self::KillProjectorUnread => {
                kill_service(world, load, &either("projector-unread")).await
            }
            Self::KillProjectorMysql => kill_service(world, load, &either("projector-mysql")).await,
            Self::KillQueryApi => kill_service(world, load, "query-api").await,
            Self::KillIngest => {
                world.end("ingest", Signal::KILL).await?;
                world.start_services(&["ingest"]).await
            }
            Self::PauseSequencer => pause(world, load, &either("sequencer")).await,
            Self::PauseProjectorUnread => pause(world, load, &either("projector-unread")).await,
            Self::PauseProjectorMysql => pause(world, load, &either("projector-mysql")).await,
            Self::RebalanceStorm => storm(world, load).await,
            Self::KillBroker => {
                let broker = BROKERS.choose(rng).unwrap_or(&BROKERS[0]);
                kill_server(world, load, broker).await
            }
            Self::PauseBroker => {
                let broker = BROKERS.choose(rng).unwrap_or(&BROKERS[0]);
                pause(world, load, broker).await
            }
            Self::KillTwoBrokers => {
                let spared = rng.random_range(0..BROKERS.len());
                for (index, broker) in BROKERS.iter().enumerate() {
                    if index != spared {
                        world.end(broker, Signal::KILL).await?;
                    }
                }
                sleep(NOBODY).await;
                world.start_servers().await
            }
            Self::KillRedis => kill_server(world, load, "redis").await,
            Self::FlushRedis => world.redis.flush_all().await,
            Self::KillMariadb => kill_server(world, load, "mariadb").await,
            Self::PauseMariadb => pause(world, load, "mariadb").await,
        }
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|fault| fault.name() == name);
        found.ok_or_else(|| {
            let all: Vec<&str> = Self::ALL.iter().map(|fault| fault.name()).collect();
            format!("{name:?} is no fault; these are: {}", all.join(", "))
        })
    }
}

async fn kill_service(world: &World, load: &mut Load, name: &str) -> Result<()> {
    world.end(name, Signal::KILL).await?;
    load.grows_by(MEANWHILE).await?;
    world.start_services(&[name]).await
}

async fn kill_server(world: &World, load: &mut Load, name: &str) -> Result<()> {
    world.end(name, Signal::KILL).await?;
    load.grows_by(MEANWHILE).await?;
    world.start_servers().await
}

async fn pause(world: &World, load: &mut Load, name: &str) -> Result<()> {
    world.signal(name, Signal::STOP)?;
    sleep(ASLEEP).await;
    let going_on = load.grows_by(MEANWHILE).await;
    world.signal(name, Signal::CONT)?;
    going_on
}

async fn storm(world: &World, load: &mut Load) -> Result<()> {
    for service in SHARED_OUT {
        for name in [service.to_owned(), format!("{service}-2")] {
            world.end(&name, Signal::TERM).await?;
            load.grows_by(MEANWHILE).await?;
            world.start_services(&[&name]).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for fault in Fault::ALL {
            assert_eq!(fault.name().parse(), Ok(fault));
        }
        let refused = "kill-me".parse::<Fault>().unwrap_err();
        assert!(refused.contains("kill-sequencer"), "{refused}");
    }
}
