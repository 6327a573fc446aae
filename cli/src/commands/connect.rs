//! A device on the command line: prints what it learns, and sends what it reads.

use std::{io::BufRead as _, time::Instant};

use anyhow::{Context as _, bail, ensure};
use client::{
    device::{Chat, ChatWith, Device, DeviceSettings, DeviceState, Outbox, Update},
    new_client_msg_id,
};
use gateway::GatewayConfig;
use posting::IngestConfig;
use schemas::{DeviceClass, Excerpt, GroupId, Mid, Recipient, UserId};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    args::ConnectArgs,
    client_config,
    context::{CommandContext, REACH_TIMEOUT},
    failure::Failure,
};

/// How many lines may wait for the connection.
const LINES: usize = 16;

/// A line of standard input.
enum Line {
    /// A message.
    Send(Recipient, String),
    /// The user has read everything of a chat.
    Read(Recipient),
    /// The user is typing in a chat.
    Typing(Recipient),
    /// The user looks at a chat.
    Focus(Recipient),
}

/// Runs until standard input has ended and every message is answered; with `--listen`, until it is interrupted.
///
/// # Errors
/// An invalid configuration, no gateway that answers, a gateway that refuses the device, lines that could not be sent, or messages or read-acks that
/// were refused.
pub(super) async fn run(context: &CommandContext, args: &ConnectArgs) -> anyhow::Result<()> {
    let settings = DeviceSettings {
        gateways: vec![gateway_url(context)?],
        device: args.device.clone(),
        class: args.class,
        name: String::new(),
        token: context
            .credentials
            .token()?
            .map(|token| token.expose().to_owned()),
        max_msg_bytes: context
            .source
            .section::<IngestConfig>("ingest")?
            .max_msg_bytes,
    };
    let (state, outbox) = (DeviceState::new(args.uid), Outbox::default());
    let mut device = Device::new(context.client()?, settings, state, outbox)?;
    let mut lines = standard_input();
    let (begun, mut connected, mut is_open) = (Instant::now(), false, true);
    let (mut wrong, mut refused) = (0, 0);
    while is_open || args.listen || !connected || device.outbox().items().len() > 0 {
        tokio::select! {
            update = device.next() => {
                let update = update?;
                match &update {
                    Update::Connected => connected = true,
                    Update::Refused { .. } | Update::ReadRefused { .. } => refused += 1,
                    Update::Disconnected(why) if !connected && begun.elapsed() > REACH_TIMEOUT => {
                        return Err(unreachable(why).into());
                    }
                    _ => {}
                }
                print(&device, args.class, update);
            }
            // A read-ack of a chat is only possible once the chats are known.
            line = lines.recv(), if is_open && connected => match line {
                Some(line) => if let Err(error) = post(&mut device, &line.context("standard input")?) {
                    // A wrong line does not end the session: the user goes on typing.
                    eprintln!("tidemark: {error:#}");
                    wrong += 1;
                },
                None => is_open = false,
            },
        }
    }
    ensure!(wrong == 0, "{wrong} lines were not sent");
    ensure!(refused == 0, "{refused} messages or read-acks were refused");
    Ok(())
}

fn unreachable(why: &str) -> Failure {
    // Only a sync calls the query API.
    let (setting, port) = match why.starts_with("http") {
        true => ("client.query_url", 7302),
        false => ("client.gateway_url", 7308),
    };
    Failure::Unreachable(format!(
        "{why}; {setting} says where it is, such as http://10.0.0.5:{port}; `make up` starts the local stack"
    ))
}

fn gateway_url(context: &CommandContext) -> anyhow::Result<String> {
    let client: client_config::ClientConfig = context.source.section("client")?;
    let gateway: GatewayConfig = context.source.section("gateway")?;
    let http = context.source.section("http")?;
    let base = client_config::base(client.gateway_url.as_deref(), gateway.listen, &http);
    // `http` becomes `ws`, and `https` becomes `wss`.
    Ok(base.replacen("http", "ws", 1))
}

/// Reads in a thread of its own, since a read of a terminal cannot be interrupted.
fn standard_input() -> mpsc::Receiver<std::io::Result<Vec<u8>>> {
    let (sender, lines) = mpsc::channel(LINES);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().split(b'\n') {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn post(device: &mut Device, line: &[u8]) -> anyhow::Result<()> {
    match parse(line)? {
        None => {}
        Some(Line::Send(to, msg)) => device.send(to, new_client_msg_id(), msg)?,
        Some(Line::Read(of)) => {
            let chat = device.state().chats().get(&of);
            let chat = chat.with_context(|| format!("there is no chat with {}", name(of)))?;
            if chat.last_mid > Mid::ZERO {
                device.read(of, chat.last_mid);
            }
        }
        Some(Line::Typing(to)) => device.typing(to),
        Some(Line::Focus(at)) => device.focus(Some(at)),
    }
    Ok(())
}

/// `1001 hello` is a message to a user, `#5000 hello` one to a group; `read 1001` and `read #5000` say that the user has read everything, `typing` in
/// place of `read` that the user is typing, `focus` that the user looks at the chat.
fn parse(line: &[u8]) -> anyhow::Result<Option<Line>> {
    let lossy = String::from_utf8_lossy(line);
    let line = str::from_utf8(line);
    let line = line.with_context(|| format!("{:?}: must be UTF-8", Excerpt(&lossy)))?;
    let line = line.trim();
    if line.is_empty() {
        return Ok(None);
    }
    let Some((first, rest)) = line.split_once(' ') else {
        bail!(
            "{:?}: must be `<uid> <text>`, `#<gid> <text>`, or `read`, `typing` or `focus` with a uid or #gid",
            Excerpt(line)
        );
    };
    Ok(Some(match first {
        "read" => Line::Read(chat_key(rest.trim())?),
        "typing" => Line::Typing(chat_key(rest.trim())?),
        "focus" => Line::Focus(chat_key(rest.trim())?),
        to => Line::Send(chat_key(to)?, rest.to_owned()),
    }))
}

fn chat_key(text: &str) -> anyhow::Result<Recipient> {
    let of = || {
        let text = Excerpt(text);
        format!("{text:?}: must be a user's uid, or # and a group's gid")
    };
    Ok(match text.strip_prefix('#') {
        Some(gid) => Recipient::Group(gid.parse::<GroupId>().with_context(of)?),
        None => Recipient::User(text.parse::<UserId>().with_context(of)?),
    })
}

/// One line of JSON.
fn print(device: &Device, class: DeviceClass, update: Update) {
    let chats = device.state().chats();
    let line = match update {
        Update::Connected => json!({ "connected": true }),
        Update::Disconnected(why) => json!({ "disconnected": why }),
        Update::Synced => {
            let unread = chats.values().filter_map(|chat| chat.unread[class]);
            json!({ "synced": { "chats": chats.len(), "unread": unread.sum::<i64>() } })
        }
        Update::Chat(key) => match chats.get(&key) {
            Some(chat) => shown(key, chat),
            None => json!({ "left": name(key) }),
        },
        Update::Sent(id, mid) => {
            json!({ "sent": { "client_msg_id": id.as_str(), "mid": mid.map(Mid::get) } })
        }
        Update::Refused {
            client_msg_id,
            reason,
            detail,
        } => json!({ "refused": {
            "client_msg_id": client_msg_id.as_str(), "reason": reason, "detail": detail,
        } }),
        Update::ReadRefused {
            of,
            mid,
            reason,
            detail,
        } => json!({ "read_refused": {
            "chat": name(of), "mid": mid.get(), "reason": reason, "detail": detail,
        } }),
        Update::Profile => json!({ "profile": device.state().profile() }),
        Update::Error(detail) => json!({ "error": detail }),
        Update::Typing(chat, from) => json!({ "typing": { "chat": name(chat), "from": from } }),
        Update::Presence(presence) => json!({ "presence": {
            "uid": presence.uid, "online": presence.online, "classes": presence.classes, "last_seen": presence.last_seen,
        } }),
        _ => return,
    };
    println!("{line}");
}

fn shown(key: Recipient, chat: &Chat) -> Value {
    let last = chat.last.as_ref().map(|last| {
        json!({ "mid": last.mid.get(), "srcid": last.srcid, "msg": last.msg, "recalled": last.recalled })
    });
    let mut line = json!({
        "chat": name(key), "last": last, "last_mid": chat.last_mid.get(),
        "unread": { "pc": chat.unread.pc, "mobile": chat.unread.mobile },
    });
    if let ChatWith::Group { name, .. } = &chat.with {
        line["name"] = json!(name);
    }
    line
}

/// The name of a chat, as in a line of standard input.
fn name(key: Recipient) -> String {
    match key {
        Recipient::User(uid) => uid.to_string(),
        Recipient::Group(gid) => format!("#{gid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages_and_reads() {
        let parse_text = |line: &str| parse(line.as_bytes());
        let sent = |line: &str| match parse_text(line).unwrap() {
            Some(Line::Send(to, msg)) => (name(to), msg),
            _ => panic!("{line} is no message"),
        };
        assert_eq!(
            sent("1001 hello there"),
            ("1001".into(), "hello there".into())
        );
        assert_eq!(sent("#5000 read 1"), ("#5000".into(), "read 1".into()));
        assert!(matches!(
            parse_text("read #5000").unwrap(),
            Some(Line::Read(Recipient::Group(_)))
        ));
        assert!(matches!(
            parse_text("typing 1001").unwrap(),
            Some(Line::Typing(Recipient::User(_)))
        ));
        assert!(matches!(
            parse_text("focus #5000").unwrap(),
            Some(Line::Focus(Recipient::Group(_)))
        ));
        assert!(parse_text("  ").unwrap().is_none());
        for wrong in ["hello", "x y", "#x y", "-1 y", "read x", "0 y"] {
            assert!(parse_text(wrong).is_err(), "{wrong}");
        }
        let error = parse(b"1011 \xff").err().unwrap();
        assert!(error.to_string().contains("1011"), "{error}");
    }
}
