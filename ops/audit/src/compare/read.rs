//! Reads single values from the stores.

use message_store::{MessageStore, StoreError};
use schemas::{DirectConversation, GroupId, Mid, UserId};
use tokio::time::{Duration, Instant, sleep};
use unread_store::{Connection, Generation, UnreadError};

use super::{
    key::{Key, Rows},
    left::Forgotten,
    redis_keys::RedisKeys,
    value::Value,
};
use crate::{
    AuditError, Sources,
    fold::{Contact, LogState, ProfileVersion, Subject},
};

/// The maximum time for the look-up of an ordinal.
const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(10);
const LOOK_UP_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A value, if there is one, or why it cannot be read: a projection never writes an unreadable value.
pub(crate) type Found = Result<Option<Value>, String>;

pub(super) async fn read(sources: &Sources, log: &LogState, key: Key) -> Result<Found, AuditError> {
    let found = match (key.rows, key.subject) {
        (Rows::UnreadCounts, Subject::User(uid)) => {
            let connection = sources.unread.slot_of(uid).connect().await?;
            // Without a generation no projection has written a key yet.
            return match connection.read_positions().await?.generation() {
                Some(generation) => read_keys(&connection, generation, uid, log).await,
                None => Ok(Ok(Some(Value::Keys(RedisKeys::default())))),
            };
        }
        (Rows::CachedProfiles, Subject::User(uid)) => {
            let connection = sources.unread.slot_of(uid).connect().await?;
            return read_cached_profile(&connection, uid).await;
        }
        (Rows::Contacts, Subject::Contact(uid, peer)) => {
            read_contact(&sources.messages, uid, peer).await
        }
        _ => read_row(sources, log, key).await,
    };
    match found {
        Err(StoreError::Fatal(cause)) => Ok(Err(cause.to_string())),
        found => Ok(Ok(found?)),
    }
}

/// Reads a user's keys, with the peers that the log covers.
pub(super) async fn read_keys(
    connection: &Connection,
    generation: Generation,
    uid: UserId,
    log: &LogState,
) -> Result<Found, AuditError> {
    match connection.read_state(uid).await {
        Err(error @ UnreadError::Malformed { .. }) => Ok(Err(error.to_string())),
        user => {
            let is_covered = |peer| log.covers(Subject::Contact(uid, peer));
            let keys = RedisKeys::new(user?, generation, is_covered);
            Ok(Ok(Some(Value::Keys(keys))))
        }
    }
}

/// The cached profile; `None` if the slot has no positions, since then nobody reads it.
pub(super) async fn read_cached_profile(
    connection: &Connection,
    uid: UserId,
) -> Result<Found, AuditError> {
    match connection.read_profiles(&[uid]).await {
        Err(UnreadError::NotReady) => Ok(Ok(None)),
        Err(error @ UnreadError::Malformed { .. }) => Ok(Err(error.to_string())),
        read => {
            let profile = read?.profiles.get(&uid).map(ProfileVersion::of_stored);
            Ok(Ok(profile.map(Value::Profile)))
        }
    }
}

async fn read_row(
    sources: &Sources,
    log: &LogState,
    key: Key,
) -> Result<Option<Value>, StoreError> {
    let store = &sources.messages;
    let Some(number) = key.number() else {
        return Ok(None);
    };
    let mut snapshot = store.snapshot(store.layout().shard_of(number)).await?;
    let all = Mid::ZERO..=Mid::try_from(i64::MAX).expect("it is not below 0");
    let row = match (key.rows, key.subject) {
        (Rows::Hidden, Subject::Contact(uid, peer)) => {
            let conversation = DirectConversation::new(uid, peer);
            let mids = snapshot.hidden(uid, conversation, all).await?;
            return Ok(Value::hidden(mids.into_iter().map(Mid::get).collect(), 0));
        }
        (Rows::HiddenInGroups, Subject::Member(gid, uid)) => {
            let mids = snapshot.hidden(uid, gid, all).await?;
            return Ok(Value::hidden(mids.into_iter().map(Mid::get).collect(), 0));
        }
        (_, Subject::Contact(uid, peer)) => {
            let conversation = DirectConversation::new(uid, peer);
            let mids = snapshot.read_mids(conversation, uid).await?;
            return Ok(Some(Value::reads(mids)));
        }
        (_, Subject::Group(gid)) => snapshot.groups(&[gid]).await?.first().map(Value::group),
        (Rows::Members, Subject::Member(gid, uid)) => {
            let row = snapshot.group_member(gid, uid).await?;
            row.as_ref().map(Value::member)
        }
        (_, Subject::Member(gid, uid)) => {
            let before = GroupId::try_from(gid.get() - 1).ok();
            let rows = snapshot.memberships(uid, before, 1).await?;
            let row = rows.first().filter(|row| row.gid == gid);
            row.map(Value::membership)
        }
        (_, Subject::User(uid)) => snapshot.profiles(&[uid]).await?.first().map(Value::profile),
    };
    let forgotten = Forgotten::read(sources, &mut snapshot, key.rows).await?;
    let found = row.map(|(_, value)| value);
    Ok(forgotten.restore(key, found, || key.expected(log)))
}

/// Reads a contact. If a read position's ordinal is still to be looked up (PROTOCOL R5), the row is read again, for some seconds.
async fn read_contact(
    store: &MessageStore,
    uid: UserId,
    peer: UserId,
) -> Result<Option<Value>, StoreError> {
    let shard = store.layout().shard_of_user(uid);
    let deadline = Instant::now() + LOOK_UP_TIMEOUT;
    loop {
        let mut snapshot = store.snapshot(shard).await?;
        let row = snapshot.contact(uid, peer).await?;
        let found = row.as_ref().map(Contact::of_row);
        let lacks = found.as_ref().is_some_and(Contact::lacks_an_ordinal);
        let unresolved = lacks && snapshot.unresolved_readers(&[uid]).await?.contains(&uid);
        if !unresolved || Instant::now() > deadline {
            return Ok(found.map(Value::Contact));
        }
        drop(snapshot);
        sleep(LOOK_UP_POLL_INTERVAL).await;
    }
}
