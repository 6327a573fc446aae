//! Reads what a device is missing from the query API.

use std::{collections::BTreeMap, time::Duration};

use schemas::{Mid, Recipient, UserId};
use tokio::time::sleep;

use super::{DeviceState, outbox::Repeat};
use crate::{
    ChangesAfter, ChangesPage, ChangesQuery, Client, ClientError, MessagesPage, MessagesQuery,
    NextMessages, Order, ReadOptions, SyncAnswer,
};

/// The most messages or changes that a page has.
const PAGE: u8 = 200;
/// How soon it is tried again to look for sends.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);

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

/// Sends that were looked for, and the numbers of those that are on the log.
pub(super) type Looked = Vec<(u64, Option<Mid>)>;

/// Looks for sends to a chat in its history, above the newest message that the device knew when the first of them was sent. Tries until it gets an answer.
pub(super) fn look(
    client: &Client,
    state: &DeviceState,
    of: Recipient,
    sends: Vec<Repeat>,
) -> impl Future<Output = Result<Looked, ClientError>> + Send + 'static {
    let reader = ChatReader::new(client, state, of);
    async move {
        loop {
            let is_forbidden = |error: &ClientError| {
                let status = error.problem().map(|problem| problem.status);
                matches!(status, Some(403 | 404))
            };
            match reader.find(&sends).await {
                Ok(found) => {
                    let looked = |send: Repeat| (send.seq, found.get(&send.seq).copied());
                    return Ok(sends.into_iter().map(looked).collect());
                }
                // A user who may not read the chat may not write to it either: the gateway will refuse the sends.
                Err(error) if is_forbidden(&error) => {
                    return Ok(sends.iter().map(|send| (send.seq, None)).collect());
                }
                Err(_) => sleep(LOOK_AGAIN_AFTER).await,
            }
        }
    }
}

/// Reads pages of a chat, as new as what the device knew of it when this was made.
#[derive(Clone)]
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

    pub(super) async fn messages(self, after: Mid) -> Result<MessagesPage, ClientError> {
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

    /// The numbers of the sends that are on the log.
    async fn find(&self, sends: &[Repeat]) -> Result<BTreeMap<u64, Mid>, ClientError> {
        let mut found = BTreeMap::new();
        let mut next = sends.iter().map(|send| send.after).min();
        while let Some(after) = next
            && found.len() < sends.len()
        {
            let page = self.clone().messages(after).await?;
            for message in page.items.iter().filter(|item| item.srcid == self.uid) {
                let id = message.client_msg_id.as_deref();
                let is_this = |send: &&Repeat| Some(send.client_msg_id.as_str()) == id;
                if let Some(send) = sends.iter().find(is_this) {
                    found.insert(send.seq, message.mid);
                }
            }
            next = page.next.and_then(|next| match next {
                NextMessages::After(mid) => Some(mid),
                NextMessages::Before(_) => None,
            });
        }
        Ok(found)
    }

    pub(super) async fn changes(self, after: ChangesAfter) -> Result<ChangesPage, ClientError> {
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
