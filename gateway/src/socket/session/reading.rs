//! What the device sends.

use std::{sync::Arc, time::Duration};

use api::{ClientFrame, Resume, ServerFrame, ShortText};
use axum::extract::ws::Message;
use schemas::Recipient;
use tokio::time::Instant;

use super::{Posting, Session};
use crate::{
    frames::{self, NoFrame},
    rates::TooMuch,
    socket::{
        Peer,
        close_code::{CloseCode, Ended},
        posting,
    },
    state::Gateway,
};

/// How many texts that are not frames a device may send in a minute; another one closes the connection.
const MAX_COMPLAINTS: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// How often typing on one connection is passed on.
const TYPING_INTERVAL: Duration = Duration::from_secs(1);

/// Texts that were not frames, in the minute that began with the first of them.
#[derive(Default)]
pub(super) struct Complaints {
    count: usize,
    until: Option<Instant>,
}

impl Complaints {
    /// Counts another one; whether that is too much.
    fn add(&mut self, now: Instant) -> bool {
        if self.until.is_none_or(|until| now >= until) {
            (self.count, self.until) = (0, Some(now + MINUTE));
        }
        self.count += 1;
        self.count > MAX_COMPLAINTS
    }
}

impl<'a> Session<'a> {
    pub(super) async fn take(
        &mut self,
        message: Message,
        posting: &mut Posting<'a>,
    ) -> Result<(), Ended> {
        charge(self.gateway, self.peer, &message)?;
        let text = match message {
            Message::Close(_) => return Err(None),
            // axum answers pings by itself.
            Message::Ping(_) | Message::Pong(_) => return Ok(()),
            Message::Binary(_) => return Err(Some(CloseCode::WrongKind.into())),
            Message::Text(text) => text,
        };
        let (gateway, peer, connection) =
            (&**self.gateway, self.peer, Arc::clone(&self.connection));
        match frames::parse(&text) {
            Ok(ClientFrame::Pong {}) => {
                if let Some(token) = self.liveness.pong() {
                    self.handled(token);
                }
            }
            Ok(ClientFrame::Resume(Resume { since }))
                if !self.is_streaming && self.beginning.is_none() =>
            {
                return Box::pin(self.resume(since)).await;
            }
            Ok(ClientFrame::Hello(_) | ClientFrame::Resume(_)) => {
                let detail = "hello comes first and once, resume after sync_required";
                return self.complain(detail.to_owned()).await;
            }
            Ok(ClientFrame::Send(frame)) => {
                let sending = async move { posting::send(gateway, peer, &connection, frame).await };
                *posting = Some(Box::pin(sending));
            }
            Ok(ClientFrame::Read(frame)) => {
                let reading = async move { posting::read(gateway, peer, &connection, frame).await };
                *posting = Some(Box::pin(reading));
            }
            Ok(ClientFrame::Typing(_)) if self.peer.is_reader => {
                let detail = "typing is of the user: a service types with the scope send:any";
                return self.complain(detail.to_owned()).await;
            }
            Ok(ClientFrame::Typing(frame)) => match frame.recipient() {
                Ok(to) => self.type_to(to),
                Err(wrong) => return self.complain(posting::said(&wrong)).await,
            },
            Ok(ClientFrame::Focus(frame)) => match frame.at() {
                Ok(at) => self.gateway.presence.set_focus(&connection, at),
                Err(wrong) => return self.complain(posting::said(&wrong)).await,
            },
            Err(NoFrame { reference, detail }) => match reference {
                Some(ShortText(reference)) => {
                    let refused = posting::invalid(&reference, &detail);
                    return self.write_frame(&refused).await;
                }
                None => return self.complain(detail).await,
            },
        }
        Ok(())
    }

    /// Nobody types in two places at once: what comes too soon says nothing new.
    fn type_to(&mut self, to: Recipient) {
        let now = Instant::now();
        let is_soon = |at: Instant| now < at + TYPING_INTERVAL;
        if !self.typed_at.is_some_and(is_soon) {
            self.typed_at = Some(now);
            let hub = self.gateway.hub();
            self.gateway.typing.publish(&hub, self.peer.uid, to);
        }
    }

    pub(super) async fn complain(&mut self, detail: String) -> Result<(), Ended> {
        if self.complaints.add(Instant::now()) {
            return Err(Some(CloseCode::Malformed.because(detail)));
        }
        let detail = detail.into();
        self.write_frame(&ServerFrame::Error { detail }).await
    }
}

/// Counts a frame, whatever it is.
pub(super) fn charge(gateway: &Gateway, peer: &Peer, message: &Message) -> Result<(), Ended> {
    let bytes = match message {
        Message::Text(text) => text.len(),
        Message::Binary(bytes) | Message::Ping(bytes) | Message::Pong(bytes) => bytes.len(),
        Message::Close(_) => return Ok(()),
    };
    let by = (peer.uid, peer.is_reader);
    let charged = gateway.rates.charge(by, bytes, gateway.now_us());
    charged.map_err(|too_much| Some(code_of(too_much).into()))
}

/// Counts a hello or a resume beside its frame.
pub(super) fn charge_begin(gateway: &Gateway, peer: &Peer) -> Result<(), Ended> {
    let by = (peer.uid, peer.is_reader);
    let charged = gateway.rates.charge_begin(by, gateway.now_us());
    charged.map_err(|too_much| Some(code_of(too_much).into()))
}

fn code_of(too_much: TooMuch) -> CloseCode {
    match too_much {
        TooMuch::OfUser => CloseCode::TooFast,
        TooMuch::InAll => CloseCode::Overloaded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_complaints_a_minute_are_not_too_much() {
        let (mut complaints, begin) = (Complaints::default(), Instant::now());
        for minute in [0, 1, 60] {
            let now = begin + minute * MINUTE;
            for _ in 0..MAX_COMPLAINTS {
                assert!(!complaints.add(now), "in minute {minute}");
            }
        }
        assert!(complaints.add(begin + 61 * MINUTE - Duration::from_millis(1)));
    }
}
