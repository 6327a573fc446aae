//! Lost or unwanted projections: `tidemark rebuild` writes them again from the log while everything else runs.

use std::{
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, ensure};
use schemas::{InboundPosition, Profile, topics::Topic};
use serde_json::Value;
use system_tests::{DeviceClass, Load, Servers, Settings, TestEnv, new_users, program, run, until};
use tokio::{process::Command, task::JoinHandle};

use crate::sql::Sql;

async fn rebuild(env: &TestEnv, args: &[&str]) -> Result<Value> {
    let command = [&["--json", "rebuild"], args].concat();
    let done = env.tidemark(&command).await?.expect(0)?;
    eprintln!("{} {}", args.join(" "), done.stdout.trim());
    done.json()
}

#[test]
fn dropped_tables_come_back() {
    run(Servers::Own(Settings::default()), async |env| {
        let mut sql = Sql::connect(env).await?;
        let mut load = Load::start(env, 8);
        load.grows_by(1500).await?;
        let kinds = [
            ("chat_msg", "messages"),
            ("read_chat_mid", "reads"),
            ("contact", "contacts"),
        ];
        let mut dropped = Vec::new();
        for (kind, what) in kinds {
            let n = sql.fullest(kind).await?;
            sql.run(&format!("DROP TABLE im_{}.{kind}_{n}", n / 16))
                .await?;
            dropped.push((what, n.to_string()));
        }
        load.grows_by(300).await?;
        for (what, n) in &dropped {
            let done = rebuild(env, &[what, "--partition", n]).await?;
            ensure!(done["replaced"] == 1, "{done}");
            load.grows_by(100).await?;
        }
        load.check().await?;
        load.finish().await?.judge(env).await?;
        sql.nothing_left().await
    });
}

#[test]
fn a_dropped_database_comes_back() {
    run(Servers::Own(Settings::default()), async |env| {
        let mut sql = Sql::connect(env).await?;
        let mut load = Load::start(env, 8);
        load.grows_by(1500).await?;
        sql.run("DROP DATABASE im_2").await?;
        load.grows_by(300).await?;
        let (uid, at) = profile_of_the_lost(env).await?;
        for what in ["messages", "reads", "contacts"] {
            rebuild(env, &[what]).await?;
        }
        let profile = env.client.profile(uid, &[at]).await?;
        ensure!(profile.is_some_and(|profile| profile.nick == "Ann"));
        load.grows_by(300).await?;
        load.check().await?;
        load.finish().await?.judge(env).await?;
        sql.nothing_left().await
    });
}

/// A user with a profile, of whom Redis has a later one that the log has lost since.
async fn profile_of_the_lost(env: &TestEnv) -> Result<(i64, InboundPosition)> {
    let [uid] = new_users();
    let profile = Profile {
        uid: uid.try_into()?,
        nick: "Ann".to_owned(),
        avatar: None,
        extra: None,
    };
    let at = env.client.set_profile(&profile).await?;
    env.client.profile(uid, &[at]).await?;
    let key = format!("user-{uid}");
    let later = ["HSET", &key, "nick", "lost", "pos", "1000000000"];
    env.redis.command(&later).await?;
    let seen = env.client.profile(uid, &[at]).await?;
    ensure!(seen.is_some_and(|seen| seen.nick == "lost"));
    Ok((uid, at))
}

#[test]
fn an_emptied_redis_comes_back() {
    run(Servers::Own(Settings::default()), async |env| {
        let mut load = Load::start(env, 8);
        load.grows_by(800).await?;
        env.redis.flush_all().await?;
        let done = rebuild(env, &["unread"]).await?;
        ensure!(done["replaced"].as_u64() >= Some(20), "{done}");
        load.grows_by(200).await?;
        load.check().await?;

        // One key that is wrong, and that nobody would notice.
        let finished = load.finish().await?;
        finished.verify().await?;
        let [from, to] = new_users();
        let sent = env.client.send(from, to, "1", "1").await?;
        let right = env.client.unread(to, DeviceClass::Pc, &[sent]).await?;
        let (state, view) = (format!("state-{to}"), format!("pc-{to}"));
        let peer = from.to_string();
        env.redis.number(&["HSET", &state, &peer, "7,0,0"]).await?;
        env.redis.number(&["HSET", &view, &peer, "7"]).await?;
        let n = (to % 64).to_string();
        rebuild(env, &["unread", "--partition", &n]).await?;
        ensure!(env.client.unread(to, DeviceClass::Pc, &[]).await? == right);
        ensure!(env.redis.hgetall(&view).await?[&peer] == "1");
        finished.judge(env).await
    });
}

/// Everything is rebuilt although nothing is wrong, again and again killed in the middle; a reader never sees less than before.
#[test]
fn a_killed_rebuild_goes_on_and_readers_see_no_half() {
    run(Servers::Own(Settings::default()), async |env| {
        let mut sql = Sql::connect(env).await?;
        let mut load = Load::start(env, 2);
        load.grows_by(1000).await?;
        let reader = Reader::start(env).await?;
        let mut left = 64;
        for kill in 0..3 {
            kill_in_the_middle(env, &mut sql, kill).await?;
            let now = sql.leftovers().await?;
            ensure!((1..=left).contains(&now), "{now} shadows after {left}");
            left = now;
        }
        let done = rebuild(env, &["messages"]).await?;
        let replaced = done["replaced"].as_i64().unwrap_or_default();
        ensure!(
            replaced <= left && replaced < 64,
            "{done}, {left} were left"
        );
        // A run for all that was killed once its shadows were there, and then one for a table of those.
        sql.leave_begun("contacts", "contact", 0..16).await?;
        rebuild(env, &["contacts", "--partition", "5"]).await?;
        let done = rebuild(env, &["contacts"]).await?;
        ensure!(done["replaced"] == 64, "{done}");
        reader.stop().await?;
        load.check().await?;
        load.finish().await?.judge(env).await?;
        sql.nothing_left().await
    });
}

/// Starts a rebuild of the messages and kills it once some more tables than before have been switched.
async fn kill_in_the_middle(env: &TestEnv, sql: &mut Sql, kill: i64) -> Result<()> {
    let before = sql.leftovers().await?;
    let goal = if before == 0 { 62 } else { before - 2 - kill };
    let mut rebuilding = Command::new(program()?)
        .args(env.config_args())
        .args(["rebuild", "messages"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let mut began = before > 0;
    until("some tables to be switched", async || {
        if let Ok(Some(status)) = rebuilding.try_wait() {
            return Ok(Err(anyhow::anyhow!("the rebuild ended with {status}")));
        }
        let now = sql.leftovers().await.map_err(|error| error.to_string())?;
        began |= now >= 64;
        if began && now <= goal {
            return Ok(Ok(()));
        }
        Err(format!("{now} shadows"))
    })
    .await??;
    rebuilding.kill().await?;
    Ok(())
}

/// Somebody who reads a conversation over and over.
struct Reader {
    stop: Arc<AtomicBool>,
    reading: JoinHandle<Result<u64>>,
}

impl Reader {
    async fn start(env: &TestEnv) -> Result<Self> {
        let [from, to] = new_users();
        let mut sent = env.client.send(from, to, "0", "0").await?;
        for i in 1..300 {
            let i = i.to_string();
            sent = env.client.send(from, to, &i, &i).await?;
        }
        let client = env.client.clone();
        let mut most = client.history(to, from, &[sent]).await?.len();
        ensure!(most == 300);
        // The list shows a conversation some time after its messages are there.
        client
            .ask(&format!("/v1/users/{to}/conversations?after={sent}"))
            .await?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let reading = tokio::spawn(async move {
            let mut polls = 0;
            while !stopped.load(Ordering::Relaxed) {
                if polls % 20 == 0 {
                    let id = format!("more-{polls}");
                    client.send(from, to, &id, &id).await?;
                }
                let seen = client.history(to, from, &[]).await?.len();
                ensure!(seen >= most, "{seen} messages after {most}");
                most = seen;
                let path = format!("/v1/users/{to}/conversations");
                let list = client.ask(&path).await?;
                ensure!(
                    list["items"][0]["last_mid"].as_u64() > Some(0),
                    "poll {polls}: {list}"
                );
                polls += 1;
            }
            Ok(polls)
        });
        Ok(Self { stop, reading })
    }

    async fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let polls = tokio::time::timeout(Duration::from_secs(60), self.reading).await???;
        ensure!(polls > 50, "the reader polled {polls} times only");
        eprintln!("a reader polled {polls} times");
        Ok(())
    }
}

#[test]
fn what_cannot_be_done_is_refused() {
    run(Servers::Own(Settings::default()), async |env| {
        let [from, to] = new_users();
        let sent = env.client.send(from, to, "1", "1").await?;
        env.client.history(to, from, &[sent]).await?;
        let n = sent.partition.to_string();

        let mut other = Sql::connect(env).await?;
        let taken = other
            .number("SELECT GET_LOCK('tidemark.rebuild.im_messages', 0)")
            .await?;
        ensure!(taken == 1);
        let refused = env.tidemark(&["rebuild", "messages"]).await?.expect(1)?;
        ensure!(refused.stderr.contains("another rebuild"), "{refused:?}");
        other
            .run("DO RELEASE_LOCK('tidemark.rebuild.im_messages')")
            .await?;

        let wrong = env.tidemark(&["rebuild", "messages", "-p", "64"]).await?;
        ensure!(wrong.code == Some(2), "{wrong:?}");

        let second = env.client.send(from, to, "2", "2").await?;
        env.client.history(to, from, &[second]).await?;
        env.events
            .delete_before(Topic::Events, sent.partition, 1)
            .await?;
        let refused = env.tidemark(&["rebuild", "messages", "-p", &n]).await?;
        ensure!(refused.code == Some(1), "{refused:?}");
        ensure!(refused.stderr.contains("begins at offset 1"), "{refused:?}");
        ensure!(refused.stderr.contains("backup"), "{refused:?}");
        other.nothing_left().await
    });
}
