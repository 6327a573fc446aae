//! Who types: told by Redis to all gateways, and by them to the devices of the peer, at most once.

use std::sync::Arc;

use schemas::{Recipient, UserId};
use tokio::sync::Semaphore;
use unread_store::Notice;

use crate::{contacts::Standing, frames::ServerFrame, state::Gateway};

/// So many are on their way to Redis; while there are, others are dropped.
const UNDER_WAY: usize = 256;

pub(crate) struct Typing {
    places: Arc<Semaphore>,
}

impl Default for Typing {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(UNDER_WAY)),
        }
    }
}

/// Tells all gateways, unless the peer would not get a message of this user. What cannot be told is dropped.
pub(crate) fn pass_on(gateway: &Arc<Gateway>, from: UserId, to: Recipient) {
    let is_vain = match to {
        Recipient::User(peer) => peer == from,
        Recipient::Group(gid) => !gateway.hub().is_some_and(|hub| hub.is_member(from, gid)),
    };
    if is_vain {
        return;
    }
    let Ok(place) = Arc::clone(&gateway.typing.places).try_acquire_owned() else {
        return;
    };
    let gateway = Arc::clone(gateway);
    tokio::spawn(async move {
        let _place = place;
        if may_send(&gateway, from, to).await {
            let told = gateway.redis.publish(&Notice::Typing { from, to }).await;
            if let Err(error) = told {
                tracing::debug!(%error, "typing is not passed on");
            }
        }
    });
}

/// As far as is known here. Where MySQL does not say whether a user is blocked, he is not shown.
async fn may_send(gateway: &Gateway, from: UserId, to: Recipient) -> bool {
    let Recipient::User(peer) = to else {
        return true;
    };
    let standing = gateway.contacts.standing(&gateway.store, peer, from).await;
    matches!(standing, Some(Standing::Stranger | Standing::Contact))
}

/// Tells the devices here: all of a user's, and of a group's members those which look at it.
pub(crate) fn tell(gateway: &Gateway, from: UserId, to: Recipient) {
    let frame = ServerFrame::typing(from, to);
    let watchers = match to {
        Recipient::User(_) => Vec::new(),
        Recipient::Group(_) => gateway.focus.watchers(to),
    };
    let Some(hub) = gateway.hub() else { return };
    match to {
        Recipient::User(uid) => hub.push_fleeting(uid, &frame),
        Recipient::Group(gid) => {
            for watcher in watchers {
                if watcher.uid() != from && hub.is_member(watcher.uid(), gid) {
                    watcher.push_fleeting(&frame);
                }
            }
        }
    }
}
