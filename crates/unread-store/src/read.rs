use std::collections::{BTreeMap, BTreeSet};

use redis::{FromRedisValue, Value};
use schemas::{DeviceClass, Partition, UserId, event::SourceOffset};
use tokio::time::{Instant, sleep};

use crate::{
    Connection, StoredPosition, StoredPositions, UnreadError, UserState,
    scripts::{self, PEERS_PER_CALL},
    state::parse_peer,
};

/// The effect of a read on the expiry of the user's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Restarts it: the user has read.
    Renew,
    /// Leaves it: an operator or a check has read.
    Keep,
}

/// A user's state, for both classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserView {
    /// All events before the stored positions are applied.
    Complete(UserState),
    /// The state has more peers than one call reads: use [`Connection::read_unread_in_pages`].
    Large,
    /// A rebuild has begun and is not complete: there is nothing to read yet.
    Rebuilding,
    /// There is no state, or one of another generation. This does not mean that nothing is unread.
    Absent,
}

/// A user's unread messages on one class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnreadView {
    /// All events before the stored positions are applied.
    Complete {
        /// Unread messages by sender, none at zero.
        counts: BTreeMap<UserId, i64>,
        /// Senders whose unread messages cannot be counted (PROTOCOL R5).
        unknown: Vec<UserId>,
    },
    /// The user has more peers than one call reads: use [`Connection::read_unread_in_pages`].
    Large,
    /// A rebuild has begun and is not complete: there is nothing to read yet.
    Rebuilding,
    /// There is no state, or one of another generation. This does not mean that nothing is unread.
    Absent,
}

impl UserView {
    /// The unread messages on one class.
    #[must_use]
    pub fn unread(&self, device: DeviceClass) -> UnreadView {
        match self {
            Self::Complete(state) => UnreadView::Complete {
                counts: state.counts(device),
                unknown: state.unknown(device),
            },
            Self::Large => UnreadView::Large,
            Self::Rebuilding => UnreadView::Rebuilding,
            Self::Absent => UnreadView::Absent,
        }
    }
}

/// A view, and the positions that it reflects at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewWithPositions<V = UserView> {
    /// The view, read after the positions.
    pub view: V,
    /// The positions of the required partitions, read on the same connection.
    pub positions: Vec<(Partition, StoredPosition)>,
    /// Whether those positions have reached the required ones. If not, read again later.
    pub reached: bool,
}

impl Connection {
    /// Reads a user's unread messages on one class.
    ///
    /// # Errors
    /// [`UnreadError::NotReady`] on a slot without positions; [`UnreadError::Transient`], [`UnreadError::Malformed`].
    pub async fn read_unread(
        &self,
        uid: UserId,
        device: DeviceClass,
        expiry: Expiry,
    ) -> Result<UnreadView, UnreadError> {
        let read = self.read_unread_after(uid, device, expiry, &[]);
        Ok(read.await?.view)
    }

    /// [`Self::read_unread`], and whether it reflects `required` (PROTOCOL A): reads positions first, then the key, in one pipeline.
    ///
    /// # Errors
    /// As [`Self::read_unread`].
    pub async fn read_unread_after(
        &self,
        uid: UserId,
        device: DeviceClass,
        expiry: Expiry,
        required: &[(Partition, SourceOffset)],
    ) -> Result<ViewWithPositions<UnreadView>, UnreadError> {
        let read = self.read_user_after(uid, expiry, required).await?;
        Ok(ViewWithPositions {
            view: read.view.unread(device),
            positions: read.positions,
            reached: read.reached,
        })
    }

    /// Reads a user's state, for both classes.
    ///
    /// # Errors
    /// As [`Self::read_unread`].
    pub async fn read_user(&self, uid: UserId, expiry: Expiry) -> Result<UserView, UnreadError> {
        Ok(self.read_user_after(uid, expiry, &[]).await?.view)
    }

    /// [`Self::read_user`], and whether it reflects `required` (PROTOCOL A).
    ///
    /// # Errors
    /// As [`Self::read_unread`].
    pub async fn read_user_after(
        &self,
        uid: UserId,
        expiry: Expiry,
        required: &[(Partition, SourceOffset)],
    ) -> Result<ViewWithPositions, UnreadError> {
        let keys = self.keys().of_scripts(uid);
        // Any position has the slot's generation.
        let first = Partition::all().take(1);
        let partitions: Vec<Partition> = first.chain(required.iter().map(|(p, _)| *p)).collect();
        let mut pipe = redis::pipe();
        for partition in &partitions {
            pipe.add_command(self.get_position(*partition));
        }
        pipe.add_command(scripts::call(&scripts::READ, &keys))
            .arg(self.expiry_ms())
            .arg(i64::from(expiry == Expiry::Renew))
            .arg(PEERS_PER_CALL);
        let mut responses: Vec<Value> = self.run(&pipe).await?;

        let fields = responses.pop().unwrap_or(Value::Nil);
        let is_large = matches!(fields, Value::Int(_));
        let state = match is_large {
            true => None,
            false => UserState::parse(&keys[0], parse(fields)?)?,
        };
        let mut positions = Vec::with_capacity(partitions.len());
        for (partition, response) in partitions.into_iter().zip(responses) {
            let stored = self.parse_position(partition, parse(response)?)?;
            positions.push((partition, stored.ok_or(UnreadError::NotReady)?));
        }
        let (_, first) = positions.remove(0);
        let mut pairs = required.iter().zip(&positions);
        Ok(ViewWithPositions {
            reached: pairs
                .all(|((_, required), (_, stored))| stored.position.watermark.reaches(*required)),
            view: match is_large {
                true => UserView::Large,
                false => view(state.filter(|state| state.generation == first.generation)),
            },
            positions,
        })
    }

    /// Reads the unread messages on one class of a user with any number of peers, and the positions that they reflect at least. No call is long. Each
    /// count is from a moment after the positions were read; the counts of two senders may be from different moments.
    ///
    /// # Errors
    /// As [`Self::read_unread`].
    pub async fn read_unread_in_pages(
        &self,
        uid: UserId,
        device: DeviceClass,
    ) -> Result<(UnreadView, StoredPositions), UnreadError> {
        let positions = self.read_positions().await?;
        let generation = positions.generation().ok_or(UnreadError::NotReady)?;
        let key = self.keys().state(uid);
        let (mut counts, mut unknown) = (BTreeMap::new(), BTreeSet::new());
        let mut cursor = 0;
        loop {
            let began = Instant::now();
            let ((found, rebuilding), (next, peers)) = self.read_page(&key, cursor).await?;
            // Checked with each page: a state that is being rebuilt has only the events since the rebuild began.
            if found.and_then(|text| text.parse().ok()) != Some(generation) {
                return Ok((UnreadView::Absent, positions));
            }
            if rebuilding.is_some() {
                return Ok((UnreadView::Rebuilding, positions));
            }
            for (peer, ordinals) in &peers {
                if peer == "gen" {
                    continue;
                }
                let (peer, ordinals) = parse_peer(&key, peer, ordinals)?;
                // A page may repeat a peer of an earlier one, with a later value.
                counts.remove(&peer);
                unknown.remove(&peer);
                match ordinals.unread(device) {
                    Some(0) => {}
                    Some(unread) => drop(counts.insert(peer, unread)),
                    None => drop(unknown.insert(peer)),
                }
            }
            if next == 0 {
                let unknown = unknown.into_iter().collect();
                return Ok((UnreadView::Complete { counts, unknown }, positions));
            }
            cursor = next;
            // Redis has half of the time for its other clients.
            sleep(began.elapsed()).await;
        }
    }

    /// A page of a state: its generation and rebuild, the cursor of the next page, the fields.
    async fn read_page(&self, key: &str, cursor: u64) -> Result<Page, UnreadError> {
        let mut pipe = redis::pipe();
        pipe.atomic();
        pipe.cmd("HMGET").arg(key).arg("gen").arg("rebuilding");
        pipe.cmd("HSCAN").arg(key).arg(cursor);
        pipe.arg("COUNT").arg(PEERS_PER_CALL);
        self.run(&pipe).await
    }
}

type Page = (
    (Option<String>, Option<String>),
    (u64, Vec<(String, String)>),
);

fn view(state: Option<UserState>) -> UserView {
    match state {
        None => UserView::Absent,
        Some(state) if state.rebuilding.is_some() => UserView::Rebuilding,
        Some(state) => UserView::Complete(state),
    }
}

pub(crate) fn parse<T: FromRedisValue>(response: Value) -> Result<T, UnreadError> {
    T::from_redis_value(response).map_err(|error| UnreadError::Transient(error.into()))
}
