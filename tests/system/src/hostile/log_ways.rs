//! Ways that fill the log: groups, changes and messages.

use std::{
    iter::{self, repeat},
    time::Duration,
};

use anyhow::{Result, bail, ensure};
use futures::future::{try_join, try_join_all};
use serde_json::{Value, json};
use tokio::time::{interval, sleep};

use super::{
    account::{Account, Stage},
    http_ways::call_at_once,
};
use crate::new_users;

/// The rate at which `auth.user_limits` lets a user post.
const POST_EVERY: Duration = Duration::from_millis(20);

/// Posts one body after the other at the rate that a user has, whatever the answers.
async fn post_each(
    account: &Account,
    path: &str,
    bodies: impl Iterator<Item = Value>,
) -> Result<()> {
    let mut tick = interval(POST_EVERY);
    for body in bodies {
        tick.tick().await;
        account.post(path, &body).await?;
    }
    Ok(())
}

/// Creates a group of an account with these members, and returns its gid. Waits if the account is above its rate.
pub(super) async fn group_of(
    account: &Account,
    client_id: &str,
    members: &[i64],
) -> Result<String> {
    let members: Vec<String> = members.iter().map(i64::to_string).collect();
    let body = json!({ "owner": account.uid.to_string(), "client_id": client_id, "name": client_id, "members": members });
    loop {
        let (status, answer) = account.post("/v1/groups", &body).await?;
        match (
            status,
            answer["retry_after_s"].as_u64(),
            answer["gid"].as_str(),
        ) {
            (202, _, Some(gid)) => return Ok(gid.to_owned()),
            (429, Some(wait), _) => sleep(Duration::from_secs(wait)).await,
            _ => bail!("a group is answered {status}: {answer}"),
        }
    }
}

pub(super) async fn hides(stage: Stage, accounts: Vec<Account>) -> Result<()> {
    let [account, peer] = &accounts[..] else {
        unreachable!("two accounts hide")
    };
    let (me, other) = (account.uid.to_string(), peer.uid.to_string());
    let message = json!({ "srcid": me, "destid": other, "msg": "to be hidden" });
    account.post("/v1/messages", &message).await?;
    let hide = json!({ "by": me, "peer": other, "mid": 1, "kind": "hide" });
    let hiding = post_each(account, "/v1/message-changes", repeat(hide));
    let path = format!("/v1/users/{other}/conversations/{me}/changes?after_chg=0");
    let reading = call_at_once(peer, stage.query, &path);
    try_join(hiding, reading).await?;
    Ok(())
}

pub(super) async fn members(_: Stage, accounts: Vec<Account>) -> Result<()> {
    let gid = group_of(&accounts[0], "members", &[]).await?;
    change_members(&accounts[0], &gid, &new_users::<1_000>(), false).await
}

/// Repeatedly adds users to a group and removes them, and renames the group after each if `renames`.
pub(super) async fn change_members(
    account: &Account,
    gid: &str,
    named: &[i64],
    renames: bool,
) -> Result<()> {
    let named: Vec<String> = named.iter().map(i64::to_string).collect();
    let by = account.uid.to_string();
    let rename = renames.then(|| json!({ "by": by, "rename": "another name" }));
    let changes = ["add", "remove"].map(|kind| json!({ "by": by, kind: named }));
    let changes = changes
        .into_iter()
        .flat_map(|change| iter::once(change).chain(rename.clone()));
    let changes: Vec<Value> = changes.collect();
    let path = format!("/v1/groups/{gid}/changes");
    post_each(account, &path, changes.into_iter().cycle()).await
}

/// Sends five messages a second.
pub(super) async fn write_to_group(account: &Account, gid: &str) -> Result<()> {
    let mut tick = interval(10 * POST_EVERY);
    loop {
        tick.tick().await;
        let message = json!({ "srcid": account.uid.to_string(), "gid": gid, "msg": "busy" });
        account.post("/v1/messages", &message).await?;
    }
}

pub(super) async fn memberships(stage: Stage, accounts: Vec<Account>) -> Result<()> {
    let groups = |account: Account| {
        let stage = stage.clone();
        async move {
            let members = [stage.friend, stage.measuring].map(|uid| uid.to_string());
            let group = |number: u32| json!({ "owner": account.uid.to_string(), "client_id": format!("{number}"), "name": "Lunch", "members": members });
            post_each(&account, "/v1/groups", (0..).map(group)).await
        }
    };
    try_join_all(accounts.into_iter().map(groups)).await?;
    Ok(())
}

/// Sends repeatedly to the same user, with an id that belongs to another message.
pub(super) async fn dead_letters(stage: Stage, accounts: Vec<Account>) -> Result<()> {
    let conflicts = |account: Account| {
        let friend = stage.friend.to_string();
        async move {
            let text = |number: u32| format!("{number:0>16000}");
            let message = |number| json!({ "srcid": account.uid.to_string(), "destid": friend, "client_msg_id": "same", "msg": text(number) });
            post_each(&account, "/v1/messages", (0..).map(message)).await
        }
    };
    try_join_all(accounts.into_iter().map(conflicts)).await?;
    Ok(())
}

/// Each account asks, 16 times at once, for the outcome of a repeated recall. The answer has to be searched for among the dead letters of the
/// recall's partition, of which the account makes as many as it may.
pub(super) async fn look_ups(stage: Stage, accounts: Vec<Account>) -> Result<()> {
    let asking = |account: Account| {
        let stage = stage.clone();
        async move {
            let [to] = new_users();
            let (me, to) = (account.uid.to_string(), to.to_string());
            let message = |number: u32| json!({ "srcid": me, "destid": to, "client_msg_id": "same", "msg": number.to_string() });
            account.post("/v1/messages", &message(0)).await?;
            let recall = json!({ "by": me, "peer": to, "mid": 1, "kind": "recall" });
            account.post("/v1/message-changes", &recall).await?;
            let (status, again) = account.post("/v1/message-changes", &recall).await?;
            ensure!(status == 202, "{status}: {again}");
            let path = format!("/v1/inbound/{}/{}", again["partition"], again["offset"]);
            let refused = post_each(&account, "/v1/messages", (1..).map(message));
            try_join(refused, call_at_once(&account, stage.query, &path)).await
        }
    };
    try_join_all(accounts.into_iter().map(asking)).await?;
    Ok(())
}

/// Each account writes to a user who has no other traffic, `bytes` at a time.
pub(super) async fn messages(accounts: Vec<Account>, bytes: usize) -> Result<()> {
    let messages = |account: Account| async move {
        let [to] = new_users();
        let text = "x".repeat(bytes);
        let message =
            json!({ "srcid": account.uid.to_string(), "destid": to.to_string(), "msg": text });
        post_each(&account, "/v1/messages", repeat(message)).await
    };
    try_join_all(accounts.into_iter().map(messages)).await?;
    Ok(())
}

/// Creates `count` groups of an account with these members.
pub(super) async fn groups_of(account: &Account, count: usize, members: &[i64]) -> Result<()> {
    for number in 0..count {
        group_of(account, &format!("{number}"), members).await?;
    }
    Ok(())
}
