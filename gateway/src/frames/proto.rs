//! Frames of `tidemark.v1.proto`.

use std::fmt;

use problem::json::Object;
use prost::Message as _;
use schemas::{
    ClientMsgId, GroupChange, GroupId, UserId, device_class,
    event::Body,
    proto::{
        self, RecordPosition, SequencedEvent,
        client_frame::{self, Frame as Client},
        server_frame::{self as server, Frame as Server},
    },
};

use super::{
    ClientFrame, Hello, NoFrame, PresenceBody, ReadFrame, Resume, SendFrame, ServerFrame, Since,
    from_client::{Device, FocusFrame, TYPES, TypingFrame, checked_mid},
    from_server::{EventFrame, listed, omitted},
    values::{At, ShortText},
};

/// Reads a frame.
///
/// # Errors
/// What is wrong, for the developer of the device.
pub(super) fn parse(bytes: &[u8]) -> Result<ClientFrame, NoFrame> {
    let decoded = proto::ClientFrame::decode(bytes);
    let wrong = |error| {
        format!(
            "the frame is no ClientFrame: {error}; must be chat.v1.ClientFrame (JSON is tidemark.v1.json)"
        )
    };
    let frame = decoded.map_err(wrong)?;
    Ok(match frame.frame {
        Some(Client::Hello(hello)) => ClientFrame::Hello(hello_frame(hello)?),
        Some(Client::Resume(resume)) => ClientFrame::Resume(Resume {
            since: resume.since,
        }),
        Some(Client::Send(send)) => {
            let reference = reference(send.r#ref)?;
            let answered = answered(&reference);
            ClientFrame::Send(SendFrame {
                to: id("to", send.to).map_err(&answered)?,
                gid: id("gid", send.gid).map_err(&answered)?,
                client_msg_id: ClientMsgId::try_from(send.client_msg_id)
                    .map_err(|error| answered(of("client_msg_id")(error)))?,
                msg: send.msg,
                reference,
            })
        }
        Some(Client::Read(read)) => {
            let reference = reference(read.r#ref)?;
            let answered = answered(&reference);
            ClientFrame::Read(ReadFrame {
                peer: id("peer", read.peer).map_err(&answered)?,
                gid: id("gid", read.gid).map_err(&answered)?,
                mid: checked_mid(Some(read.mid), &read.mid)
                    .map_err(|wrong| answered(of("mid")(wrong)))?,
                reference,
            })
        }
        Some(Client::Pong(client_frame::Pong {})) => ClientFrame::Pong {},
        Some(Client::Typing(typing)) => ClientFrame::Typing(TypingFrame {
            to: id("to", typing.to)?,
            gid: id("gid", typing.gid)?,
        }),
        Some(Client::Focus(focus)) => ClientFrame::Focus(FocusFrame {
            peer: id("peer", focus.peer)?,
            gid: id("gid", focus.gid)?,
        }),
        None => return Err(format!("type is not known here; must be {TYPES}").into()),
    })
}

/// An empty one is one that is missing.
fn reference(text: String) -> Result<ShortText, String> {
    match text.as_str() {
        "" => Err("ref is missing; must be present".to_owned()),
        _ => text.try_into().map_err(of("ref")),
    }
}

fn hello_frame(hello: client_frame::Hello) -> Result<Hello, String> {
    let device = hello.device.ok_or("device is missing; must be present")?;
    Ok(Hello {
        device: Object(Device {
            id: device.id.try_into().map_err(of("device.id"))?,
            class: device_class(device.class).map_err(|error| of("device.class")(error.problem))?,
            name: device.name.try_into().map_err(of("device.name"))?,
        }),
        since: match hello.since {
            None => Since::Lost,
            Some(since) if since.is_empty() => Since::Nothing,
            Some(since) => Since::Token(since),
        },
    })
}

/// Says which field it is that is wrong.
fn of<E: fmt::Display>(field: &str) -> impl Fn(E) -> String {
    move |wrong| format!("{field} {wrong}")
}

/// A user or a group; 0 stands for none.
fn id<T: TryFrom<i64, Error: fmt::Display>>(field: &str, id: i64) -> Result<Option<T>, String> {
    let id = (id != 0).then(|| T::try_from(id));
    id.transpose().map_err(of(field))
}

/// Says which send or read it is that is wrong.
fn answered(reference: &ShortText) -> impl Fn(String) -> NoFrame + use<> {
    let reference = Some(reference.clone());
    move |detail| NoFrame {
        reference: reference.clone(),
        detail,
    }
}

pub(super) fn encode(frame: &ServerFrame<'_>) -> Vec<u8> {
    let frame = match *frame {
        ServerFrame::Welcome {
            resumed,
            token,
            frames_per_s,
            bytes_per_s,
            ping_seconds,
        } => Server::Welcome(server::Welcome {
            resumed,
            token: token.to_owned(),
            frames_per_s,
            bytes_per_s,
            ping_seconds,
        }),
        ServerFrame::SyncRequired {
            after_ms,
            ping_seconds,
            token,
        } => Server::SyncRequired(server::SyncRequired {
            after_ms,
            token: token.map(str::to_owned),
            ping_seconds,
        }),
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
        ServerFrame::Presence(ref presence) => Server::Presence(presence.into()),
        ServerFrame::Replaced => Server::Replaced(server::Replaced {}),
        ServerFrame::Reconnect { after_ms } => Server::Reconnect(server::Reconnect { after_ms }),
    };
    proto::ServerFrame { frame: Some(frame) }.encode_to_vec()
}

/// The event's own message, as on the log, but for members that a frame leaves out. What the log has besides is not for devices: JSON has none of
/// it, either.
fn event(frame: &EventFrame<'_>) -> server::Event {
    let (body, members_omitted) = match &frame.event.body {
        Body::GroupChange(change) => {
            let shown = GroupChange {
                members: listed(change, frame.named).copied().collect(),
                settings: change.settings.clone(),
                ..**change
            };
            (Body::GroupChange(Box::new(shown)), omitted(change))
        }
        body => (body.clone(), 0),
    };
    server::Event {
        at: Some(frame.at.into()),
        ts_ms: frame.event.ts.0,
        event: Some(SequencedEvent {
            src: None,
            event: Some(body.into()),
            command: None,
            words: None,
        }),
        members_omitted: members_omitted as u32,
    }
}

impl From<&PresenceBody> for server::Presence {
    fn from(presence: &PresenceBody) -> Self {
        let classes = presence.classes.iter();
        Self {
            uid: presence.uid.get(),
            online: presence.online,
            classes: classes
                .map(|class| proto::DeviceClass::from(*class).into())
                .collect(),
            last_seen_ms: presence.last_seen.map(|time| time.0.0),
        }
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
