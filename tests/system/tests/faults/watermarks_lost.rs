//! Redis loses watermarks while projector-unread is stopped, and keeps the users' keys.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use schemas::{DirectConversation, InboundPosition, Partition};
use system_tests::{Servers, Settings, TestEnv, new_users, run, until};

const PROJECTOR: &str = "projector-unread";

#[test]
fn counts_are_right_after_one_watermark_or_all_are_lost() {
    run(Servers::Own(Settings::default()), async |env| {
        let [from, to, other] = new_users();
        let partition = DirectConversation::new(from.try_into()?, to.try_into()?).partition();
        send(env, from, to, &["a"]).await?;
        let last = send(env, other, to, &["a"]).await?;
        is_shown(env, to, &[(from, 1), (other, 1)]).await?;
        env.audit([from, to, other]).await?;

        stop(env).await?;
        delete(env, [partition]).await?;
        is_a_difference(env, partition).await?;
        send(env, from, to, &["b", "c", "d"]).await?;
        env.start_services(&[PROJECTOR]).await?;
        // Nobody reads over the API, and there is no later event.
        is_shown(env, to, &[(from, 4), (other, 1)]).await?;
        env.audit([from, to, other]).await?;

        stop(env).await?;
        delete(env, Partition::all()).await?;
        let sent = send(env, from, to, &["e", "f", "g"]).await?;
        env.start_services(&[PROJECTOR]).await?;
        is_shown(env, to, &[]).await?;
        let pc = system_tests::DeviceClass::Pc;
        let unread = env.client.unread(to, pc, &[last, sent]).await?;
        let expected = BTreeMap::from([(from, 7), (other, 1)]);
        ensure!(unread == expected, "{unread:?}");
        env.audit([from, to, other]).await?;
        Ok(())
    });
}

/// As a program left it that began a generation beside the keys of the one before.
#[test]
fn a_view_of_another_generation_is_a_difference() {
    run(Servers::Own(Settings::default()), async |env| {
        let [from, to] = new_users();
        send(env, from, to, &["a"]).await?;
        is_shown(env, to, &[(from, 1)]).await?;
        let state = format!("state-{to}");
        let former = "00000000-0000-0000-0000-000000000000";
        env.redis.number(&["HSET", &state, "gen", former]).await?;
        let audited = env.tidemark(&["audit"]).await?.expect(1)?;
        let what = format!("a view of {to} without a valid state beside it");
        ensure!(audited.stdout.contains(&what), "{}", audited.stdout);
        // The next event corrects it.
        send(env, from, to, &["b"]).await?;
        is_shown(env, to, &[(from, 2)]).await?;
        env.audit([from, to]).await?;
        Ok(())
    });
}

/// Sends these, and returns when they are sequenced.
async fn send(env: &TestEnv, from: i64, to: i64, ids: &[&str]) -> Result<InboundPosition> {
    let mut last = None;
    for id in ids {
        last = Some(env.client.send(from, to, id, id).await?);
    }
    let last = last.context("nothing was sent")?;
    env.client.history(from, to, &[last]).await?;
    Ok(last)
}

async fn stop(env: &TestEnv) -> Result<()> {
    env.end(PROJECTOR, Signal::TERM).await.map(drop)
}

async fn delete(env: &TestEnv, partitions: impl IntoIterator<Item = Partition>) -> Result<()> {
    for partition in partitions {
        let key = format!("tidemark:mark:{partition}");
        ensure!(env.redis.number(&["DEL", &key]).await? == 1, "{key}");
    }
    Ok(())
}

/// Waits until the raw view shows this.
async fn is_shown(env: &TestEnv, uid: i64, expected: &[(i64, i64)]) -> Result<()> {
    let expected: BTreeMap<String, String> = expected
        .iter()
        .map(|(peer, count)| (peer.to_string(), count.to_string()))
        .collect();
    let shown = async || {
        let view = env.redis.hgetall(&format!("pc-{uid}")).await;
        match view.map_err(|error| format!("{error:#}"))? {
            view if view == expected => Ok(()),
            view => Err(format!("{view:?}")),
        }
    };
    until(&format!("pc-{uid} shows {expected:?}"), shown).await
}

/// The audit cannot compare the counts that are there, and says so.
async fn is_a_difference(env: &TestEnv, partition: Partition) -> Result<()> {
    let audited = env.tidemark(&["audit"]).await?.expect(1)?;
    let what = format!("without the watermark of partition {partition}");
    ensure!(audited.stdout.contains(&what), "{}", audited.stdout);
    Ok(())
}
