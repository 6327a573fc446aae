//! Who types: published to all gateways over Redis, and by them to the devices of the peer, at most once.

use std::sync::Arc;

use schemas::{Recipient, UserId};
use tokio::sync::Semaphore;
use unread_store::{Notice, SharedConnections};

use crate::{
    contacts::{Contacts, Pair, Relation},
    focus::Focus,
    frames::ServerFrame,
    hub::Hub,
};

/// So many are on their way to Redis; while there are, others are dropped.
const UNDER_WAY: usize = 256;

pub(crate) struct Typing {
    redis: Arc<SharedConnections>,
    contacts: Arc<Contacts>,
    permits: Semaphore,
}

impl Typing {
    pub(crate) fn new(redis: Arc<SharedConnections>, contacts: Arc<Contacts>) -> Self {
        Self {
            redis,
            contacts,
            permits: Semaphore::new(UNDER_WAY),
        }
    }

    /// Publishes it, unless the peer would not get a message of this user. What cannot be published is dropped.
    pub(crate) fn publish(self: &Arc<Self>, hub: Option<&Hub>, from: UserId, to: Recipient) {
        let is_vain = match to {
            Recipient::User(peer) => peer == from,
            Recipient::Group(gid) => !hub.is_some_and(|hub| hub.is_member(from, gid)),
        };
        if is_vain {
            return;
        }
        let typing = Arc::clone(self);
        tokio::spawn(async move {
            let Ok(_permit) = typing.permits.try_acquire() else {
                return;
            };
            if typing.may_send(from, to).await {
                let published = typing.redis.publish(&Notice::Typing { from, to }).await;
                if let Err(error) = published {
                    tracing::debug!(%error, "typing is not published");
                }
            }
        });
    }

    /// As far as is known here. Where MySQL does not say whether a user is blocked, he is not shown.
    async fn may_send(&self, from: UserId, to: Recipient) -> bool {
        let Recipient::User(peer) = to else {
            return true;
        };
        let (of, towards) = (peer, from);
        let relation = self.contacts.relation(Pair { of, towards }).await;
        matches!(relation, Some(Relation::Stranger | Relation::Contact))
    }
}

/// Notifies the devices here: all of a user's, and of a group's members those which look at it.
pub(crate) fn notify(hub: &Hub, focus: &Focus, from: UserId, to: Recipient) {
    let frame = ServerFrame::typing(from, to);
    match to {
        Recipient::User(uid) => hub.push_fleeting(uid, &frame),
        Recipient::Group(gid) => {
            for watcher in focus.watchers(to) {
                if watcher.uid() != from && hub.is_member(watcher.uid(), gid) {
                    watcher.push_fleeting(&frame);
                }
            }
        }
    }
}
