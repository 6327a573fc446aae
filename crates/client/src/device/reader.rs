//! Reads what a device is missing from the query API.

use std::time::Duration;

use schemas::{Chg, Mid, Recipient, UserId};
use tokio::time::sleep;

use super::DeviceState;
use crate::{
    Changes, ChangesQuery, Client, ClientError, Messages, MessagesQuery, Order, ReadOptions,
    SyncAnswer,
};

/// The most messages or changes that a page has.
const PAGE: u8 = 200;

/// A page of a sync, from the device's token on.
pub(super) fn sync(
    client: &Client,
    state: &DeviceState,
    after: Duration,
) -> impl Future<Output = Result<SyncAnswer, ClientError>> + Send + 'static {
    let (client, uid, token) = (client.clone(), state.uid(), state.token().cloned());
    async move {
        sleep(after).await;
        client.sync(uid, token.as_ref(), None).await
    }
}

/// Reads pages of a chat, as new as what the device knew of it when this was made.
pub(super) struct ChatReader {
    client: Client,
    uid: UserId,
    of: Recipient,
    options: ReadOptions,
}

impl ChatReader {
    pub(super) fn new(client: &Client, state: &DeviceState, of: Recipient) -> Self {
        Self {
            client: client.clone(),
            uid: state.uid(),
            of,
            options: ReadOptions {
                token: state.known_of(of),
                ..ReadOptions::default()
            },
        }
    }

    pub(super) async fn messages(self, after: Mid) -> Result<Messages, ClientError> {
        let (client, uid, options) = (self.client, self.uid, self.options);
        let which = MessagesQuery {
            order: Order::After(after),
            limit: Some(PAGE),
            profiles: false,
        };
        match self.of {
            Recipient::User(peer) => client.messages(uid, peer, &which, &options).await,
            Recipient::Group(gid) => client.group_messages(gid, uid, &which, &options).await,
        }
    }

    pub(super) async fn changes(self, after: Chg) -> Result<Changes, ClientError> {
        let (client, uid, options) = (self.client, self.uid, self.options);
        let which = ChangesQuery {
            after,
            limit: Some(PAGE),
        };
        match self.of {
            Recipient::User(peer) => client.changes(uid, peer, &which, &options).await,
            Recipient::Group(gid) => client.group_changes(gid, uid, &which, &options).await,
        }
    }
}
