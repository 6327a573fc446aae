//! Records that no service of ours would write, on every topic, in the partition of a conversation that goes on.

use anyhow::{Result, ensure};
use prost::Message as _;
use rustix::process::Signal;
use schemas::{
    ConversationId, Mid, Ordinal, Partition, TimestampMs,
    event::{Body, Event, Message, Source, SrcMark},
    proto::{Control, DeviceClass, InboundCommand, ReadAck, SendMessage, inbound_command::Command},
    topics::Topic,
};
use serde_json::Value;
use system_tests::{SERVICES, Servers, Settings, World, new_users, run, until};

#[test]
fn no_poison_stops_its_partition() {
    run(Servers::Own(Settings::default()), async |world| {
        let [from, to] = new_users();
        let uids = [from.try_into()?, to.try_into()?];
        let partition = Partition::of(ConversationId::direct(uids[0], uids[1]));
        world.client.send(from, to, "before", "before").await?;

        let commands = poisoned_commands(from, to);
        for (value, _) in &commands {
            world.events.append_inbound(partition, value, &[]).await?;
        }
        let behind = world.client.send(from, to, "behind", "behind").await?;
        told(world, [from, to], behind, &["before", "behind"]).await?;
        let reasons: Vec<&str> = commands.iter().map(|(_, reason)| *reason).collect();
        are_dead_letters(world, "inbound", partition, &reasons).await?;

        let events = poisoned_events(from, to, partition)?;
        for (value, _) in &events {
            world
                .events
                .append_raw(Topic::Events, partition, value)
                .await?;
        }
        for value in [b"".as_slice(), b"junk", &[0xff; 1_000]] {
            world
                .events
                .append_raw(Topic::Snapshots, partition, value)
                .await?;
            world
                .events
                .append_raw(Topic::DeadLetters, partition, value)
                .await?;
        }
        let last = world.client.send(from, to, "last", "last").await?;
        told(world, [from, to], last, &["before", "behind", "last"]).await?;
        let reasons: Vec<&str> = events.iter().map(|(_, reason)| *reason).collect();
        are_dead_letters(world, "events", partition, &reasons).await?;

        for service in SERVICES {
            world.end(service, Signal::KILL).await?;
        }
        world.start_services(&SERVICES).await?;
        let anew = world.client.send(to, from, "anew", "anew").await?;
        told(
            world,
            [from, to],
            anew,
            &["before", "behind", "last", "anew"],
        )
        .await?;
        world.audit([from, to]).await?;
        Ok(())
    });
}

/// Values for `chat.inbound`, and why each is refused.
fn poisoned_commands(from: i64, to: i64) -> Vec<(Vec<u8>, &'static str)> {
    let send = |change: fn(&mut SendMessage)| {
        let mut send = SendMessage {
            srcid: from,
            destid: to,
            client_msg_id: "poison".to_owned(),
            msg: "poison".to_owned(),
        };
        change(&mut send);
        encoded(Command::SendMessage(send))
    };
    let ack = |change: fn(&mut ReadAck)| {
        let mut ack = ReadAck {
            uid: to,
            peer: from,
            device: DeviceClass::Pc.into(),
            mid: Some(1),
        };
        change(&mut ack);
        encoded(Command::ReadAck(ack))
    };
    let whole = send(|_| ());
    let text = whole.windows(6).rposition(|bytes| bytes == b"poison");
    let mut no_utf8 = whole.clone();
    no_utf8[text.unwrap_or_default()] = 0xff;
    let endless = Control {
        dedup_window_ms: Some(i64::MAX),
        ..Control::default()
    };
    let malformed = [
        b"junk".to_vec(),
        Vec::new(),
        whole[..whole.len() - 1].to_vec(),
        no_utf8,
        send(|send| send.srcid = 0),
        send(|send| send.destid = i64::MIN),
        send(|send| send.msg.clear()),
        send(|send| send.msg.push('\0')),
        send(|send| send.client_msg_id.clear()),
        send(|send| send.client_msg_id.push('\n')),
        ack(|ack| ack.device = 7),
        ack(|ack| ack.mid = Some(0)),
    ];
    let others = [
        (send(|send| send.msg = "x".repeat(90_000)), "too-large"),
        (send(|send| send.destid += 1), "wrong-partition"),
        (ack(|ack| ack.peer += 1), "wrong-partition"),
        (encoded(Command::Control(endless)), "invalid-control"),
    ];
    let malformed = malformed.into_iter().map(|value| (value, "malformed"));
    malformed.chain(others).collect()
}

fn encoded(command: Command) -> Vec<u8> {
    let command = Some(command);
    InboundCommand { command }.encode_to_vec()
}

/// Values for `chat.events`, and why each is passed over.
fn poisoned_events(
    from: i64,
    to: i64,
    partition: Partition,
) -> Result<Vec<(Vec<u8>, &'static str)>> {
    let message = Message {
        srcid: from.try_into()?,
        destid: (to + 1).try_into()?,
        client_msg_id: "elsewhere".to_owned().try_into()?,
        msg: "elsewhere".to_owned(),
        mid: Mid::ZERO.next(),
        n: Ordinal::ZERO.next(),
    };
    ensure!(Partition::of(message.conversation()) != partition);
    let src = Source {
        mark: SrcMark {
            epoch: 0,
            offset: 1_000_000,
        },
        leader_epoch: 0,
    };
    let elsewhere = Event {
        src,
        ts: TimestampMs(1),
        body: Body::Message(message),
    };
    let whole = elsewhere.encode();
    Ok(vec![
        (b"junk".to_vec(), "malformed"),
        (Vec::new(), "malformed"),
        (whole[..whole.len() - 1].to_vec(), "malformed"),
        (vec![0xff; 50_000], "malformed"),
        (whole, "wrong-partition"),
    ])
}

/// Waits until the history has these texts, no earlier than `after`.
async fn told(
    world: &World,
    [from, to]: [i64; 2],
    after: schemas::InboundPosition,
    texts: &[&str],
) -> Result<()> {
    let items = world.client.history(from, to, &[after]).await?;
    let found: Vec<&Value> = items.iter().map(|item| &item["msg"]).collect();
    ensure!(found == texts, "{items:?}");
    let mids: Vec<i64> = items
        .iter()
        .filter_map(|item| item["mid"].as_i64())
        .collect();
    ensure!(
        mids == (1..).take(texts.len()).collect::<Vec<i64>>(),
        "{items:?}"
    );
    let unread = world
        .client
        .unread(to, system_tests::Device::Pc, &[after])
        .await?;
    let sent: i64 = texts.iter().map(|text| i64::from(*text != "anew")).sum();
    ensure!(unread.get(&from).copied() == Some(sent), "{unread:?}");
    Ok(())
}

/// Waits until every original of the partition has its letter.
async fn are_dead_letters(
    world: &World,
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
        let listed = world.tidemark(&args).await;
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
