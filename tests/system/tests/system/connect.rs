//! `tidemark connect`: what it does with the lines that it reads, and its exit codes.

use std::net::TcpListener;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use system_tests::{CommandOutput, DeviceClass, Servers, TestEnv, new_users, run, until};

async fn connect(
    env: &TestEnv,
    uid: i64,
    more: &[&str],
    input: &str,
    code: i32,
) -> Result<CommandOutput> {
    let uid = uid.to_string();
    let args = [&["connect", &uid], more].concat();
    env.tidemark_reads(&args, input).await?.expect(code)
}

/// What a line of the output with this member has there.
fn printed(output: &CommandOutput, member: &str) -> Result<Value> {
    let lines = output.json_lines()?;
    let found = lines.iter().find_map(|line| line.get(member));
    Ok(found.with_context(|| output.said())?.clone())
}

#[test]
fn a_read_line_says_that_everything_of_a_chat_is_read() {
    run(Servers::Shared, async |env| {
        let [me, boss] = new_users();
        for id in ["1", "2"] {
            let sent = env.client.send(boss, me, id, "Call me.").await?;
            env.client.conversations(me, &[sent]).await?;
        }
        let line = format!("read {boss}\n");
        let output = connect(env, me, &["--class", "mobile"], &line, 0).await?;
        ensure!(printed(&output, "synced")?["unread"] == 2, "{output:?}");
        ensure!(printed(&output, "connected")? == true, "{output:?}");
        let unread = async |class| env.client.unread(me, class, &[]).await;
        until("it is read", async || {
            let left = unread(DeviceClass::Mobile).await;
            let left = left.map_err(|error| error.to_string())?;
            left.is_empty().then_some(()).ok_or(format!("{left:?}"))
        })
        .await?;
        let other = unread(DeviceClass::Pc).await?;
        ensure!(other.get(&boss) == Some(&2), "{other:?}");
        Ok(())
    });
}

#[test]
fn a_line_that_cannot_be_sent_or_is_refused_is_exit_code_1() {
    run(Servers::Shared, async |env| {
        let [me, peer, stranger] = new_users();
        let read = format!("read {stranger}\n{peer} goes out all the same\n");
        let output = connect(env, me, &[], &read, 1).await?;
        let named = format!("there is no chat with {stranger}");
        ensure!(output.stderr.contains(&named), "{output:?}");
        ensure!(printed(&output, "sent")?["mid"] == 1, "{output:?}");
        let output = connect(env, me, &[], "read\n", 1).await?;
        ensure!(output.stderr.contains("`read`"), "{output:?}");
        let output = connect(env, me, &[], "#424242424242 hello\n", 1).await?;
        let refused = printed(&output, "refused")?;
        ensure!(refused["reason"] == "not-a-member", "{output:?}");
        Ok(())
    });
}

#[test]
fn exit_codes_say_what_is_wrong() {
    run(Servers::Shared, async |env| {
        let [me] = new_users();
        connect(env, 0, &[], "", 2).await?;
        connect(env, me, &["--class", "tv"], "", 2).await?;
        let wrong = ["--set", "client.gateway_url=here"];
        connect(env, me, &wrong, "", 3).await?;
        let nobody = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let elsewhere = format!("client.gateway_url=http://{nobody}");
        let output = connect(env, me, &["--set", &elsewhere], "", 4).await?;
        let named = output
            .stderr
            .contains("client.gateway_url says where it is");
        ensure!(named && output.stderr.contains("7308"), "{output:?}");
        Ok(())
    });
}
