use std::collections::BTreeMap;

use redis::{FromRedisValue, Value};
use schemas::{DeviceClass, Partition, UserId, event::SourceOffset};

use crate::{Connection, UnreadError, UserState, Watermark, scripts};

/// What a read does to the user's expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Begins it anew: the user asked.
    Renew,
    /// Leaves it: an operator or a check asked.
    Keep,
}

/// One user as Redis has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserView {
    /// Everything that the watermarks say was applied.
    Complete(UserState),
    /// Not to be read yet; somebody is at it, or was.
    Rebuilding,
    /// Not there, or of another generation: not the same as nothing unread.
    Absent,
}

/// One user's unread messages on one class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnreadView {
    /// Everything that the watermarks say was applied.
    Complete {
        /// Unread messages by sender, none at zero.
        counts: BTreeMap<UserId, i64>,
        /// Senders whose unread messages cannot be counted (PROTOCOL R5).
        unknown: Vec<UserId>,
    },
    /// Not to be read yet; somebody is at it, or was.
    Rebuilding,
    /// Not there, or of another generation: not the same as nothing unread.
    Absent,
}

impl UserView {
    /// What it says of one class.
    #[must_use]
    pub fn unread(&self, device: DeviceClass) -> UnreadView {
        match self {
            Self::Complete(state) => UnreadView::Complete {
                counts: state.counts(device),
                unknown: state.unknown(device),
            },
            Self::Rebuilding => UnreadView::Rebuilding,
            Self::Absent => UnreadView::Absent,
        }
    }
}

/// What was read, and how fresh it is at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreshView<V = UserView> {
    /// What was read, after the watermarks.
    pub view: V,
    /// The watermarks of the partitions asked for, read before it on the same connection.
    pub watermarks: Vec<(Partition, Watermark)>,
    /// Whether those watermarks have reached what was needed. If not, the view may miss it: read again later.
    pub reached: bool,
}

impl Connection {
    /// One user's unread messages on one class.
    ///
    /// # Errors
    /// [`UnreadError::NotReady`] on a node without watermarks; [`UnreadError::Transient`], [`UnreadError::Malformed`].
    pub async fn read_unread(
        &self,
        uid: UserId,
        device: DeviceClass,
        expiry: Expiry,
    ) -> Result<UnreadView, UnreadError> {
        let read = self.read_unread_after(uid, device, expiry, &[]);
        Ok(read.await?.view)
    }

    /// [`Self::read_unread`], and whether it reflects `needed` (PROTOCOL A): watermarks first, then the key, in one go.
    ///
    /// # Errors
    /// As there.
    pub async fn read_unread_after(
        &self,
        uid: UserId,
        device: DeviceClass,
        expiry: Expiry,
        needed: &[(Partition, SourceOffset)],
    ) -> Result<FreshView<UnreadView>, UnreadError> {
        let read = self.read_user_after(uid, expiry, needed).await?;
        Ok(FreshView {
            view: read.view.unread(device),
            watermarks: read.watermarks,
            reached: read.reached,
        })
    }

    /// All that Redis has of one user, for both classes.
    ///
    /// # Errors
    /// As [`Self::read_unread`].
    pub async fn read_user(&self, uid: UserId, expiry: Expiry) -> Result<UserView, UnreadError> {
        Ok(self.read_user_after(uid, expiry, &[]).await?.view)
    }

    /// [`Self::read_user`], and whether it reflects `needed` (PROTOCOL A).
    ///
    /// # Errors
    /// As [`Self::read_unread`].
    pub async fn read_user_after(
        &self,
        uid: UserId,
        expiry: Expiry,
        needed: &[(Partition, SourceOffset)],
    ) -> Result<FreshView, UnreadError> {
        let keys = self.keys().of_scripts(uid);
        // Any watermark tells the node's generation.
        let first = Partition::all().take(1);
        let partitions: Vec<Partition> = first.chain(needed.iter().map(|(p, _)| *p)).collect();
        let mut pipe = redis::pipe();
        for partition in &partitions {
            pipe.add_command(self.get_mark(*partition));
        }
        pipe.add_command(scripts::call(&scripts::READ, &keys))
            .arg(self.expiry_ms())
            .arg(i64::from(expiry == Expiry::Renew));
        let mut answers: Vec<Value> = self.run(&pipe).await?;

        let fields = answers.pop().unwrap_or(Value::Nil);
        let state = UserState::parse(&keys[0], parse(fields)?)?;
        let mut watermarks = Vec::with_capacity(partitions.len());
        for (partition, answer) in partitions.into_iter().zip(answers) {
            let watermark = self.parse_mark(partition, parse(answer)?)?;
            watermarks.push((partition, watermark.ok_or(UnreadError::NotReady)?));
        }
        let (_, first) = watermarks.remove(0);
        let reached =
            |(need, (_, watermark)): (&(Partition, SourceOffset), &(Partition, Watermark))| {
                watermark.src.reaches(need.1)
            };
        Ok(FreshView {
            reached: needed.iter().zip(&watermarks).all(reached),
            view: view(state.filter(|state| state.generation == first.generation)),
            watermarks,
        })
    }
}

fn view(state: Option<UserState>) -> UserView {
    match state {
        None => UserView::Absent,
        Some(state) if state.rebuilding.is_some() => UserView::Rebuilding,
        Some(state) => UserView::Complete(state),
    }
}

fn parse<T: FromRedisValue>(answer: Value) -> Result<T, UnreadError> {
    T::from_redis_value(answer).map_err(|error| UnreadError::Transient(error.into()))
}
