//! Real messages, with acks of their readers, and the counts that follow from the file.

use std::{fs::File, io::Read as _};

use anyhow::{Context as _, Result, ensure};
use flate2::read::GzDecoder;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use schemas::InboundPosition;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use system_tests::{DeviceClass, Model, Sent, Servers, TestEnv, run};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/college-msg.txt.gz");
/// The first so many lines; the whole file is what the demo loads.
const LINES: usize = 10_000;
const SHIFT: i64 = 1_000_000;
const AT_A_TIME: usize = 16;

#[test]
fn counts_follow_from_the_file_and_a_second_load_adds_nothing() {
    run(Servers::Shared, async |env| {
        let (model, acks) = model_of_file()?;
        let posts = (LINES + acks) as u64;
        load(env, posts).await?;
        let newest = all_stepped(env).await?;
        check_counts(env, &model, &newest).await?;
        check_busiest(env, &model).await?;
        env.audit(model.users()).await?;

        let before = env.events.ends().await?;
        load(env, posts).await?;
        let newest = all_stepped(env).await?;
        let after = env.events.ends().await?;
        let added = env.events.decisions(&before, &after).await?;
        ensure!(
            added.is_empty(),
            "{} were added: {:?}",
            added.len(),
            &added[..3.min(added.len())]
        );
        check_counts(env, &model, &newest).await?;
        env.audit(model.users()).await?;
        Ok(())
    });
}

async fn load(env: &TestEnv, posts: u64) -> Result<()> {
    let (lines, shift) = (LINES.to_string(), SHIFT.to_string());
    let args = [
        "load",
        FILE,
        "--acks",
        "--shift-uids",
        &shift,
        "--limit",
        &lines,
        "--json",
    ];
    let report = env.tidemark(&args).await?.expect(0)?.json()?;
    ensure!(report["accepted"] == posts, "{report}, expected {posts}");
    Ok(())
}

/// Waits until the sequencer has read every record that is on the log now; gives the newest of each partition.
async fn all_stepped(env: &TestEnv) -> Result<Vec<InboundPosition>> {
    let newest = env.events.newest_inbound().await?;
    for last in &newest {
        env.client.outcome(*last).await?;
    }
    Ok(newest)
}

/// What the first lines of the file make of it, and how many read-acks that takes. Every twelfth message is read on
/// mobile at once, and so on; one that is read two messages late may find nothing to read.
fn model_of_file() -> Result<(Model, usize)> {
    let mut model = Model::default();
    let mut acks = 0;
    let mut text = String::new();
    GzDecoder::new(File::open(FILE).context(FILE)?).read_to_string(&mut text)?;
    let digest = Sha256::digest(&text);
    let file_id: String = digest[..4].iter().map(|b| format!("{b:02x}")).collect();
    for (number, line) in (1..).zip(text.lines()).take(LINES) {
        let mut fields = line.split(' ');
        let mut uid = || -> Result<i64> {
            let uid: i64 = fields.next().context("a short line")?.parse()?;
            Ok(uid + SHIFT)
        };
        let (from, to) = (uid()?, uid()?);
        let sent = Sent {
            srcid: from,
            client_msg_id: format!("{file_id}-{number}"),
            msg: String::new(),
        };
        let mid = model.sent(to, sent);
        let (device, mid) = match number % 12 {
            0 | 5 => (DeviceClass::Mobile, mid),
            3 => (DeviceClass::Pc, mid),
            8 => (DeviceClass::Mobile, mid - 2),
            _ => continue,
        };
        if mid > 0 {
            model.read(to, from, device, mid);
            acks += 1;
        }
    }
    Ok((model, acks))
}

async fn check_counts(env: &TestEnv, model: &Model, after: &[InboundPosition]) -> Result<()> {
    stream::iter(model.users())
        .map(|uid| check_user(env, model, uid, after))
        .buffer_unordered(AT_A_TIME)
        .try_for_each(async |()| Ok(()))
        .await
}

async fn check_user(
    env: &TestEnv,
    model: &Model,
    uid: i64,
    after: &[InboundPosition],
) -> Result<()> {
    for device in DeviceClass::ALL {
        let seen = env.client.unread(uid, device, after).await?;
        let expected = model.unread(uid, device);
        ensure!(
            seen == expected,
            "{uid} on {device}: {seen:?}, expected {expected:?}"
        );
    }
    Ok(())
}

/// The longest conversations, message by message.
async fn check_busiest(env: &TestEnv, model: &Model) -> Result<()> {
    let mut pairs: Vec<(i64, i64)> = model.pairs().collect();
    pairs.sort_by_key(|(a, b)| std::cmp::Reverse(model.messages(*a, *b).len()));
    for (a, b) in pairs.into_iter().take(10) {
        let items = env.client.history(a, b, &[]).await?;
        let expected = model.messages(a, b);
        ensure!(
            items.len() == expected.len(),
            "{a} and {b}: {} messages",
            items.len()
        );
        for (item, sent) in items.iter().zip(expected) {
            let sender = item["srcid"].as_str().unwrap_or_default();
            let same =
                item["client_msg_id"] == sent.client_msg_id && sender.parse() == Ok(sent.srcid);
            ensure!(same, "{item}, expected line {}", sent.client_msg_id);
        }
        let mids = items.iter().map(|item| &item["mid"]);
        ensure!(
            mids.eq((1..=items.len())
                .map(Value::from)
                .collect::<Vec<_>>()
                .iter()),
            "{a} and {b}"
        );
    }
    Ok(())
}
