//! A thousand messages are recalled while whoever takes their texts away is killed.

use anyhow::{Result, ensure};
use rustix::process::Signal;
use schemas::{
    Change, ChangeGroup, ChangeMessage, CreateGroup, DeviceClass, GroupAction, InboundPosition,
    Mid, Recipient, UserId, command::Command,
};
use serde_json::Value;
use system_tests::{Servers, Settings, TestEnv, new_users, run};

/// In a direct conversation, and as many in a group.
const MESSAGES: i64 = 500;
const LINES: usize = 100;
const VICTIMS: [&str; 2] = ["sequencer", "projector-mysql"];

#[test]
fn a_thousand_recalls_leave_no_text_where_services_die() {
    run(Servers::Own(Settings::default()), async |env| {
        env.until_newest_rules().await?;
        let whenever = ["rules", "set", "--recall-window-ms", "-1"];
        env.tidemark(&whenever).await?.expect(0)?;
        let [author, peer, gid] = new_users();
        let (by, to) = (UserId::try_from(author)?, UserId::try_from(peer)?);
        let create = Command::ChangeGroup(ChangeGroup {
            gid: gid.try_into()?,
            by,
            by_user: false,
            action: GroupAction::Create(CreateGroup {
                name: "secrets".to_owned(),
                members: vec![to],
                open: false,
                whole_history: false,
                client_id: None,
            }),
        });
        env.client.post_events(&[create]).await?;
        let both = [Recipient::User(to), Recipient::Group(gid.try_into()?)];
        let (mut sends, mut recalls) = (Vec::new(), Vec::new());
        for mid in 1..=MESSAGES {
            let mid = Mid::try_from(mid)?;
            for to in both {
                sends.push(Command::Send(client::message_to(by, to, "a secret")));
                recalls.push(Command::ChangeMessage(ChangeMessage {
                    by,
                    to,
                    mid,
                    change: Change::Recall,
                }));
            }
        }
        env.client.post_events(&sends).await?;
        let after = recall_while_services_die(env, &recalls).await?;
        let direct = env.client.history(author, peer, &after).await?;
        let group = env.client.group_history(gid, peer, &after).await?;
        all_are_recalled(&direct)?;
        all_are_recalled(&group)?;
        // What was recalled stays counted.
        let unread = env.client.unread(peer, DeviceClass::Pc, &after).await?;
        ensure!(unread[&author] == MESSAGES, "{unread:?}");
        let groups = env.client.groups(peer, &after).await?;
        ensure!(groups[0]["unread"]["pc"] == MESSAGES, "{groups:?}");
        ensure!(groups[0]["last"]["msg"] == "", "{groups:?}");
        env.audit([author, peer]).await?;
        Ok(())
    });
}

/// Returns the newest positions.
async fn recall_while_services_die(
    env: &TestEnv,
    recalls: &[Command],
) -> Result<Vec<InboundPosition>> {
    let post = async {
        let mut accepted = Vec::new();
        for part in recalls.chunks(LINES) {
            accepted.extend(env.client.post_events(part).await?);
        }
        Ok::<_, anyhow::Error>(InboundPosition::newest(accepted))
    };
    let kill = async {
        for victim in VICTIMS.repeat(2) {
            env.end(victim, Signal::KILL).await?;
            env.start_services(&[victim]).await?;
        }
        Ok::<_, anyhow::Error>(())
    };
    let (newest, ()) = tokio::try_join!(post, kill)?;
    Ok(newest)
}

fn all_are_recalled(items: &[Value]) -> Result<()> {
    ensure!(items.len() as i64 == MESSAGES, "{} items", items.len());
    let left = items
        .iter()
        .find(|item| item["recalled"] != true || item["msg"] != "");
    ensure!(left.is_none(), "{left:?}");
    Ok(())
}
