//! The faults of a cluster, which can be undone: one row for each.

use std::{fmt, str::FromStr};

use anyhow::Result;
use futures::future::LocalBoxFuture;

use super::{
    clocks, disks, kafka, mariadb, network, offsets, poison, redis, redis_cluster, services,
    snapshots, victim::Victim,
};
use crate::SHARED_OUT;

/// Returns how many times the fault was injected.
pub(super) type Injection<'a> = LocalBoxFuture<'a, Result<u64>>;

/// A fault, from its beginning until it is healed.
#[derive(Clone, Copy)]
pub struct Fault {
    /// The fault's name on the command line and in tables.
    pub name: &'static str,
    /// The description of the fault.
    pub what: &'static str,
    /// The requirement of the fault.
    pub(super) needs: Need,
    pub(super) inject: for<'a> fn(&'a mut Victim<'_>) -> Injection<'a>,
}

/// Requirements that not every machine or run meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Nothing,
    /// libfaketime.
    Clocks,
    /// The right to mount a small file system.
    Disks,
    /// One Redis, with a replica.
    OneRedis,
    /// A Redis Cluster.
    RedisCluster,
}

macro_rules! faults {
    ($($name:literal, $what:literal, $need:ident, $inject:expr;)*) => {
        /// All faults.
        pub const FAULTS: &[Fault] = &[$(Fault {
            name: $name,
            what: $what,
            needs: Need::$need,
            inject: |victim| Box::pin($inject(victim)),
        },)*];
    };
}

faults! {
    "kill-sequencer", "kill -9 of either process, three times in a row", Nothing,
        |victim| services::kill(victim, "sequencer");
    "kill-projector-unread", "the same", Nothing,
        |victim| services::kill(victim, "projector-unread");
    "kill-projector-mysql", "the same", Nothing,
        |victim| services::kill(victim, "projector-mysql");
    "kill-ingest", "kill -9 of either, while posts go to both", Nothing,
        |victim| services::kill(victim, "ingest");
    "kill-query-api", "the same", Nothing,
        |victim| services::kill(victim, "query-api");
    "kill-gateway", "kill -9 of either, while devices are connected to both", Nothing,
        |victim| services::kill(victim, "gateway");
    "pause-gateway", "SIGSTOP of either until its devices have gone elsewhere, then SIGCONT", Nothing,
        |victim| services::pause(victim, "gateway");
    "restart-gateways", "one gateway after the other ends in good order and comes back", Nothing,
        |victim| services::restart(victim, &["gateway"]);
    "kill-every-service", "kill -9 of all processes at once", Nothing,
        services::kill_all;
    "pause-sequencer", "SIGSTOP until the other process has taken over, then SIGCONT: two owners at once", Nothing,
        |victim| services::pause(victim, "sequencer");
    "pause-projector-unread", "the same", Nothing,
        |victim| services::pause(victim, "projector-unread");
    "pause-projector-mysql", "the same", Nothing,
        |victim| services::pause(victim, "projector-mysql");
    "rebalance-storm", "instances leave in good order and come back, one after the other", Nothing,
        |victim| services::restart(victim, &SHARED_OUT);
    "rolling-upgrade", "every process ends in good order and is started by the other one of this program and the version before, where there is one", Nothing,
        services::upgrade;
    "late-batch", "a sequencer's connections to Kafka hang, it is killed, another one takes over, then its last batches land", Nothing,
        network::late_batch;
    "kill-broker", "kill -9 of one of three, the controller's leader among them", Nothing,
        kafka::kill;
    "restart-brokers", "SIGTERM and start of one broker after the other", Nothing,
        kafka::restart_all;
    "pause-broker", "SIGSTOP until the others have given it up, then SIGCONT", Nothing,
        kafka::pause;
    "kill-two-brokers", "kill -9 of two of three: sends are refused until they are back", Nothing,
        kafka::kill_two;
    "hang-broker", "all clients' connections to a broker hang, in both directions", Nothing,
        network::hang_broker;
    "full-disk-kafka", "a broker's file system is full", Disks,
        disks::fill_kafka;
    "kill-redis", "kill -9; what it had not written for a second is gone", OneRedis,
        redis::kill;
    "flush-redis", "FLUSHALL", OneRedis,
        redis::flush;
    "fail-over-redis", "kill -9, and a replica that lags takes its place", OneRedis,
        redis::fail_over;
    "hang-redis", "all connections hang, in both directions", OneRedis,
        network::hang_redis;
    "kill-redis-pair", "a master of a Redis Cluster and its replica are killed: their slots are away until both are back", RedisCluster,
        redis_cluster::kill_pair;
    "flush-redis-master", "FLUSHALL of a master of a Redis Cluster", RedisCluster,
        redis_cluster::flush;
    "fail-over-redis-master", "kill -9 of a master of a Redis Cluster, and its replica, which lags, takes over", RedisCluster,
        redis_cluster::fail_over;
    "pause-redis-master", "SIGSTOP of a master of a Redis Cluster until its replica has taken over, then SIGCONT", RedisCluster,
        redis_cluster::pause_master;
    "kill-mariadb", "kill -9 of one of two; its last second of commits may be gone", Nothing,
        mariadb::kill;
    "return-mariadb", "one of two is away until the projections go on without it, and comes back under load", Nothing,
        mariadb::come_back;
    "pause-mariadb", "SIGSTOP of one of two", Nothing,
        mariadb::pause;
    "hang-mariadb", "all connections to one of two hang, in both directions", Nothing,
        network::hang_mariadb;
    "read-only-mariadb", "one of two takes no writes", Nothing,
        mariadb::read_only;
    "lock-mariadb", "somebody holds the locks of resume offsets longer than anybody waits", Nothing,
        mariadb::lock;
    "full-disk-mariadb", "a server's file system is full", Disks,
        disks::fill_mariadb;
    "jump-clocks", "the wall clocks of services, MariaDB and Redis jump apart by hours, forward and back", Clocks,
        clocks::jump;
    "clocks-ahead", "a broker's clock is 48 days ahead: messages of a month without partitions; it is set right and restarted", Clocks,
        clocks::ahead;
    "halt-partition", "a resume offset beyond the end of the log halts a partition of messages, until it is set right", Nothing,
        offsets::halt;
    "poison", "records that no service would write, of many kinds, on every topic", Nothing,
        poison::inject;
    "offsets-to-earliest", "all group offsets are reset while the services are down", Nothing,
        |victim| offsets::reset(victim, offsets::EARLIEST);
    "offsets-to-latest", "the same", Nothing,
        |victim| offsets::reset(victim, offsets::LATEST);
    "delete-groups", "the groups themselves are deleted", Nothing,
        |victim| offsets::reset(victim, offsets::DELETED);
    "delete-snapshots", "the sequencers are killed and all their snapshots deleted", Nothing,
        snapshots::delete;
    "spoil-snapshots", "the same, and broken ones take their place: junk, halves, another version", Nothing,
        snapshots::spoil;
}

impl PartialEq for Fault {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Fault {}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = FAULTS.iter().find(|fault| fault.name == name);
        found.copied().ok_or_else(|| {
            let all: Vec<&str> = FAULTS.iter().map(|fault| fault.name).collect();
            format!("{name:?} is no fault; these are: {}", all.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for fault in FAULTS {
            assert_eq!(fault.name.parse(), Ok(*fault));
        }
        let refused = "kill-me".parse::<Fault>().unwrap_err();
        assert!(refused.contains("kill-sequencer"), "{refused}");
    }
}
