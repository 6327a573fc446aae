//! Three masters of a Redis Cluster, each with a replica: one is killed, alone or with its replica, or loses slots to another.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use rustix::process::Signal;
use system_tests::{Load, Redis, Servers, Settings, TestEnv, new_users, run, until};

const CLUSTER: Settings = Settings {
    redis_nodes: 6,
    redis_cluster: true,
    ..Settings::USUAL
};
/// Four users each, one after the other: some in every slot.
const GROUPS: u64 = 16;
const SLOTS: usize = 64;

#[test]
fn a_replica_that_lags_takes_over() {
    run(Servers::Own(CLUSTER), async |env| {
        let (master, replica) = (env.redis_node(0), env.redis_node(3));
        let mut load = Load::start(env, GROUPS);
        load.grows_by(500).await?;
        load.check().await?;

        replica.stop_replication().await?;
        load.grows_by(500).await?;
        let (newest, lagging) = (written(master).await?, written(replica).await?);
        ensure!(lagging < newest, "the replica has everything");
        env.end("redis", Signal::KILL).await?;
        replica.until_replication("role:master").await?;
        load.grows_by(500).await?;
        load.check().await?;

        // The former master follows, and takes over in its turn.
        env.start_servers().await?;
        master.until_replication("role:slave").await?;
        master.until_replication("master_link_status:up").await?;
        load.grows_by(200).await?;
        env.end("redis-4", Signal::KILL).await?;
        master.until_replication("role:master").await?;
        load.grows_by(200).await?;
        load.check().await?;

        // Users who read far back are dropped and rebuilt all the time, and a rebuild of all waits for each of them: minutes, under this load.
        let load = load.finish().await?;
        env.tidemark(&["rebuild", "unread"]).await?.expect(0)?;
        let slots: BTreeSet<i64> = load.users().iter().map(|u| u % 64).collect();
        ensure!(slots.len() == SLOTS, "users in {} slots", slots.len());
        load.judge(env).await
    });
}

#[test]
fn the_other_masters_go_on_alone() {
    run(Servers::Own(CLUSTER), async |env| {
        let mut load = Load::start(env, GROUPS);
        load.grows_by(300).await?;
        let away = slots_of(env.redis_node(0)).await?;
        for node in ["redis-4", "redis"] {
            env.end(node, Signal::KILL).await?;
        }
        let second = env.redis_node(1);
        let (from, to) = loop {
            let [from, to] = new_users();
            if !away.contains(&slot_of(second, to % 64).await?) {
                break (from, to);
            }
        };
        env.client.send(from, to, "a", "a").await?;
        until("the view of a user whose slot is there", async || {
            let key = format!("{{{}}}pc-{to}", to % 64);
            let from = from.to_string();
            for node in [second, env.redis_node(2)] {
                // The one that does not have the slot refuses.
                if node
                    .hgetall(&key)
                    .await
                    .is_ok_and(|view| view.contains_key(&from))
                {
                    return Ok(());
                }
            }
            Err("nothing".to_owned())
        })
        .await?;
        load.grows_by(300).await?;
        // Answers for users of the others come from the contact rows.
        load.check().await?;
        env.start_servers().await?;
        env.redis_node(0).until_replication("role:master").await?;
        load.grows_by(200).await?;
        load.finish().await?.judge(env).await
    });
}

#[test]
fn slots_that_move_to_another_master_stay_exact() {
    run(Servers::Own(CLUSTER), async |env| {
        let mut load = Load::start(env, GROUPS);
        load.grows_by(500).await?;
        let (first, second) = (env.redis_node(0), env.redis_node(1));
        let slots = slots_of(first).await?;
        ensure!(slots.len() > 8, "{slots:?}");
        for slot in &slots[..8] {
            move_slot(env, slot, first, second).await?;
        }
        load.grows_by(300).await?;
        load.check().await?;
        move_slot(env, &slots[0], second, first).await?;
        load.grows_by(300).await?;
        load.finish().await?.judge(env).await
    });
}

/// How much a master has written, or a replica has of it, in bytes.
async fn written(server: Redis) -> Result<u64> {
    let info = server.replication().await?;
    let is_replica = info.contains("role:slave");
    let field = if is_replica {
        "slave_repl_offset:"
    } else {
        "master_repl_offset:"
    };
    let mut lines = info.lines();
    let offset = lines.find_map(|line| line.strip_prefix(field));
    Ok(offset.unwrap_or_default().parse()?)
}

/// Those of the users' hash slots that a master has.
async fn slots_of(master: Redis) -> Result<Vec<String>> {
    let mut slots = Vec::new();
    for n in 0..SLOTS as i64 {
        let slot = slot_of(master, n).await?;
        if master
            .number(&["CLUSTER", "COUNTKEYSINSLOT", &slot])
            .await?
            > 0
        {
            slots.push(slot);
        }
    }
    Ok(slots)
}

/// The hash slot of users with uid mod 64 = n.
async fn slot_of(node: Redis, n: i64) -> Result<String> {
    let keyslot = ["CLUSTER", "KEYSLOT", &format!("{{{n}}}")];
    Ok(node.command(&keyslot).await?.concat())
}

/// As `redis-cli --cluster reshard` does it.
async fn move_slot(env: &TestEnv, slot: &str, from: Redis, to: Redis) -> Result<()> {
    let (source, target) = (id(from).await?, id(to).await?);
    let set = async |server: Redis, words: [&str; 2]| {
        server
            .command(&["CLUSTER", "SETSLOT", slot, words[0], words[1]])
            .await
    };
    set(to, ["IMPORTING", &source]).await?;
    set(from, ["MIGRATING", &target]).await?;
    loop {
        let keys = from
            .command(&["CLUSTER", "GETKEYSINSLOT", slot, "10"])
            .await?;
        if keys.is_empty() {
            break;
        }
        let port = to.port().to_string();
        let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
        migrate.extend(keys.iter().map(String::as_str));
        from.command(&migrate).await?;
    }
    for server in [to, from, env.redis_node(2)] {
        set(server, ["NODE", &target]).await?;
    }
    Ok(())
}

async fn id(server: Redis) -> Result<String> {
    Ok(server.command(&["CLUSTER", "MYID"]).await?.concat())
}
