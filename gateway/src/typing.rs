//! Typing users: published to all gateways over Redis, and by them to the devices of the peer, at most once.

use std::sync::Arc;

use api::ServerFrame;
use schemas::{Recipient, UserId, event::Event};
use tokio::sync::Semaphore;
use unread_store::{Notice, SharedConnections};

use crate::{
    contacts::{Contacts, Pair, Relation},
    dissolved_groups::DissolvedGroups,
    focus::Focus,
    frames,
    hub::{Connection, Hub},
};

/// How many publishes may be on their way to Redis; more are dropped.
const UNDER_WAY: usize = 256;

pub(crate) struct Typing {
    redis: Arc<SharedConnections>,
    contacts: Arc<Contacts>,
    dissolved: DissolvedGroups,
    permits: Semaphore,
}

impl Typing {
    pub(crate) fn new(
        redis: Arc<SharedConnections>,
        contacts: Arc<Contacts>,
        dissolved: DissolvedGroups,
    ) -> Self {
        Self {
            redis,
            contacts,
            dissolved,
            permits: Semaphore::new(UNDER_WAY),
        }
    }

    /// Publishes that `from` types, unless `to` would not get a message of this user. What cannot be published is dropped.
    pub(crate) fn publish(self: &Arc<Self>, hub: &Hub, from: UserId, to: Recipient) {
        let is_vain = match to {
            Recipient::User(peer) => peer == from,
            Recipient::Group(gid) => !hub.is_member(from, gid),
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

    /// Whether `from` may send to `to`, as far as is known here. False if MySQL does not say whether the user is blocked, or the group dissolved.
    async fn may_send(&self, from: UserId, to: Recipient) -> bool {
        let peer = match to {
            Recipient::User(peer) => peer,
            Recipient::Group(gid) => return self.dissolved.contain(gid).await == Some(false),
        };
        let (of, towards) = (peer, from);
        let relation = self.contacts.relation(Pair { of, towards }).await;
        matches!(relation, Some(Relation::Stranger | Relation::Contact))
    }

    /// The connections here that are notified: for a user, all connections of that user; for a group, those of its members that look at the group.
    pub(crate) fn receivers(
        &self,
        hub: &Hub,
        focus: &Focus,
        from: UserId,
        to: Recipient,
    ) -> Vec<Arc<Connection>> {
        match to {
            Recipient::User(uid) => hub.connections_of(uid).to_vec(),
            Recipient::Group(gid) if self.dissolved.known(gid) == Some(true) => Vec::new(),
            Recipient::Group(gid) => {
                let mut watchers = focus.watchers(to);
                watchers
                    .retain(|watcher| watcher.uid() != from && hub.is_member(watcher.uid(), gid));
                watchers
            }
        }
    }

    /// Takes from an event, before MySQL has it, that a group is dissolved.
    pub(crate) fn learn(&self, event: &Event) {
        self.dissolved.learn(event);
    }
}

/// Called without the lock of the hub, for which the reader of the log would wait (W7).
pub(crate) fn notify(receivers: &[Arc<Connection>], from: UserId, to: Recipient) {
    if receivers.is_empty() {
        return;
    }
    let frame = frames::encode(&ServerFrame::typing(from, to));
    for connection in receivers {
        connection.push_if_it_fits(frame.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::{DeviceOf, Next, Outgoing, test_events::uid};

    fn connection(number: u64) -> Arc<Connection> {
        let device = DeviceOf {
            uid: uid(2),
            id: format!("d{number}").try_into().unwrap(),
            class: schemas::DeviceClass::Pc,
        };
        Arc::new(Connection::new(device, number, 1_000))
    }

    fn address_of_frame(connection: &Arc<Connection>) -> *const u8 {
        let Next::Write(Outgoing::Frame(frame)) = connection.next() else {
            panic!("there is no frame");
        };
        frame.into_message().into_data().as_ptr()
    }

    #[test]
    fn typing_is_encoded_once() {
        let receivers: Vec<_> = (0..2).map(connection).collect();
        notify(&receivers, uid(1), Recipient::User(uid(2)));
        let frames: Vec<_> = receivers.iter().map(address_of_frame).collect();
        assert_eq!(frames[0], frames[1]);
    }
}
