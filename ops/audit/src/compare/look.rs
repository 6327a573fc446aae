//! Looking at single values again.

use message_store::StoreError;
use schemas::{DirectConversation, TableNumber, UserId};
use unread_store::{Connection, Generation, UnreadError};

use super::{
    judge::{Observed, Subject},
    keys::Keys,
};
use crate::{
    AuditError, Sources,
    fold::{Contact, Known},
};

/// A connection to Redis and the node's life. `None` where no projection has begun one yet.
pub(crate) async fn connect(
    sources: &Sources,
) -> Result<Option<(Connection, Generation)>, AuditError> {
    let connection = sources.unread.connect().await?;
    let generation = connection.read_positions().await?.generation();
    Ok(generation.map(|generation| (connection, generation)))
}

/// A user's keys, as far as the log can be held against them.
pub(crate) async fn keys(
    connection: &Connection,
    generation: Generation,
    uid: UserId,
    known: &Known,
) -> Result<Observed, AuditError> {
    match connection.read_state(uid).await {
        Ok(user) => {
            let is_covered = |peer| known.covers(uid, peer);
            Ok(Observed::Keys(Keys::new(user, generation, is_covered)))
        }
        Err(error @ UnreadError::Malformed { .. }) => Ok(Observed::Foreign(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// One value, whatever it is.
pub(crate) async fn again(
    sources: &Sources,
    known: &Known,
    subject: Subject,
) -> Result<Observed, AuditError> {
    let found = match subject {
        Subject::ReadPosition { uid, peer } => read_position(sources, uid, peer).await,
        Subject::Contact { uid, peer } => contact(sources, uid, peer).await,
        Subject::Unread { uid } => {
            return match connect(sources).await? {
                Some((connection, generation)) => keys(&connection, generation, uid, known).await,
                None => Ok(Observed::Keys(Keys::default())),
            };
        }
    };
    match found {
        Err(StoreError::Fatal(cause)) => Ok(Observed::Foreign(cause.to_string())),
        found => Ok(found?),
    }
}

async fn read_position(
    sources: &Sources,
    uid: UserId,
    peer: UserId,
) -> Result<Observed, StoreError> {
    let conversation = DirectConversation::new(uid, peer);
    let shard = sources.messages.layout().shard_of(conversation.partition());
    let mut snapshot = sources.messages.snapshot(shard).await?;
    let mids = snapshot.read_mids(conversation, uid).await?;
    Ok(Observed::Reads([mids.pc.get(), mids.mobile.get()]))
}

async fn contact(sources: &Sources, uid: UserId, peer: UserId) -> Result<Observed, StoreError> {
    let shard = sources
        .messages
        .layout()
        .shard_of(TableNumber::of_user(uid));
    let mut snapshot = sources.messages.snapshot(shard).await?;
    let row = snapshot.contact(uid, peer).await?;
    Ok(Observed::Contact(row.as_ref().map(Contact::of_row)))
}
