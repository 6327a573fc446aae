//! What analysts are told is what the log says: exports that are killed, states at a time, decisions under other rules.

use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use schemas::{
    Change, ClientMsgId, DeviceClass, InboundPosition, Recipient,
    command::{Command, SendMessage},
};
use serde_json::{Value, json};
use system_tests::{Servers, Settings, TestEnv, new_users, program, run, until};
use tempfile::TempDir;
use tokio::process::Child;

const MESSAGES: i64 = 3_000;
const LINES: usize = 500;
const KILLS: usize = 20;
const RECALLS: i64 = 7;
const LONG: &str = "a text that is too long under other rules";

/// Conversations of a user with many others, in all partitions. Every tenth text is long, and every hundredth has a word.
async fn post_messages(env: &TestEnv, user: i64) -> Result<()> {
    let messages: Vec<Command> = (0..MESSAGES)
        .map(|n| {
            Ok(Command::Send(SendMessage {
                srcid: (user + 1 + n % 100).try_into()?,
                to: Recipient::User(user.try_into()?),
                client_msg_id: ClientMsgId::try_from(format!("m{n}"))?,
                msg: match n {
                    _ if n % 10 == 0 => LONG.to_owned(),
                    _ if n % 100 == 1 => "a secret".to_owned(),
                    _ => format!("hello {n}"),
                },
                by_user: true,
            }))
        })
        .collect::<Result<_>>()?;
    for lines in messages.chunks(LINES) {
        env.client.post_events(lines).await?;
    }
    Ok(())
}

/// The files of an export by their paths, as of now.
fn files(lake: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![lake.to_owned()];
    while let Some(folder) = folders.pop() {
        for found in fs::read_dir(folder)? {
            let path = found?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "parquet") {
                let name = path.strip_prefix(lake)?.to_owned();
                files.insert(name, fs::read(path)?);
            }
        }
    }
    Ok(files)
}

#[test]
fn an_export_that_is_killed_twenty_times_is_as_one_that_was_not() {
    run(Servers::Own(Settings::default()), async |env| {
        let [user] = new_users();
        post_messages(env, user).await?;
        env.audit([user, user + 1]).await?;
        let (whole, killed) = (TempDir::new()?, TempDir::new()?);
        let export = async |lake: &TempDir| -> Result<Value> {
            let lake = lake.path().display().to_string();
            let export = ["export", "messages", "--json", "--to-dir", &lake];
            env.tidemark(&export).await?.expect(0)?.json()
        };
        let undisturbed = export(&whole).await?;
        ensure!(undisturbed["rows"] == MESSAGES, "{undisturbed}");
        for _ in 0..KILLS {
            kill_once_it_has_written(env, killed.path()).await?;
        }
        export(&killed).await?;
        let (whole, killed) = (files(whole.path())?, files(killed.path())?);
        ensure!(whole.keys().eq(killed.keys()), "other files");
        ensure!(whole == killed, "other bytes");
        Ok(())
    });
}

#[test]
fn followers_that_come_and_are_killed_export_each_row_once() {
    run(Servers::Own(Settings::default()), async |env| {
        let lake = TempDir::new()?;
        let to_dir = lake.path().display().to_string();
        let follow = [
            "export",
            "messages",
            "--follow",
            "--every-s",
            "1",
            "--to-dir",
            &to_dir,
        ];
        let mut followers = VecDeque::from([started(env, &follow)?]);
        let [user] = new_users();
        let (mut posted, mut user) = (0, user);
        for wanted in [1, 3, 3, 1] {
            let before = exported_rows(lake.path())?;
            let churn = async {
                until("rows of this round", async || {
                    match exported_rows(lake.path()) {
                        Ok(rows) if rows > before => Ok(()),
                        rows => Err(format!("{rows:?}")),
                    }
                })
                .await?;
                while followers.len() >= wanted {
                    let mut oldest = followers.pop_front().context("there is one")?;
                    oldest.kill().await?;
                }
                while followers.len() < wanted {
                    followers.push_back(started(env, &follow)?);
                }
                Ok(())
            };
            tokio::try_join!(post_messages(env, user), churn)?;
            (posted, user) = (posted + MESSAGES, user + 1_000);
        }
        until("all rows", async || match exported_rows(lake.path()) {
            Ok(rows) if rows == posted => Ok(()),
            rows => Err(format!("{rows:?} of {posted}")),
        })
        .await?;
        env.audit([user]).await?;
        Ok(())
    });
}

/// How many rows the files of a lake have, whose ranges must lie side by side.
fn exported_rows(lake: &Path) -> Result<i64> {
    let mut entries: Vec<(i64, i64, i64, i64)> = Vec::new();
    for path in manifest_entries(lake) {
        let entry: Value = serde_json::from_slice(&fs::read(path)?)?;
        let [partition, from, to, rows] = ["partition", "from", "to", "rows"]
            .map(|name| entry[name].as_i64().context("no number"));
        entries.push((partition?, from?, to?, rows?));
    }
    entries.sort_unstable();
    for two in entries.windows(2) {
        let [(partition, _, end, _), (next, from, ..)] = [two[0], two[1]];
        let from_end = if partition == next { end } else { 0 };
        ensure!(
            from == from_end,
            "{partition}: {from_end} and {next}: {from}"
        );
    }
    Ok(entries.iter().map(|(.., rows)| rows).sum())
}

fn manifest_entries(lake: &Path) -> impl Iterator<Item = PathBuf> {
    let partitions = fs::read_dir(lake.join("messages/_manifest"));
    let partitions = partitions.into_iter().flatten().flatten();
    let entries = partitions.filter_map(|found| fs::read_dir(found.path()).ok());
    entries.flatten().flatten().map(|found| found.path())
}

#[test]
fn a_replay_that_is_killed_twenty_times_is_as_one_that_was_not() {
    run(Servers::Own(Settings::default()), async |env| {
        let [user] = new_users();
        post_messages(env, user).await?;
        env.audit([user, user + 1]).await?;
        let as_of = env.tidemark(&["replay", "--as-of", "now", "--into", "whole", "--json"]);
        let as_of = as_of.await?.expect(0)?.json()?;
        let as_of = as_of["as_of"].as_str().context("no time")?.to_owned();
        let replay = ["replay", "--as-of", &as_of, "--into", "killed"];
        let mut kills = 0;
        while kills < KILLS {
            let rows = rows_of_a_killed_replay(env).await?;
            let mut replay = started(env, &replay)?;
            until("more rows, or the end", async || {
                let has_ended = replay.try_wait().is_ok_and(|ended| ended.is_some());
                let now = rows_of_a_killed_replay(env).await;
                match has_ended || now.is_ok_and(|now| now > rows) {
                    true => Ok(()),
                    false => Err(format!("{rows} rows")),
                }
            })
            .await?;
            if replay.try_wait()?.is_none() {
                replay.kill().await?;
                kills += 1;
            } else {
                // It was faster: another one is killed.
                check_killed_replay(env).await?;
            }
        }
        env.tidemark(&replay).await?.expect(0)?;
        check_killed_replay(env).await?;
        env.audit([user]).await?;
        Ok(())
    });
}

/// It is as the log says, and as the one that was not killed. Drops it.
async fn check_killed_replay(env: &TestEnv) -> Result<()> {
    for check in [
        ["diff", "killed"].as_slice(),
        &["diff", "killed", "whole"],
        &["scratch", "drop", "killed"],
    ] {
        env.tidemark(check).await?.expect(0)?;
    }
    Ok(())
}

/// How far its tables have come: offsets are written with the rows.
async fn rows_of_a_killed_replay(env: &TestEnv) -> Result<i64> {
    let tables = "SELECT TABLE_SCHEMA FROM information_schema.TABLES WHERE TABLE_SCHEMA LIKE 'scratch_killed_%' AND TABLE_NAME = 'resume_offset'";
    let databases = env.query_sql("mariadb", tables).await?;
    let mut offsets = 0;
    for database in databases.split_whitespace() {
        let sum = format!("SELECT COALESCE(SUM(next_offset), 0) FROM {database}.resume_offset");
        let sum: f64 = env.query_sql("mariadb", &sum).await?.trim().parse()?;
        offsets += sum as i64;
    }
    Ok(offsets)
}

/// The program with these arguments, running.
fn started(env: &TestEnv, args: &[&str]) -> Result<Child> {
    let mut command = tokio::process::Command::new(program()?);
    command.args(env.config_args()).args(args);
    Ok(command.kill_on_drop(true).spawn()?)
}

/// Starts an export, and kills it with SIGKILL after its next file, or entry of the manifest.
async fn kill_once_it_has_written(env: &TestEnv, lake: &Path) -> Result<()> {
    let written = || manifest_entries(lake).count();
    let before = written();
    let lake_dir = lake.display().to_string();
    let mut export = started(env, &["export", "messages", "--to-dir", &lake_dir])?;
    until("an entry of the manifest, or the end", async || {
        let has_ended = export.try_wait().is_ok_and(|ended| ended.is_some());
        match has_ended || written() > before {
            true => Ok(()),
            false => Err(format!("{before} entries")),
        }
    })
    .await?;
    export.kill().await.context("it is a child of this process")
}

#[test]
fn what_analysts_are_told_is_what_the_log_says() {
    run(Servers::Own(Settings::default()), async |env| {
        env.until_newest_rules().await?;
        let [user] = new_users();
        post_messages(env, user).await?;
        let peer = user + 1;
        for mid in 1..=RECALLS {
            let recall = env.client.change_message(peer, user, mid, Change::Recall);
            recall.await?;
        }
        env.client.ack(user, peer, DeviceClass::Pc, 3).await?;
        // Refused, then and now.
        let conflict = env.client.send(peer, user, "m0", "another text").await?;
        env.audit([user, peer]).await?;
        check_export(env).await?;
        check_state(env, user, peer).await?;
        check_decisions(env, conflict).await?;
        check_replay(env, user, peer).await?;
        env.audit([user, peer]).await?;
        Ok(())
    });
}

/// As many rows as the audit has compared.
async fn check_export(env: &TestEnv) -> Result<()> {
    let audit = env
        .tidemark(&["audit", "--json"])
        .await?
        .expect(0)?
        .json()?;
    let compared = |area: &str| {
        let checks = audit["checks"].as_array().into_iter().flatten();
        let found = checks.filter(|check| check["area"] == area);
        found
            .filter_map(|check| check["compared"].as_u64())
            .sum::<u64>()
    };
    let lake = TempDir::new()?;
    let to = lake.path().display().to_string();
    for (dataset, expected) in [
        ("events", compared("events")),
        (
            "messages",
            compared("messages") + compared("group-messages"),
        ),
        ("changes", compared("changes")),
    ] {
        let export = ["export", dataset, "--to-dir", &to, "--json"];
        let written = env.tidemark(&export).await?.expect(0)?.json()?;
        ensure!(
            written["rows"] == expected,
            "{dataset}: {written}, {expected}"
        );
    }
    Ok(())
}

/// As query-api says it now, when the projections have everything.
async fn check_state(env: &TestEnv, user: i64, peer: i64) -> Result<()> {
    let (uid, other) = (user.to_string(), peer.to_string());
    let unread = ["at", "now", "unread", &uid, "--json"];
    let unread = env.tidemark(&unread).await?.expect(0)?.json()?;
    for device in DeviceClass::ALL {
        let live = env.client.unread(user, device, &[]).await?;
        let told = unread[device.to_string()]["unread"].as_object();
        let told = told.into_iter().flatten().map(|(peer, count)| {
            Ok((
                peer.parse()?,
                count.as_i64().context("a count is no number")?,
            ))
        });
        let told: BTreeMap<i64, i64> = told.collect::<Result<_>>()?;
        ensure!(told == live, "{device}: {told:?} instead of {live:?}");
    }
    let history = [
        "at", "now", "history", &uid, &other, "--limit", "1000", "--json",
    ];
    let history = env.tidemark(&history).await?.expect(0)?.json()?;
    let live = env.client.history(user, peer, &[]).await?;
    ensure!(history["items"] == Value::from(live), "{history}");
    let before = ["at", "2001-01-01", "unread", &uid, "--json"];
    let before = env.tidemark(&before).await?.expect(0)?.json()?;
    ensure!(before["pc"]["total"] == 0, "{before}");
    Ok(())
}

/// Projections as of now stay as they are whatever comes, and a row that is altered is named.
async fn check_replay(env: &TestEnv, user: i64, peer: i64) -> Result<()> {
    let replay = ["replay", "--as-of", "now", "--into", "past"];
    let past = [replay.as_slice(), &["--json"]].concat();
    let past = env.tidemark(&past).await?.expect(0)?.json()?;
    let diff_with_live = ["diff", "past", "live"];
    env.tidemark(&diff_with_live).await?.expect(0)?;
    env.client.send(peer, user, "later", "later").await?;
    env.audit([user, peer]).await?;
    let diff = ["diff", "past"];
    env.tidemark(&diff).await?.expect(0)?;
    let later = env.tidemark(&diff_with_live).await?.expect(1)?;
    let messages = format!("chat_msg_{}: 1 rows differ", (user + peer) % 64);
    for part in [messages.as_str(), "not in the scratch"] {
        ensure!(later.stdout.contains(part), "{part}: {}", later.stdout);
    }
    check_slice(
        env,
        (user, peer),
        past["as_of"].as_str().context("no time")?,
    )
    .await?;
    let taken = env.tidemark(&replay).await?.expect(2)?;
    ensure!(
        taken.stderr.contains("choose another name"),
        "{}",
        taken.stderr
    );
    let future = ["replay", "--as-of", "2999-01-01", "--into", "future"];
    env.tidemark(&future).await?.expect(2)?;
    let as_of = ["--set", "kafka.as_of=2026-01-01T00:00:00Z", "sequencer"];
    let writes = env.tidemark(&as_of).await?;
    ensure!(
        writes.said().contains("kafka.as_of is set"),
        "{}",
        writes.said()
    );

    let table = format!("contact_{}", user % 64);
    let database = format!(
        "SELECT TABLE_SCHEMA FROM information_schema.TABLES WHERE TABLE_SCHEMA LIKE 'scratch_past_%' AND TABLE_NAME = '{table}'"
    );
    let database = env.query_sql("mariadb", &database).await?;
    let altered = format!(
        "UPDATE {}.{table} SET own_n = own_n + 1 WHERE uid = {user} AND peer = {peer}",
        database.trim()
    );
    env.execute_sql("mariadb", &altered).await?;
    let found = env.tidemark(&diff).await?.expect(1)?;
    let differs = env.tidemark(&diff_with_live).await?.expect(1)?;
    let row = format!("uid {user}, kind 0, peer {peer}: ");
    for part in [row.as_str(), "own_n "] {
        ensure!(differs.stdout.contains(part), "{part}: {}", differs.stdout);
    }
    let contact = format!("contact of {user} with {peer}");
    for part in [contact.as_str(), "own_n"] {
        ensure!(found.stdout.contains(part), "{part}: {}", found.stdout);
    }
    // As a replay leaves it that is killed after its first statement.
    env.execute_sql("mariadb", "CREATE DATABASE scratch_stopped_0")
        .await?;
    let stopped = env.tidemark(&["scratch", "list"]).await?.expect(0)?;
    ensure!(
        stopped.stdout.contains("stopped before it began"),
        "{}",
        stopped.stdout
    );
    for name in ["past", "stopped"] {
        env.tidemark(&["scratch", "drop", name]).await?.expect(0)?;
    }
    let left = env
        .tidemark(&["scratch", "list", "--json"])
        .await?
        .expect(0)?;
    ensure!(left.stdout.is_empty(), "{}", left.stdout);
    let gone = env.tidemark(&diff).await?.expect(1)?;
    ensure!(
        gone.stderr.contains("there is no scratch"),
        "{}",
        gone.stderr
    );
    Ok(())
}

/// The rows of one message, which was sent after a time, and nothing else.
async fn check_slice(env: &TestEnv, (user, peer): (i64, i64), from: &str) -> Result<()> {
    let slice = ["replay", "--from", from, "--to", "now", "--into", "slice"];
    env.tidemark(&slice).await?.expect(0)?;
    let partition = (user + peer) % 64;
    let database = format!("scratch_slice_{}", partition / 16);
    let messages = format!("SELECT msg FROM {database}.chat_msg_{partition}");
    let messages = env.query_sql("mariadb", &messages).await?;
    ensure!(messages.trim() == "later", "{messages}");
    for table in ["contact", "membership", "read_chat_mid"] {
        let rows = format!("SELECT COUNT(*) FROM {database}.{table}_{partition}");
        let rows = env.query_sql("mariadb", &rows).await?;
        ensure!(rows.trim() == "0", "{table}: {rows}");
    }
    let without_state = env.tidemark(&["diff", "slice"]).await?.expect(2)?;
    ensure!(
        without_state.stderr.contains("is a slice"),
        "{}",
        without_state.stderr
    );
    let both = [slice.as_slice(), &["--as-of", "now"]].concat();
    env.tidemark(&both).await?.expect(2)?;
    env.tidemark(&["scratch", "drop", "slice"])
        .await?
        .expect(0)?;
    Ok(())
}

async fn check_decisions(env: &TestEnv, conflict: InboundPosition) -> Result<()> {
    let replay = async |settings: &[&str], code: i32| -> Result<Value> {
        let command = [&["replay", "decisions", "--json"], settings].concat();
        env.tidemark(&command).await?.expect(code)?.json()
    };
    let same = replay(&[], 0).await?;
    ensure!(same["differences"] == json!([]), "{same}");
    let words = TempDir::new()?;
    let dictionary = words.path().join("words");
    fs::write(&dictionary, "refuse secret\n")?;
    let dictionary = dictionary.display().to_string();
    let longest = (LONG.len() - 1).to_string();
    let secrets = (0..MESSAGES).filter(|n| n % 100 == 1).count();
    let long = (0..MESSAGES).filter(|n| n % 10 == 0).count();
    let cases: [(&[&str], &str, &str, usize); 3] = [
        (
            &["--recall-window-ms", "1"],
            "message_change",
            "dead letter: too-late",
            usize::try_from(RECALLS)?,
        ),
        (
            &["--max-msg-bytes", &longest],
            "message",
            "dead letter: too-large",
            long,
        ),
        (
            &["--words", &dictionary],
            "message, clean",
            "message, refused by the dictionary",
            secrets,
        ),
    ];
    for (settings, was, now, count) in cases {
        let found = replay(settings, 1).await?;
        let differences = found["differences"].as_array().context("no differences")?;
        ensure!(differences.len() == 1, "{settings:?}: {found}");
        let difference = &differences[0];
        ensure!(
            (&difference["was"], &difference["now"], &difference["count"])
                == (&json!(was), &json!(now), &json!(count)),
            "{settings:?}: {found}"
        );
        ensure!(
            difference["first"]
                .as_array()
                .is_some_and(|first| !first.contains(&json!(conflict))),
            "{found}"
        );
    }
    Ok(())
}
