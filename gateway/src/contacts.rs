//! The relations between users, as far as MySQL and the tail of the log have them. They decide who is told that a user types, or is connected.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use message_store::{ContactRow, Shard, StoreError};
use parking_lot::Mutex;
use schemas::{
    Ordinal, Recipient, UserId,
    event::{Body, Event, Message},
};
use tokio::time::timeout;

use crate::{expiring_map, shared_reads::SharedReads};

/// A row is read again after this time.
const ROW_TTL: Duration = Duration::from_secs(30);
/// For how long after an event the row may not reflect that event yet.
const PROJECTED_IN: Duration = Duration::from_secs(2);
/// How long a block from an event overrides the row, however far MySQL lags. The end of a block comes as an event, too.
const BLOCK_TTL: Duration = Duration::from_secs(3_600);
/// How long MySQL may take to answer; after that the relation counts as unknown.
const READ_TIME: Duration = Duration::from_secs(1);
/// How many pairs one statement reads.
const READ_AT_ONCE: usize = 256;

/// What a user, `of`, is to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pair {
    pub(crate) of: UserId,
    pub(crate) towards: UserId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// `of` has not written to `towards`.
    Stranger,
    /// `of` has written to `towards`.
    Contact,
    /// `of` refuses messages of `towards`.
    Blocked,
}

/// A relation, and until when it counts. `None` stands for a relation that an event has changed: rows whose read begins before `until` may be older
/// than the event.
#[derive(Clone, Copy)]
struct Known {
    relation: Option<Relation>,
    until: Instant,
}

#[derive(Default)]
struct Relations(HashMap<Pair, Known>);

pub(crate) struct Contacts {
    reads: Arc<SharedReads>,
    relations: Mutex<Relations>,
}

impl Contacts {
    pub(crate) fn new(reads: Arc<SharedReads>) -> Self {
        Self {
            reads,
            relations: Mutex::default(),
        }
    }

    /// `None` if MySQL does not answer in time.
    pub(crate) async fn relation(&self, pair: Pair) -> Option<Relation> {
        self.relations_of(&[pair]).await.remove(&pair)
    }

    /// The relations of these pairs. Those that are not known here are missing if MySQL does not answer in time.
    pub(crate) async fn relations_of(&self, pairs: &[Pair]) -> HashMap<Pair, Relation> {
        let begun = Instant::now();
        let mut found = HashMap::new();
        let mut unknown: BTreeMap<Shard, Vec<Pair>> = BTreeMap::new();
        {
            let relations = self.relations.lock();
            for pair in pairs {
                match relations.get(*pair, begun) {
                    Some(relation) => _ = found.insert(*pair, relation),
                    None => {
                        let shard = self.reads.store().layout().shard_of_user(pair.of);
                        unknown.entry(shard).or_default().push(*pair);
                    }
                }
            }
        }
        let reads = unknown
            .iter()
            .map(|(shard, pairs)| timeout(READ_TIME, self.read_all(*shard, pairs, begun)));
        for read in join_all(reads).await {
            match read {
                Ok(Ok(read)) => found.extend(read),
                Ok(Err(error)) => tracing::debug!(%error, "contacts are not read"),
                Err(_elapsed) => tracing::debug!("contacts are not read in time"),
            }
        }
        found
    }

    /// Takes from an event, before MySQL has it, whether a user blocks another one or has written to them. Returns the user whom others may now see,
    /// or no longer see.
    pub(crate) fn learn(&self, event: &Event) -> Option<UserId> {
        let pair = pair_of(&event.body)?;
        self.relations
            .lock()
            .learn(pair, &event.body, Instant::now())
            .then_some(pair.of)
    }

    /// Reads pairs of one database.
    async fn read_all(
        &self,
        shard: Shard,
        pairs: &[Pair],
        begun: Instant,
    ) -> Result<HashMap<Pair, Relation>, StoreError> {
        let (mut tx, _permit) = self.reads.snapshot(shard).await?;
        let mut found = HashMap::new();
        for pairs in pairs.chunks(READ_AT_ONCE) {
            let keys: Vec<_> = pairs.iter().map(|pair| (pair.of, pair.towards)).collect();
            let rows = tx.contacts(&keys).await?;
            let rows: HashMap<_, _> = rows
                .iter()
                .map(|row| ((row.contact.uid, row.contact.peer), relation(row)))
                .collect();
            let mut relations = self.relations.lock();
            for pair in pairs {
                let row = rows.get(&(pair.of, pair.towards)).copied();
                let row = row.unwrap_or(Relation::Stranger);
                found.insert(*pair, relations.take_row(*pair, row, begun));
            }
        }
        Ok(found)
    }
}

fn relation(row: &ContactRow) -> Relation {
    match row {
        row if row.flags().blocked => Relation::Blocked,
        row if row.contact.own_ordinal > Ordinal::ZERO => Relation::Contact,
        _ => Relation::Stranger,
    }
}

impl Relations {
    fn get(&self, pair: Pair, now: Instant) -> Option<Relation> {
        let known = self.0.get(&pair).filter(|known| now < known.until)?;
        known.relation
    }

    /// Keeps a row whose read began at `begun`, unless something newer is known or the row may be older than an event. Returns the relation that counts.
    fn take_row(&mut self, pair: Pair, row: Relation, begun: Instant) -> Relation {
        match self.0.get(&pair) {
            Some(known) if begun < known.until => known.relation.unwrap_or(row),
            _ => {
                self.insert(pair, Some(row), ROW_TTL, begun);
                row
            }
        }
    }

    /// Whether the event may have changed the relation.
    fn learn(&mut self, pair: Pair, body: &Body, now: Instant) -> bool {
        let known = self.0.get(&pair).and_then(|known| known.relation);
        let Some((relation, ttl)) = after_event(known, body) else {
            return false;
        };
        self.insert(pair, relation, ttl, now);
        true
    }

    fn insert(&mut self, pair: Pair, relation: Option<Relation>, ttl: Duration, now: Instant) {
        let until = now + ttl;
        let known = Known { relation, until };
        expiring_map::insert(&mut self.0, pair, known, |known| known.until <= now);
    }
}

/// The pair whose relation an event may change.
fn pair_of(body: &Body) -> Option<Pair> {
    match body {
        Body::ContactChange(change) => Some(Pair {
            of: change.uid,
            towards: change.peer,
        }),
        Body::Message(Message {
            srcid,
            to: Recipient::User(peer),
            ..
        }) => Some(Pair {
            of: *srcid,
            towards: *peer,
        }),
        _ => None,
    }
}

/// The relation of a pair after an event, and for how long it counts; `None` if the event changes nothing. The relation is `None` if only the row
/// says what it is, once the event is projected.
fn after_event(known: Option<Relation>, body: &Body) -> Option<(Option<Relation>, Duration)> {
    use Relation::{Blocked, Contact, Stranger};
    match (body, known) {
        (Body::ContactChange(change), _) if change.flags.blocked => {
            Some((Some(Blocked), BLOCK_TTL))
        }
        // Only the row says whether the user has written, and it may still say that the user blocks the peer.
        (Body::ContactChange(_), Some(Blocked)) => Some((Some(Stranger), PROJECTED_IN)),
        (Body::ContactChange(_), None) => Some((None, PROJECTED_IN)),
        (Body::Message(_), Some(Stranger)) => Some((Some(Contact), ROW_TTL)),
        // The user may block the peer to whom they write.
        (Body::Message(message), None) if message.ordinal.get() == 1 => Some((None, PROJECTED_IN)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use schemas::{ContactChange, ContactFlags};

    use super::{Relation::*, *};
    use crate::hub::test_events::{message_body, uid};

    const BLOCK: bool = true;

    fn pair() -> Pair {
        Pair {
            of: uid(1),
            towards: uid(2),
        }
    }

    /// The user 1 pins the chat with the user 2, and blocks that user or does not.
    fn change(blocked: bool) -> Body {
        Body::ContactChange(ContactChange {
            uid: uid(1),
            peer: uid(2),
            flags: ContactFlags {
                pinned: true,
                blocked,
                ..ContactFlags::default()
            },
            deleted: None,
        })
    }

    fn nth_message(n: i64) -> Body {
        let mut body = message_body(1, 2, "a", 1);
        if let Body::Message(message) = &mut body {
            message.ordinal = n.try_into().unwrap();
        }
        body
    }

    #[test]
    fn an_event_says_no_more_of_a_relation_than_follows_from_it() {
        let unknown = Some((None, PROJECTED_IN));
        for (known, body, after) in [
            (None, change(BLOCK), Some((Some(Blocked), BLOCK_TTL))),
            (
                Some(Contact),
                change(BLOCK),
                Some((Some(Blocked), BLOCK_TTL)),
            ),
            (None, change(!BLOCK), unknown),
            (Some(Stranger), change(!BLOCK), None),
            (Some(Contact), change(!BLOCK), None),
            (
                Some(Blocked),
                change(!BLOCK),
                Some((Some(Stranger), PROJECTED_IN)),
            ),
            (None, nth_message(1), unknown),
            (None, nth_message(2), None),
            (
                Some(Stranger),
                nth_message(2),
                Some((Some(Contact), ROW_TTL)),
            ),
            (Some(Contact), nth_message(2), None),
            (Some(Blocked), nth_message(1), None),
        ] {
            assert_eq!(after_event(known, &body), after, "{known:?}, {body:?}");
        }
    }

    #[test]
    fn a_row_does_not_undo_what_was_learned_after_its_read_began() {
        let begun = Instant::now();
        let mut relations = Relations::default();
        assert!(relations.learn(pair(), &change(BLOCK), begun));
        assert_eq!(relations.take_row(pair(), Contact, begun), Blocked);
        assert_eq!(relations.get(pair(), begun), Some(Blocked));
        // However far MySQL lags, a block is not forgotten.
        let later = begun + 100 * ROW_TTL;
        assert_eq!(relations.take_row(pair(), Contact, later), Blocked);
        let expired = begun + BLOCK_TTL;
        assert_eq!(relations.get(pair(), expired), None);
        assert_eq!(relations.take_row(pair(), Contact, expired), Contact);
        assert_eq!(relations.get(pair(), expired), Some(Contact));
    }

    #[test]
    fn a_row_that_may_be_older_than_an_event_counts_and_is_not_kept() {
        let begun = Instant::now();
        let mut relations = Relations::default();
        assert!(relations.learn(pair(), &change(!BLOCK), begun));
        assert_eq!(relations.take_row(pair(), Contact, begun), Contact);
        assert_eq!(relations.get(pair(), begun), None);
        let projected = begun + PROJECTED_IN;
        relations.take_row(pair(), Contact, projected);
        assert_eq!(relations.get(pair(), projected), Some(Contact));
    }
}
