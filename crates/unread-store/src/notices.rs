//! Notices from gateway to gateway by pub/sub: delivered at most once, to the gateways that listen at that moment.

use std::{fmt, str::FromStr, time::Duration};

use futures::StreamExt as _;
use redis::{
    RedisError,
    aio::{PubSubSink, PubSubStream},
};
use schemas::{Recipient, UserId};
use tokio::time::{Instant, sleep_until, timeout};

use crate::{ConnectionId, SharedConnections, UnreadError, UnreadStore};

/// How often a subscription is pinged, to see whether it still exists.
const PING_INTERVAL: Duration = Duration::from_secs(5);
const PING_TIME: Duration = Duration::from_secs(5);

/// A notice to all gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A user is typing.
    Typing {
        /// The user.
        from: UserId,
        /// The recipient.
        to: Recipient,
    },
    /// A user has come or gone.
    Presence(UserId),
    /// This connection of a user was replaced by another one.
    Replaced(UserId, ConnectionId),
}

impl Notice {
    /// The user whose slot carries the notice.
    fn uid(&self) -> UserId {
        match self {
            Self::Typing { from: uid, .. } | Self::Presence(uid) | Self::Replaced(uid, _) => *uid,
        }
    }
}

/// The format in which a notice is sent.
impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Typing { from, to } => match to {
                Recipient::User(uid) => write!(f, "typing {from} to {uid}"),
                Recipient::Group(gid) => write!(f, "typing {from} in {gid}"),
            },
            Self::Presence(uid) => write!(f, "presence {uid}"),
            Self::Replaced(uid, id) => write!(f, "replaced {uid} {id}"),
        }
    }
}

/// A later version may send other notices.
impl FromStr for Notice {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let words: Vec<&str> = text.split(' ').collect();
        let uid = |word: &str| word.parse::<UserId>().map_err(|_| ());
        match words[..] {
            ["typing", from, "to", to] => Ok(Self::Typing {
                from: uid(from)?,
                to: Recipient::User(uid(to)?),
            }),
            ["typing", from, "in", gid] => Ok(Self::Typing {
                from: uid(from)?,
                to: Recipient::Group(gid.parse().map_err(|_| ())?),
            }),
            ["presence", of] => Ok(Self::Presence(uid(of)?)),
            ["replaced", of, id] => Ok(Self::Replaced(uid(of)?, id.parse()?)),
            _ => Err(()),
        }
    }
}

impl SharedConnections {
    /// Notifies all gateways that listen, this one included.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn publish(&self, notice: &Notice) -> Result<(), UnreadError> {
        let index = self.store().index_of(notice.uid());
        self.publish_all(index, std::slice::from_ref(notice)).await
    }

    /// As [`Self::publish`], for notices of users of one slot, with one request.
    ///
    /// # Errors
    /// [`UnreadError::Transient`]; some of them may have been published.
    pub async fn publish_all(&self, index: usize, notices: &[Notice]) -> Result<(), UnreadError> {
        let channel = self.store().slots()[0].keys().notices();
        let mut pipe = redis::pipe();
        for notice in notices {
            pipe.cmd("PUBLISH")
                .arg(&channel)
                .arg(notice.to_string())
                .ignore();
        }
        self.get(index).await?.run(&pipe).await
    }
}

/// A connection that receives notices. It never reconnects.
pub struct Subscription {
    sink: PubSubSink,
    notices: PubSubStream,
    ping_at: Instant,
}

impl UnreadStore {
    /// Subscribes to notices: in a cluster at a node chosen by `attempt`, since all nodes have all notices.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn subscribe(&self, attempt: usize) -> Result<Subscription, UnreadError> {
        let slot = &self.slots()[attempt % self.slots().len()];
        let subscribing = async {
            let client = slot.client().await?;
            let mut pubsub = client.get_async_pubsub().await?;
            pubsub.subscribe(self.slots()[0].keys().notices()).await?;
            Ok(pubsub.split())
        };
        let subscribed = timeout(PING_TIME, subscribing).await;
        let (sink, notices) = subscribed
            .unwrap_or_else(|_| Err(no_response()))
            .map_err(UnreadError::Transient)?;
        Ok(Subscription {
            sink,
            notices,
            ping_at: Instant::now() + PING_INTERVAL,
        })
    }
}

impl Subscription {
    /// The next notice.
    ///
    /// # Errors
    /// [`UnreadError::Transient`] if the connection is gone: notices are lost until there is a new one.
    pub async fn next(&mut self) -> Result<Notice, UnreadError> {
        loop {
            tokio::select! {
                message = self.notices.next() => {
                    let Some(message) = message else {
                        return Err(UnreadError::Transient(failure("the subscription has ended")));
                    };
                    let text = message.get_payload::<String>().ok();
                    if let Some(notice) = text.and_then(|text| text.parse().ok()) {
                        return Ok(notice);
                    }
                }
                () = sleep_until(self.ping_at) => {
                    let ping = timeout(PING_TIME, self.sink.ping::<redis::Value>()).await;
                    ping.unwrap_or_else(|_| Err(no_response())).map_err(UnreadError::Transient)?;
                    self.ping_at = Instant::now() + PING_INTERVAL;
                }
            }
        }
    }
}

fn no_response() -> RedisError {
    failure("no answer in time")
}

fn failure(what: &'static str) -> RedisError {
    std::io::Error::other(what).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_travels_arrives_and_what_is_none_does_not() {
        for text in [
            "typing 1000 to 1001",
            "typing 1000 in 5000",
            "presence 1000",
            "replaced 1000 a:b:7",
        ] {
            let notice: Notice = text.parse().unwrap();
            assert_eq!(notice.to_string(), text);
        }
        for text in [
            "",
            "typing 1000",
            "typing 0 to 1",
            "presence x",
            "dance 1",
            "replaced 1 a",
        ] {
            assert_eq!(text.parse::<Notice>(), Err(()), "{text}");
        }
    }
}
