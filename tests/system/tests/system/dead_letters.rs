//! Dead letters are listed, and what can be mended is posted once more, without ever being sequenced twice.

use anyhow::{Context as _, Result, ensure};
use schemas::{
    DeviceClass, DirectConversation, InboundPosition, Mid, Partition, Recipient, UserId,
    command::{Command, ReadAck, SendMessage},
    dead_letter,
    topics::Topic,
};
use serde_json::Value;
use system_tests::{Servers, Settings, TestEnv, new_users, run, until};

#[test]
fn a_redrive_mends_what_it_can_and_doubles_nothing() {
    run(Servers::Shared, async |env| {
        let [from, to] = new_users();
        let elsewhere = wrong_partition(from, to)?;
        let stray = env
            .events
            .append_inbound(elsewhere, &message(from, to)?, &forged())
            .await?;
        let junk = env.events.append_inbound(elsewhere, b"junk", &[]).await?;
        env.client.send(from, to, "taken", "one").await?;
        let conflict = env.client.send(from, to, "taken", "another").await?;
        for (position, reason) in [
            (stray, "wrong-partition"),
            (junk, "malformed"),
            (conflict, "conflict"),
        ] {
            is_listed(env, position, reason).await?;
        }

        let planned = redrive(env, stray, &["--dry-run"]).await?;
        ensure!(planned["redrive"]["fate"] == "would_post", "{planned}");
        let items = env.client.history(from, to, &[conflict]).await?;
        ensure!(items.len() == 1, "a dry run sent something: {items:?}");

        let mended = redrive(env, stray, &[]).await?;
        let outcome = &mended["redrive"]["outcome"];
        ensure!(
            outcome["state"] == "sequenced" && outcome["mid"] == 2,
            "{mended}"
        );
        let again = redrive(env, stray, &[]).await?;
        ensure!(again["redrive"]["fate"] == "already_sequenced", "{again}");
        for hopeless in [junk, conflict] {
            let left = redrive(env, hopeless, &[]).await?;
            ensure!(left["redrive"]["fate"] == "left", "{left}");
        }
        let items = env.client.history(from, to, &[conflict]).await?;
        let texts: Vec<&Value> = items.iter().map(|item| &item["msg"]).collect();
        ensure!(texts == ["one", "stray"], "{items:?}");
        env.audit([from, to]).await?;
        Ok(())
    });
}

/// As a sequencer would that refuses what it should not.
#[test]
fn a_dead_letter_without_a_reason_is_a_difference() {
    run(Servers::Own(Settings::default()), async |env| {
        let [from, to] = new_users();
        let right = DirectConversation::new(user(from)?, user(to)?).partition();
        let value = message(from, to)?;
        env.events.append_inbound(right, &value, &[]).await?;
        let answer = message(to, from)?;
        env.events.append_inbound(right, &answer, &[]).await?;
        let repeat = env.events.append_inbound(right, &value, &[]).await?;
        env.client.history(from, to, &[repeat]).await?;
        env.audit([from, to]).await?;
        env.events
            .append_dead_letter(repeat, &value, dead_letter::Reason::TooLarge)
            .await?;
        let audited = env.tidemark(&["audit"]).await?.expect(1)?;
        let what =
            format!("refused (too-large) without a reason in the log [chat.inbound {repeat}]");
        ensure!(audited.stdout.contains(&what), "{}", audited.stdout);
        Ok(())
    });
}

/// Where the beginning of `chat.events` is gone, so is what would tell whether a letter's message is sequenced.
#[test]
fn what_the_log_cannot_speak_of_is_left() {
    run(Servers::Own(Settings::default()), async |env| {
        let [from, to] = new_users();
        let first = env.client.send(from, to, "first", "first").await?;
        env.client.history(from, to, &[first]).await?;
        let stray = env
            .events
            .append_inbound(wrong_partition(from, to)?, &message(from, to)?, &[])
            .await?;
        is_listed(env, stray, "wrong-partition").await?;
        env.events
            .delete_all_of(Topic::Events, first.partition)
            .await?;
        let left = redrive(env, stray, &[]).await?;
        let why = left["redrive"]["why"].as_str().unwrap_or_default();
        ensure!(left["redrive"]["fate"] == "left", "{left}");
        ensure!(why.contains("may be sequenced already"), "{left}");
        Ok(())
    });
}

/// Above the last message, a read position means that one: the last of its own time, not of the time when it is posted again.
#[test]
fn a_redriven_read_position_takes_in_no_message_since() {
    run(Servers::Shared, async |env| {
        let [from, to] = new_users();
        let send = async |id: &str| env.client.send(from, to, id, id).await;
        let first = send("1").await?;
        env.client.history(from, to, &[first]).await?;
        let elsewhere = wrong_partition(from, to)?;
        let stray = async |mid| {
            let ack = read_ack(to, from, mid)?;
            let at = env.events.append_inbound(elsewhere, &ack, &[]).await?;
            is_listed(env, at, "wrong-partition").await?;
            anyhow::Ok(at)
        };
        let (right, beyond) = (stray(1).await?, stray(3).await?);
        send("2").await?;
        let third = send("3").await?;
        env.client.history(from, to, &[third]).await?;

        let moved = redrive(env, right, &[]).await?;
        let outcome = &moved["redrive"]["outcome"];
        ensure!(outcome["state"] == "read_position_moved", "{moved}");
        let left = redrive(env, beyond, &[]).await?;
        ensure!(left["redrive"]["fate"] == "left", "{left}");
        let fourth = send("4").await?;
        let unread = env.client.unread(to, DeviceClass::Pc, &[fourth]).await?;
        ensure!(
            unread.get(&from) == Some(&3),
            "{unread:?}: the last three came later"
        );
        env.audit([from, to]).await?;
        Ok(())
    });
}

#[test]
fn what_is_not_there_is_said() {
    run(Servers::Shared, async |env| {
        let absent = env.tidemark(&["dlq", "show", "1:999999"]).await?;
        let absent = absent.expect(1)?;
        ensure!(absent.stderr.contains("no dead letter at 1:999999"));
        for wrong in [
            ["--partition", "64"],
            ["--reason", "boring"],
            ["--since", "noon"],
        ] {
            let mut args = vec!["dlq", "list"];
            args.extend(wrong);
            env.tidemark(&args).await?.expect(2)?;
        }
        Ok(())
    });
}

fn user(uid: i64) -> Result<UserId> {
    Ok(uid.try_into()?)
}

/// Where the conversation does not belong.
fn wrong_partition(from: i64, to: i64) -> Result<Partition> {
    let right = DirectConversation::new(user(from)?, user(to)?).partition();
    let other = Partition::all().find(|partition| *partition != right);
    other.context("there are 64")
}

fn message(from: i64, to: i64) -> Result<Vec<u8>> {
    let send = SendMessage {
        by_user: false,
        srcid: user(from)?,
        to: Recipient::User(user(to)?),
        client_msg_id: "stray".to_owned().try_into()?,
        msg: "stray".to_owned(),
    };
    Ok(Command::Send(send).encode())
}

fn read_ack(uid: i64, peer: i64, mid: i64) -> Result<Vec<u8>> {
    let ack = ReadAck {
        uid: user(uid)?,
        to: Recipient::User(user(peer)?),
        device: DeviceClass::Pc,
        mid: Some(Mid::try_from(mid)?),
    };
    Ok(Command::ReadAck(ack).encode())
}

/// Headers that say what only a dead letter may say.
fn forged() -> [dead_letter::Header; 2] {
    [dead_letter::HEADER_OFFSET, dead_letter::HEADER_REASON]
        .map(|name| (name.to_owned(), Some(b"7".to_vec())))
}

async fn is_listed(env: &TestEnv, original: InboundPosition, reason: &str) -> Result<()> {
    let listed = async || {
        let args = ["dlq", "list", "--reason", reason];
        let letters = letters(env, original, &args).await;
        match letters.map_err(|error| format!("{error:#}"))?.len() {
            1 => Ok(()),
            number => Err(format!("{number} letters")),
        }
    };
    until(&format!("the {reason} letter of {original}"), listed).await
}

/// What a redrive of all letters of the original's partition says of this one.
async fn redrive(env: &TestEnv, original: InboundPosition, more: &[&str]) -> Result<Value> {
    let mut args = vec!["dlq", "redrive"];
    args.extend(more);
    let mut said = letters(env, original, &args).await?;
    ensure!(said.len() == 1, "{said:?}");
    said.pop().context("there is one")
}

async fn letters(env: &TestEnv, original: InboundPosition, args: &[&str]) -> Result<Vec<Value>> {
    let partition = original.partition.to_string();
    let mut args = args.to_vec();
    args.extend(["--json", "--topic", "inbound", "--partition", &partition]);
    let mut all = env.tidemark(&args).await?.expect(0)?.json_lines()?;
    all.retain(|letter| letter["original"]["offset"] == original.offset);
    Ok(all)
}
