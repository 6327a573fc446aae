//! Frames of `tidemark.v1.proto`.

use std::fmt;

use prost::Message as _;
use schemas::{
    GroupId, UserId,
    command::device,
    proto::{
        self, RecordPosition, SequencedEvent,
        client_frame::{self, Frame as Client},
        server_frame::{self as server, Frame as Server},
    },
};

use super::{
    ClientFrame, Hello, ReadFrame, SendFrame, ServerFrame,
    from_client::{Device, DeviceName, FocusFrame, TypingFrame},
    from_server::EventFrame,
    values::At,
};

/// Reads a frame.
///
/// # Errors
/// What is wrong, for the developer of the device.
pub(super) fn parse(bytes: &[u8]) -> Result<ClientFrame, String> {
    let decoded = proto::ClientFrame::decode(bytes);
    let frame = decoded.map_err(|error| format!("is not a ClientFrame ({error})"))?;
    Ok(match frame.frame {
        Some(Client::Hello(hello)) => ClientFrame::Hello(hello_frame(hello)?),
        Some(Client::Resume(resume)) => ClientFrame::Resume {
            since: resume.since,
        },
        Some(Client::Send(send)) => ClientFrame::Send(SendFrame {
            reference: send.r#ref,
            to: id("to", send.to)?,
            gid: gid(send.gid),
            client_msg_id: send.client_msg_id,
            msg: send.msg,
        }),
        Some(Client::Read(read)) => ClientFrame::Read(ReadFrame {
            reference: read.r#ref,
            peer: id("peer", read.peer)?,
            gid: gid(read.gid),
            mid: read.mid,
        }),
        Some(Client::Pong(client_frame::Pong {})) => ClientFrame::Pong {},
        Some(Client::Typing(typing)) => ClientFrame::Typing(TypingFrame {
            to: id("to", typing.to)?,
            gid: id("gid", typing.gid)?,
        }),
        Some(Client::Focus(focus)) => ClientFrame::Focus(FocusFrame {
            peer: id("peer", focus.peer)?,
            gid: id("gid", focus.gid)?,
        }),
        None => return Err("none of the frames that this gateway knows".to_owned()),
    })
}

fn hello_frame(hello: client_frame::Hello) -> Result<Hello, String> {
    let of = hello.device.ok_or("device is absent")?;
    let id = of.id.try_into();
    Ok(Hello {
        device: Device {
            id: id.map_err(|error| format!("device.id {error}"))?,
            class: device(of.class).map_err(|error| error.to_string())?,
            name: DeviceName::try_from(of.name)?,
        },
        since: hello
            .since
            .map(|since| Some(since).filter(|since| !since.is_empty())),
    })
}

/// A user or a group; 0 stands for none.
fn id<T: TryFrom<i64, Error: fmt::Display>>(field: &str, id: i64) -> Result<Option<T>, String> {
    let id = (id != 0).then(|| T::try_from(id));
    id.transpose().map_err(|error| format!("{field} {error}"))
}

fn gid(gid: i64) -> Option<String> {
    (gid != 0).then(|| gid.to_string())
}

pub(super) fn encode(frame: &ServerFrame<'_>) -> Vec<u8> {
    let frame = match *frame {
        ServerFrame::Welcome { resumed, token } => Server::Welcome(server::Welcome {
            resumed,
            token: token.to_owned(),
        }),
        ServerFrame::SyncRequired { after_ms, token } => {
            Server::SyncRequired(server::SyncRequired {
                after_ms,
                token: token.map(str::to_owned),
            })
        }
        ServerFrame::Event(ref frame) => Server::Event(event(frame)),
        ServerFrame::Head {
            at,
            until,
            gid,
            mid,
            chg,
            own_mid,
        } => Server::Head(server::Head {
            at: Some(at.into()),
            until: Some(until.into()),
            gid: gid.get(),
            mid,
            chg,
            own_mid,
        }),
        ServerFrame::Ping { token } => Server::Ping(server::Ping {
            token: token.map(str::to_owned),
        }),
        ServerFrame::Accepted { reference, at } => Server::Accepted(server::Accepted {
            r#ref: reference.to_owned(),
            at: Some(at.into()),
        }),
        ServerFrame::Sent { reference, mid, ts } => Server::Sent(server::Sent {
            r#ref: reference.to_owned(),
            mid,
            ts_ms: ts.map(|ts| ts.0.0),
        }),
        ServerFrame::Refused {
            reference,
            reason,
            detail,
            retry,
        } => Server::Refused(server::Refused {
            r#ref: reference.to_owned(),
            reason: reason.to_owned(),
            detail: detail.to_owned(),
            retry,
        }),
        ServerFrame::Error { detail } => Server::Error(server::Error {
            detail: detail.to_owned(),
        }),
        ServerFrame::Typing { from, to, gid } => Server::Typing(server::Typing {
            from: from.get(),
            to: to.map_or(0, UserId::get),
            gid: gid.map_or(0, GroupId::get),
        }),
        ServerFrame::Presence(ref presence) => Server::Presence(server::Presence {
            uid: presence.uid.get(),
            online: presence.online,
            classes: presence
                .classes
                .iter()
                .map(|class| proto::DeviceClass::from(*class).into())
                .collect(),
            last_seen_ms: presence.last_seen.map(|time| time.0.0),
        }),
        ServerFrame::Replaced => Server::Replaced(server::Replaced {}),
        ServerFrame::Reconnect { after_ms } => Server::Reconnect(server::Reconnect { after_ms }),
    };
    proto::ServerFrame { frame: Some(frame) }.encode_to_vec()
}

/// The event's own message, as on the log. What the log has besides is not for devices: JSON has none of it, either.
fn event(frame: &EventFrame<'_>) -> server::Event {
    server::Event {
        at: Some(frame.at.into()),
        ts_ms: frame.event.ts.0,
        event: Some(SequencedEvent {
            src: None,
            event: Some(frame.event.body.clone().into()),
            words: None,
        }),
    }
}

impl From<At> for RecordPosition {
    fn from(At((partition, offset)): At) -> Self {
        Self {
            partition: partition.get().into(),
            offset,
        }
    }
}
