//! The cost of groups: a message into groups of several sizes, 500 groups at login, a recall until it shows, memory for each member.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use message_store::Sink;
use schemas::{
    Change, ChangeGroup, ChangeMessage, CreateGroup, GroupAction, GroupId, Mid, Recipient, UserId,
    command::Command,
};
use serde_json::Value;
use system_tests::{Percentiles, TestEnv, until};

use super::{EVERYTHING, Plan};
use crate::{
    load::connection::Connection,
    meter::{FIVE, Meter, SharedPages, resident_of},
    pair::in_turn,
    progress::{Progress, Projection},
    results::{Bound, Row},
    sample::{Sample, Spread},
};

/// The number of each group is its size; no other group here has such a number.
const SIZES: [i64; 3] = [10, 1_000, 100_000];
const OWNER: i64 = 1_000_000;
/// How many users one command names.
const NAMED: usize = 1_000;
const MESSAGES: u64 = 10_000;
const LINES: usize = 500;
pub(super) const TEXT: &str = "A message of the usual length, which is somewhere around a hundred and forty bytes, so that it costs what most of them cost, more or less.";
/// The groups of one user, each with this many others.
const GROUPS: i64 = 500;
const OTHERS: i64 = 10;
const MEMBER: i64 = 2_000_000;
const CALLS: usize = 200;
const RECALLS: i64 = 100;

pub(super) async fn run(plan: &Plan) -> Result<Vec<Row>> {
    let env = TestEnv::start(EVERYTHING).await?;
    env.check_all_partitions().await?;
    let rules = ["rules", "set", "--max-group-members", "100000"];
    let set = async || match env.tidemark(&rules).await {
        Ok(set) if set.code == Some(0) => Ok(()),
        Ok(set) => Err(set.said()),
        Err(error) => Err(format!("{error:#}")),
    };
    until("groups of 100,000 are allowed", set).await?;
    let mut rows = of_sizes(&env, plan).await?;
    rows.push(login(&env).await?);
    rows.push(recall(&env).await?);
    Ok(rows)
}

/// Messages into groups of each size in turn, after as many in a direct conversation.
async fn of_sizes(env: &TestEnv, plan: &Plan) -> Result<Vec<Row>> {
    let mut bytes_each = f64::NAN;
    for size in SIZES {
        let before = sequencer_mib(env)?;
        create(env, size, size).await?;
        bytes_each = (sequencer_mib(env)? - before) * f64::from(1 << 20) / size as f64;
    }
    let [ten, thousand, large] = SIZES.map(Some);
    let sides = [None, ten, thousand, large];
    let measured = async |size| measured(env, size).await;
    let [direct, groups @ ..] = in_turn(plan.rounds, sides, measured).await?;
    let cpu = |samples: &[Sample]| Spread::of(samples.iter().map(cpu_of_services_us));
    let mut rows = vec![Row::of_value(
        "CPU of the five services, a direct message",
        "µs",
        cpu(&direct),
        None,
        &direct,
    )];
    let smallest = cpu(&groups[0]).median;
    for (size, samples) in SIZES.into_iter().zip(&groups) {
        let what = format!("CPU of the five services, a message into a group of {size}");
        let most = Some(Bound::AtMost((1.2 * smallest).round()));
        rows.push(Row::of_value(what, "µs", cpu(samples), most, samples));
    }
    let what = "memory of the sequencer for each member of a group of 100,000";
    rows.push(Row::of_one(what, "bytes", bytes_each, None));
    Ok(rows)
}

fn cpu_of_services_us(sample: &Sample) -> f64 {
    let spent = |service: &&str| sample.cpu_s.get(*service).copied().unwrap_or_default();
    FIVE.iter().map(spent).sum::<f64>() / sample.count as f64 * 1e6
}

fn sequencer_mib(env: &TestEnv) -> Result<f64> {
    let pid = env.pid("sequencer").context("no sequencer runs")?;
    resident_of(pid, SharedPages::Resident)
}

/// Posts messages into a group of `size` members, or into a direct conversation, and waits until they are in all stores.
async fn measured(env: &TestEnv, size: Option<i64>) -> Result<Sample> {
    let events = match size {
        Some(size) => (0..MESSAGES).map(|_| send(size, OWNER)).collect(),
        None => messages((0..MESSAGES).map(|_| (OWNER, OWNER + 1))),
    }?;
    let meter = Meter::start(env)?;
    store(env, &events).await?;
    meter.stop(MESSAGES)
}

/// Posts events, and waits until they are in all stores, except for that of read positions, of which there are none.
pub(super) async fn store(env: &TestEnv, events: &[Command]) -> Result<()> {
    for part in events.chunks(LINES) {
        env.client.post_events(part).await?;
    }
    env.check_all_partitions().await?;
    let progress = Progress::of(env).await?;
    let end = progress.appended().await?;
    for projection in [
        Projection::Unread,
        Projection::Tables(Sink::Messages),
        Projection::Tables(Sink::Contacts),
    ] {
        progress.has_written(projection, end).await?;
    }
    Ok(())
}

/// A group with the owner and others whose uids follow the owner's.
async fn create(env: &TestEnv, gid: i64, size: i64) -> Result<()> {
    let members: Vec<UserId> = (1..size).map(|n| user(OWNER + n)).collect::<Result<_>>()?;
    let (first, others) = members.split_at(members.len().min(NAMED));
    let mut events = vec![event(
        gid,
        OWNER,
        GroupAction::Create(CreateGroup {
            name: format!("of {size}"),
            members: first.to_vec(),
            open: false,
            whole_history: true,
            client_id: None,
        }),
    )?];
    for others in others.chunks(NAMED) {
        events.push(event(gid, OWNER, GroupAction::Add(others.to_vec()))?);
    }
    store(env, &events).await?;
    let path = format!("/v1/groups/{gid}?uid={OWNER}");
    let group: Value = env.client.ask(&path).await?;
    ensure!(group["member_count"] == size, "{group}");
    Ok(())
}

/// The duration of listing the conversations of a user with 500 groups.
async fn login(env: &TestEnv) -> Result<Row> {
    let mut events = Vec::new();
    for gid in MEMBER..MEMBER + GROUPS {
        events.push(creation(gid, MEMBER, OTHERS)?);
        events.push(send(gid, MEMBER + 1)?);
    }
    store(env, &events).await?;
    let mut connection = Connection::open(env.port("query-api")?).await?;
    let path = format!("/v1/users/{MEMBER}/groups?limit={GROUPS}");
    let mut ms = Vec::new();
    for _ in 0..CALLS {
        let began = Instant::now();
        let answer = connection.get(&path).await?;
        ms.push(began.elapsed().as_secs_f64() * 1e3);
        let answer: Value = serde_json::from_slice(&answer)?;
        let groups = answer["items"].as_array().map_or(0, Vec::len);
        ensure!(groups as i64 == GROUPS, "{groups} groups");
        ensure!(answer["items"][0]["unread"]["pc"] == 1, "{answer}");
    }
    let most = Some(Bound::AtMost(20.0));
    Ok(Row::of_one(
        "500 groups at login, p99",
        "ms",
        Percentiles::of(ms).p99,
        most,
    ))
}

/// The time from the post of a recall until a page of the group shows it, without other load.
async fn recall(env: &TestEnv) -> Result<Row> {
    let [gid, last] = [SIZES[0], RECALLS];
    let mut ms = Vec::new();
    for mid in 1..=last {
        let recall = Command::ChangeMessage(ChangeMessage {
            by: user(OWNER)?,
            to: Recipient::Group(gid.try_into()?),
            mid: Mid::try_from(mid)?,
            change: Change::Recall,
        });
        let began = Instant::now();
        let at = env.client.post_event(&recall).await?;
        let path = format!(
            "/v1/groups/{gid}/messages?uid={OWNER}&before_mid={}&limit=1&after={at}",
            mid + 1
        );
        let page = env.client.ask(&path).await?;
        ms.push(began.elapsed().as_secs_f64() * 1e3);
        ensure!(page["items"][0]["recalled"] == true, "{page}");
    }
    let what = "recall → shown by the query API from MySQL, p99";
    Ok(Row::of_one(what, "ms", Percentiles::of(ms).p99, None))
}

fn user(uid: i64) -> Result<UserId> {
    Ok(UserId::try_from(uid)?)
}

/// The creation of a group by the owner, with `others` others whose uids follow the owner's.
pub(super) fn creation(gid: i64, owner: i64, others: i64) -> Result<Command> {
    let members = (owner + 1..=owner + others).map(user);
    let create = GroupAction::Create(CreateGroup {
        name: format!("group {gid}"),
        members: members.collect::<Result<_>>()?,
        open: false,
        whole_history: false,
        client_id: None,
    });
    event(gid, owner, create)
}

/// A message of the usual length for each pair.
pub(super) fn messages(pairs: impl Iterator<Item = (i64, i64)>) -> Result<Vec<Command>> {
    let message = |(from, to)| {
        let message = client::message(user(from)?, user(to)?, TEXT);
        Ok(Command::Send(message))
    };
    pairs.map(message).collect()
}

/// The same for a group.
pub(super) fn send(gid: i64, by: i64) -> Result<Command> {
    let to = Recipient::Group(gid.try_into()?);
    Ok(Command::Send(client::message_to(user(by)?, to, TEXT)))
}

fn event(gid: i64, by: i64, action: GroupAction) -> Result<Command> {
    Ok(Command::ChangeGroup(ChangeGroup {
        gid: GroupId::try_from(gid)?,
        by: user(by)?,
        by_user: false,
        action,
    }))
}
