//! Records that no service of ours would write, on every topic, in the partition of a conversation that goes on.

use anyhow::{Result, ensure};
use rustix::process::Signal;
use schemas::{DirectConversation, Partition, topics::Topic};
use serde_json::Value;
use system_tests::{SERVICES, Servers, Settings, TestEnv, new_users, poison, run, until};

use crate::history::expect_texts;

#[test]
fn no_poison_stops_its_partition() {
    run(Servers::Own(Settings::default()), async |env| {
        let [from, to] = new_users();
        let uids = [from.try_into()?, to.try_into()?];
        let partition = DirectConversation::new(uids[0], uids[1]).partition();
        env.client.send(from, to, "before", "before").await?;

        let commands = poison::commands(from, to);
        for (value, _) in &commands {
            env.events.append_inbound(partition, value, &[]).await?;
        }
        let behind = env.client.send(from, to, "behind", "behind").await?;
        expect_texts_and_counts(env, [from, to], behind, &["before", "behind"]).await?;
        let reasons: Vec<&str> = commands.iter().map(|(_, reason)| *reason).collect();
        are_dead_letters(env, "inbound", partition, &reasons).await?;

        let events = poison::events(from, to)?;
        for (value, _) in &events {
            env.events
                .append_raw(Topic::Events, partition, value)
                .await?;
        }
        for value in poison::JUNK {
            env.events
                .append_raw(Topic::Snapshots, partition, value)
                .await?;
            env.events
                .append_raw(Topic::DeadLetters, partition, value)
                .await?;
        }
        let last = env.client.send(from, to, "last", "last").await?;
        expect_texts_and_counts(env, [from, to], last, &["before", "behind", "last"]).await?;
        let reasons: Vec<&str> = events.iter().map(|(_, reason)| *reason).collect();
        are_dead_letters(env, "events", partition, &reasons).await?;

        for service in SERVICES {
            env.end(service, Signal::KILL).await?;
        }
        env.start_services(&SERVICES).await?;
        let restarted = env.client.send(to, from, "restarted", "restarted").await?;
        expect_texts_and_counts(
            env,
            [from, to],
            restarted,
            &["before", "behind", "last", "restarted"],
        )
        .await?;
        env.audit([from, to]).await?;
        Ok(())
    });
}

/// The conversation holds these texts, and those that were sent are unread.
async fn expect_texts_and_counts(
    env: &TestEnv,
    [from, to]: [i64; 2],
    after: schemas::InboundPosition,
    texts: &[&str],
) -> Result<()> {
    expect_texts(env, [from, to], after, texts).await?;
    let unread = env
        .client
        .unread(to, system_tests::DeviceClass::Pc, &[after])
        .await?;
    let sent: i64 = texts
        .iter()
        .map(|text| i64::from(*text != "restarted"))
        .sum();
    ensure!(unread.get(&from).copied() == Some(sent), "{unread:?}");
    Ok(())
}

/// Waits until every original of the partition has its letter.
async fn are_dead_letters(
    env: &TestEnv,
    topic: &str,
    partition: Partition,
    reasons: &[&str],
) -> Result<()> {
    let partition = partition.to_string();
    let listed = async || {
        let args = [
            "dlq",
            "list",
            "--json",
            "--topic",
            topic,
            "--partition",
            &partition,
        ];
        let listed = env.tidemark(&args).await;
        let letters = listed.and_then(|outcome| outcome.expect(0)?.json_lines());
        let mut letters = letters.map_err(|error| format!("{error:#}"))?;
        letters.sort_by_key(|letter| letter["original"]["offset"].as_i64());
        let found: Vec<&Value> = letters.iter().map(|letter| &letter["reason"]).collect();
        if found == reasons {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    };
    until(&format!("the dead letters of {topic}"), listed).await
}
