//! Calls of query-api about conversations.

use std::{collections::BTreeMap, time::Duration};

use api::{
    ChangesAfter, ChangesPage, ConversationsPage, MessageItem, MessagesPage, NextMessages,
    UnreadAnswer,
};
use schemas::{DeviceClass, InboundPosition, Mid, SyncToken, UserId};

use crate::{Client, ClientError, Query};

/// How fresh an answer must be, and how long query-api may wait until it is.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The answer reflects at least these events, duplicates and refused ones too. At most 64.
    pub after: Vec<InboundPosition>,
    /// It reflects at least what this token of a device covers.
    pub token: Option<SyncToken>,
    /// How long the call may take, at most 30 s; 5 s if absent.
    pub timeout: Option<Duration>,
}

impl ReadOptions {
    /// The answer reflects at least these events; 30 s may pass until it does.
    pub fn after(positions: impl IntoIterator<Item = InboundPosition>) -> Self {
        Self {
            after: positions.into_iter().collect(),
            token: None,
            timeout: Some(Duration::from_secs(30)),
        }
    }

    pub(crate) fn wait(&self) -> Duration {
        self.timeout.unwrap_or_default()
    }

    pub(crate) fn add_to(&self, query: Query) -> Query {
        let timeout = self.timeout.map(|timeout| timeout.as_millis());
        query
            .with("after", &self.after)
            .with("after", &self.token)
            .with("timeout_ms", timeout)
    }
}

/// Which messages of a conversation.
#[derive(Clone, Copy, Debug, Default)]
pub struct MessagesQuery {
    /// Which, and in which order.
    pub order: Order,
    /// How many at most, up to 200; 50 if absent, and 200 for [`Order::Unread`].
    pub limit: Option<u8>,
    /// With the profiles of the users in it.
    pub profiles: bool,
}

/// Which messages of a conversation, and in which order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The newest first.
    #[default]
    Newest,
    /// Those below this number, newest first.
    Before(Mid),
    /// Those above this number, oldest first.
    After(Mid),
    /// Those that the user has not read on this device class, newest first, at most a month old.
    Unread(DeviceClass),
}

/// Which part of a conversation list.
#[derive(Clone, Debug, Default)]
pub struct ConversationsQuery {
    /// How many at most, up to 200; 50 if absent.
    pub limit: Option<u8>,
    /// `next` of the page before.
    pub cursor: Option<String>,
    /// With the profiles of the users in it.
    pub profiles: bool,
}

/// A user's unread messages on one device class.
#[derive(Clone, Debug)]
pub struct Unread {
    /// How many, by sender; senders with none are left out.
    pub unread: BTreeMap<UserId, i64>,
    /// The sum.
    pub total: i64,
    /// Senders whose unread messages can no longer be counted.
    pub unknown: Vec<UserId>,
    /// With `after`: how far the store had come when it answered.
    pub as_of: Vec<InboundPosition>,
}

/// Which changes of a conversation.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChangesQuery {
    /// The changes after this position.
    pub after: ChangesAfter,
    /// How many at most, up to 200; 50 if absent.
    pub limit: Option<u8>,
}

impl From<NextMessages> for Order {
    fn from(next: NextMessages) -> Self {
        match next {
            NextMessages::Before(mid) => Self::Before(mid),
            NextMessages::After(mid) => Self::After(mid),
        }
    }
}

impl MessagesQuery {
    pub(crate) fn add_to(&self, query: Query) -> Query {
        let query = match self.order {
            Order::Newest => query,
            Order::Before(mid) => query.with("before_mid", [mid]),
            Order::After(mid) => query.with("after_mid", [mid]),
            Order::Unread(device) => query.with("device", [device]),
        };
        query
            .with("limit", self.limit)
            .with("profiles", self.profiles.then_some(true))
    }
}

impl ChangesQuery {
    pub(crate) fn add_to(&self, query: Query) -> Query {
        let ChangesAfter {
            change_seq,
            own_pos,
        } = self.after;
        query
            .with("after_chg", [change_seq])
            .with("after_own_pos", (own_pos > 0).then_some(own_pos))
            .with("limit", self.limit)
    }
}

impl Client {
    /// Counts a user's unread messages on one device class.
    ///
    /// # Errors
    /// The call was refused, or not answered in time.
    pub async fn unread(
        &self,
        user: UserId,
        device: DeviceClass,
        options: &ReadOptions,
    ) -> Result<Unread, ClientError> {
        let path = format!("/v1/users/{user}/unread");
        let query = Query::of(path.as_str()).with("device", [device]);
        let answer: UnreadAnswer = self.ask(query, options).await?;
        let unread = answer.by_sender();
        Ok(Unread {
            unread: unread.map_err(|error| ClientError::invalid_response(&path, error))?,
            total: answer.total,
            unknown: answer.unknown.to_vec(),
            as_of: answer.as_of,
        })
    }

    /// Reads a page of a conversation, as `user` sees it.
    ///
    /// # Errors
    /// The call was refused, or not answered in time.
    pub async fn messages(
        &self,
        user: UserId,
        peer: UserId,
        which: &MessagesQuery,
        options: &ReadOptions,
    ) -> Result<MessagesPage, ClientError> {
        let path = format!("/v1/users/{user}/conversations/{peer}/messages");
        self.ask(which.add_to(Query::of(path)), options).await
    }

    /// Reads a whole conversation, oldest message first, page by page.
    ///
    /// # Errors
    /// As [`Client::messages`].
    pub async fn history(
        &self,
        user: UserId,
        peer: UserId,
        options: &ReadOptions,
    ) -> Result<Vec<MessageItem>, ClientError> {
        let mut messages = Vec::new();
        let mut next = Some(Order::After(Mid::ZERO));
        while let Some(order) = next {
            let limit = Some(200);
            let which = MessagesQuery {
                order,
                limit,
                ..MessagesQuery::default()
            };
            let page = self.messages(user, peer, &which, options).await?;
            messages.extend(page.items);
            next = page.next.map(Order::from);
        }
        Ok(messages)
    }

    /// Lists what was changed in a conversation, as far as it concerns `user`.
    ///
    /// # Errors
    /// The call was refused, or not answered in time.
    pub async fn changes(
        &self,
        user: UserId,
        peer: UserId,
        which: &ChangesQuery,
        options: &ReadOptions,
    ) -> Result<ChangesPage, ClientError> {
        let path = format!("/v1/users/{user}/conversations/{peer}/changes");
        self.ask(which.add_to(Query::of(path)), options).await
    }

    /// Lists a user's conversations.
    ///
    /// # Errors
    /// The call was refused, or not answered in time.
    pub async fn conversations(
        &self,
        user: UserId,
        which: &ConversationsQuery,
        options: &ReadOptions,
    ) -> Result<ConversationsPage, ClientError> {
        let query = Query::of(format!("/v1/users/{user}/conversations"))
            .with("limit", which.limit)
            .with("cursor", &which.cursor)
            .with("profiles", which.profiles.then_some(true));
        self.ask(query, options).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_a_query_string() {
        let query = Query::of("/x").with("limit", [2]);
        let query = ReadOptions::after(["1:2".parse().unwrap()]).add_to(query);
        assert_eq!(query.path(), "/x?limit=2&after=1:2&timeout_ms=30000");
    }
}
