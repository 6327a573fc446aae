//! A client_msg_id is one message, however often and by however many it is sent.

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use schemas::InboundPosition;
use serde_json::Value;
use system_tests::{Servers, TestEnv, new_users, run};

const POSTS: usize = 1000;

#[test]
fn a_thousand_posts_of_one_id_are_one_message() {
    run(Servers::Shared, async |env| {
        let [from, to] = new_users();
        let posts = (0..POSTS).map(|_| env.client.send(from, to, "the one", "hello"));
        let mut positions: Vec<InboundPosition> = try_join_all(posts).await?;
        positions.sort_by_key(|position| position.offset);
        positions.dedup();
        ensure!(positions.len() == POSTS, "{} positions", positions.len());

        let last = positions[POSTS - 1];
        let items = env.client.history(from, to, &[last]).await?;
        ensure!(items.len() == 1 && items[0]["mid"] == 1, "{items:?}");
        let first = env.client.outcome(positions[0]).await?;
        ensure!(
            first["state"] == "sequenced" && first["mid"] == 1,
            "{first}"
        );
        let outcome = env.client.outcome(last).await?;
        ensure!(
            outcome["state"] == "repeat" && outcome["of_mid"] == 1,
            "{outcome}"
        );
        env.audit([from, to]).await?;
        Ok(())
    });
}

#[test]
fn an_id_with_another_text_is_refused_and_takes_no_mid() {
    run(Servers::Shared, async |env| {
        let [from, to] = new_users();
        env.client.send(from, to, "once", "first").await?;
        let conflict = env.client.send(from, to, "once", "second").await?;
        let outcome = env.client.outcome(conflict).await?;
        ensure!(
            outcome["state"] == "refused" && outcome["reason"] == "conflict",
            "{outcome}"
        );
        is_dead_letter(env, conflict).await?;

        // The other direction is another sender, who may use the same id.
        let back = env.client.send(to, from, "once", "third").await?;
        let items = env.client.history(from, to, &[back]).await?;
        let texts: Vec<&Value> = items.iter().map(|item| &item["msg"]).collect();
        ensure!(texts == ["first", "third"], "{items:?}");
        ensure!(items[1]["mid"] == 2, "{items:?}");
        env.audit([from, to]).await?;
        Ok(())
    });
}

/// `tidemark tail dead-letters --json` shows it with Connect's headers.
async fn is_dead_letter(env: &TestEnv, position: InboundPosition) -> Result<()> {
    let partition = position.partition.to_string();
    let outcome = env
        .tidemark(&[
            "tail",
            "dead-letters",
            "--json",
            "--no-follow",
            "--from",
            "earliest",
            "--partition",
            &partition,
        ])
        .await?
        .expect(0)?;
    let letters = outcome.json_lines()?;
    let offset = position.offset.to_string();
    let letter = letters
        .iter()
        .find(|letter| letter["headers"]["__connect.errors.offset"] == *offset);
    let letter = letter.with_context(|| format!("{position} is not in {}", outcome.stdout))?;
    let headers = &letter["headers"];
    ensure!(headers["tidemark.reason"] == "conflict", "{letter}");
    ensure!(
        headers["__connect.errors.topic"] == "chat.inbound"
            && headers["__connect.errors.partition"] == *partition,
        "{letter}"
    );
    ensure!(
        letter["value"]["sendMessage"]["msg"] == "second",
        "{letter}"
    );
    Ok(())
}
