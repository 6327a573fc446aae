//! What strangers can do to each other in groups (PROTOCOL G7, G12), through every service.

use anyhow::{Context as _, Result, ensure};
use schemas::InboundPosition;
use serde_json::{Value, json};
use system_tests::{Servers, TestEnv, new_users, run};

/// Posts, and returns where it is on the log and `done`, or why it is refused.
async fn decided(env: &TestEnv, path: &str, body: Value) -> Result<(InboundPosition, String)> {
    let answer = env.client.post(path, &body).await?;
    ensure!(answer.status == 202, "{path}: {answer:?}");
    let position = InboundPosition {
        partition: answer.body["partition"]
            .as_i64()
            .context("no partition")?
            .try_into()?,
        offset: answer.body["offset"].as_i64().context("no offset")?,
    };
    let outcome = env.client.outcome(position).await?;
    let reason = outcome["reason"].as_str().unwrap_or("done");
    Ok((position, reason.to_owned()))
}

/// A group that is dissolved with a message in it.
async fn dissolved(env: &TestEnv, gid: i64, owner: i64, member: i64) -> Result<InboundPosition> {
    let changes = format!("/v1/groups/{gid}/changes");
    let group =
        json!({"gid": gid, "owner": owner, "name": "Lunch", "members": [member.to_string()]});
    let insult = json!({"srcid": owner, "gid": gid, "msg": "an insult"});
    let end = json!({"by": owner, "dissolve": true});
    let mut last = None;
    for (path, body) in [
        ("/v1/groups", group),
        ("/v1/messages", insult),
        (&changes, end),
    ] {
        let (position, outcome) = decided(env, path, body).await?;
        ensure!(outcome == "done", "{path}: {outcome}");
        last = Some(position);
    }
    last.context("nothing was posted")
}

#[test]
fn a_dissolved_group_is_cleared_up_and_left() {
    run(Servers::Shared, async |env| {
        let [owner, member] = new_users();
        let gid = owner;
        dissolved(env, gid, owner, member).await?;
        let recall = json!({"by": owner, "gid": gid, "mid": 1, "kind": "recall"});
        let (at, outcome) = decided(env, "/v1/message-changes", recall).await?;
        ensure!(outcome == "done", "recall: {outcome}");
        let seen = env.client.group_history(gid, member, &[at]).await?;
        ensure!(seen[0]["msg"] == "", "it is recalled for all: {seen:?}");

        let clear = json!({"by": member, "gid": gid, "mid": 1, "kind": "clear"});
        let (at, outcome) = decided(env, "/v1/message-changes", clear).await?;
        ensure!(outcome == "done", "clear: {outcome}");
        let seen = env.client.group_history(gid, member, &[at]).await?;
        ensure!(seen.is_empty(), "it is cleared: {seen:?}");

        let listed = env.client.groups(member, &[at]).await?;
        ensure!(listed.len() == 1, "who has not left has it: {listed:?}");
        for who in [member, owner] {
            let leave = json!({"by": who, "leave": true});
            let path = format!("/v1/groups/{gid}/changes");
            let (at, outcome) = decided(env, &path, leave).await?;
            ensure!(outcome == "done", "leave: {outcome}");
            let listed = env.client.groups(who, &[at]).await?;
            ensure!(listed.is_empty(), "who left has it no more: {listed:?}");
        }
        env.audit([owner, member]).await?;
        Ok(())
    });
}

#[test]
fn strangers_hear_one_reason_of_every_group() {
    run(Servers::Shared, async |env| {
        let [owner, member, stranger, never] = new_users();
        dissolved(env, owner, owner, member).await?;
        let there = member;
        let group = json!({"gid": there, "owner": owner, "name": "Tea"});
        decided(env, "/v1/groups", group).await?;
        for gid in [owner, there, never] {
            let changes = format!("/v1/groups/{gid}/changes");
            for (path, body) in [
                (&*changes, json!({"by": stranger, "join": true})),
                (&*changes, json!({"by": stranger, "rename": "x"})),
                (
                    "/v1/messages",
                    json!({"srcid": stranger, "gid": gid, "msg": "x"}),
                ),
                (
                    "/v1/read-acks",
                    json!({"uid": stranger, "gid": gid, "device": "pc"}),
                ),
                (
                    "/v1/message-changes",
                    json!({"by": stranger, "gid": gid, "mid": 1, "kind": "recall"}),
                ),
            ] {
                let (_, reason) = decided(env, path, body.clone()).await?;
                ensure!(reason == "not-a-member", "{gid} {body}: {reason}");
            }
        }
        env.audit([owner, stranger]).await?;
        Ok(())
    });
}
