//! Reads single values from the stores.

use message_store::StoreError;
use schemas::{DirectConversation, Mid, TableNumber, UserId};
use tokio::time::{Duration, Instant, sleep};
use unread_store::{Connection, Generation, UnreadError};

use super::{
    mismatch::{Rows, StoredValue, ValueKey},
    redis_keys::RedisKeys,
};
use crate::{
    AuditError, Sources,
    fold::{Contact, LogState},
};

/// How long the look-up of an ordinal may take.
const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(10);
const LOOK_UP_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A connection to a user's slot in Redis, and the slot's generation; `None` if no projection has written one yet.
async fn connect(
    sources: &Sources,
    uid: UserId,
) -> Result<Option<(Connection, Generation)>, AuditError> {
    let connection = sources.unread.slot_of(uid).connect().await?;
    let generation = connection.read_positions().await?.generation();
    Ok(generation.map(|generation| (connection, generation)))
}

/// Reads a user's keys, with the peers that the log covers.
pub(crate) async fn read_keys(
    connection: &Connection,
    generation: Generation,
    uid: UserId,
    log: &LogState,
) -> Result<StoredValue, AuditError> {
    match connection.read_state(uid).await {
        Ok(user) => {
            let is_covered = |peer| log.covers(uid, peer);
            Ok(StoredValue::Keys(RedisKeys::new(
                user, generation, is_covered,
            )))
        }
        Err(error @ UnreadError::Malformed { .. }) => {
            Ok(StoredValue::Unreadable(error.to_string()))
        }
        Err(error) => Err(error.into()),
    }
}

pub(crate) async fn read_value(
    sources: &Sources,
    log: &LogState,
    key: ValueKey,
) -> Result<StoredValue, AuditError> {
    let found = match key {
        ValueKey::Row { of, uid, peer } => match of {
            Rows::ReadPositions => read_position(sources, uid, peer).await,
            Rows::Contacts => contact(sources, uid, peer).await,
            Rows::Hidden => hidden(sources, uid, peer).await,
        },
        ValueKey::Unread { uid } => {
            return match connect(sources, uid).await? {
                Some((connection, generation)) => {
                    read_keys(&connection, generation, uid, log).await
                }
                None => Ok(StoredValue::Keys(RedisKeys::default())),
            };
        }
    };
    match found {
        Err(StoreError::Fatal(cause)) => Ok(StoredValue::Unreadable(cause.to_string())),
        found => Ok(found?),
    }
}

async fn read_position(
    sources: &Sources,
    uid: UserId,
    peer: UserId,
) -> Result<StoredValue, StoreError> {
    let conversation = DirectConversation::new(uid, peer);
    let shard = sources.messages.layout().shard_of(conversation.partition());
    let mut snapshot = sources.messages.snapshot(shard).await?;
    let mids = snapshot.read_mids(conversation, uid).await?;
    Ok(StoredValue::Reads(mids.map(Mid::get)))
}

async fn hidden(sources: &Sources, uid: UserId, peer: UserId) -> Result<StoredValue, StoreError> {
    let shard = sources
        .messages
        .layout()
        .shard_of(TableNumber::of_user(uid));
    let mut snapshot = sources.messages.snapshot(shard).await?;
    let all = Mid::ZERO..=Mid::try_from(i64::MAX).expect("it is not below 0");
    let conversation = DirectConversation::new(uid, peer);
    let mids = snapshot.hidden(uid, conversation, all).await?;
    Ok(StoredValue::Hidden(
        mids.into_iter().map(Mid::get).collect(),
    ))
}

/// Where a read position's ordinal is yet to be looked up (PROTOCOL R5), the row is read again, for some seconds.
async fn contact(sources: &Sources, uid: UserId, peer: UserId) -> Result<StoredValue, StoreError> {
    let shard = sources
        .messages
        .layout()
        .shard_of(TableNumber::of_user(uid));
    let deadline = Instant::now() + LOOK_UP_TIMEOUT;
    loop {
        let mut snapshot = sources.messages.snapshot(shard).await?;
        let row = snapshot.contact(uid, peer).await?;
        let found = row.as_ref().map(Contact::of_row);
        let lacks = found.as_ref().is_some_and(Contact::lacks_an_ordinal);
        let unresolved = lacks && snapshot.unresolved_readers(&[uid]).await?.contains(&uid);
        if !unresolved || Instant::now() > deadline {
            return Ok(StoredValue::Contact(found));
        }
        drop(snapshot);
        sleep(LOOK_UP_POLL_INTERVAL).await;
    }
}
