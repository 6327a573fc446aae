use schemas::{Partition, UserId};
use uuid::Uuid;

use crate::{Connection, Generation, PeerOrdinals, UnreadError, scripts};

/// The right to complete a user's state (PROTOCOL R4), until somebody takes it over or the state goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebuild {
    uid: UserId,
    generation: Generation,
    nonce: Uuid,
    place: Place,
}

/// Where a state is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Nobody reads what is there.
    Its,
    /// What is there is complete, and read until the new one takes its place.
    Beside,
}

impl Rebuild {
    /// Whose state.
    #[must_use]
    pub fn uid(&self) -> UserId {
        self.uid
    }
}

/// Where a user's state stands after a rebuild was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begin {
    /// It is ours: from now on events apply to it. Take the ends of `chat.events` *now*, wait until the contact rows
    /// reach them, read the rows, complete.
    Begun(Rebuild),
    /// Somebody else is at it.
    Live {
        /// After so many milliseconds it may be taken over.
        wait_ms: u64,
    },
    /// Nothing to do.
    Complete,
}

/// How long a rebuild of everybody that did not end can be gone on with, milliseconds.
const REMEMBERED_MS: u64 = 3_600_000;

/// How many users go to Redis in one write.
const USERS_PER_PIPELINE: usize = 512;

impl Connection {
    /// Makes the state of a user without one, or takes over a rebuild whose lease has ended.
    ///
    /// # Errors
    /// [`UnreadError::NotReady`] on a node without all its watermarks; [`UnreadError::Transient`].
    pub async fn begin_rebuild(&self, uid: UserId, lease_ms: u64) -> Result<Begin, UnreadError> {
        let begun = self.begin_rebuilds(&[uid], lease_ms).await?;
        let (_, begin) = begun.into_iter().next().ok_or(UnreadError::NotReady)?;
        Ok(begin)
    }

    /// [`Self::begin_rebuild`] for many users, in few round trips.
    ///
    /// # Errors
    /// As there. What was begun before an error is left to its lease.
    pub async fn begin_rebuilds(
        &self,
        uids: &[UserId],
        lease_ms: u64,
    ) -> Result<Vec<(UserId, Begin)>, UnreadError> {
        let watermarks = self.read_marks().await?;
        let generation = watermarks.generation().ok_or(UnreadError::NotReady)?;
        let mut begun = Vec::with_capacity(uids.len());
        for chunk in uids.chunks(USERS_PER_PIPELINE) {
            let rebuilds = rebuilds_of(chunk, generation, Place::Its);
            let answered: Vec<(Rebuild, (u8, u64))> = self
                .begin(&scripts::BEGIN_REBUILD, rebuilds, lease_ms)
                .await?;
            begun.extend(answered.into_iter().map(|(rebuild, answer)| match answer {
                (0, _) => (rebuild.uid, Begin::Begun(rebuild)),
                (1, wait_ms) => (rebuild.uid, Begin::Live { wait_ms }),
                _ => (rebuild.uid, Begin::Complete),
            }));
        }
        Ok(begun)
    }

    /// Asks a script for each of the rebuilds, in one round trip; its answers.
    async fn begin<A: redis::FromRedisValue>(
        &self,
        script: &redis::Script,
        rebuilds: Vec<Rebuild>,
        lease_ms: u64,
    ) -> Result<Vec<(Rebuild, A)>, UnreadError> {
        let mut pipe = redis::pipe();
        for rebuild in &rebuilds {
            pipe.add_command(self.rebuild_command(script, rebuild))
                .arg(lease_ms);
        }
        let answers: Vec<A> = self.run(&pipe).await?;
        Ok(rebuilds.into_iter().zip(answers).collect())
    }

    /// Begins states beside complete ones; those that have none are not in the answer. As with any other rebuild, take the ends of
    /// `chat.events` after that. It has to be completed within `lease_ms`.
    ///
    /// # Errors
    /// As [`Self::begin_rebuilds`].
    pub async fn begin_beside(
        &self,
        uids: &[UserId],
        lease_ms: u64,
    ) -> Result<Vec<Rebuild>, UnreadError> {
        let watermarks = self.read_marks().await?;
        let generation = watermarks.generation().ok_or(UnreadError::NotReady)?;
        let mut begun = Vec::with_capacity(uids.len());
        for chunk in uids.chunks(USERS_PER_PIPELINE) {
            let rebuilds = rebuilds_of(chunk, generation, Place::Beside);
            let answered: Vec<(Rebuild, i64)> = self
                .begin(&scripts::BEGIN_BESIDE, rebuilds, lease_ms)
                .await?;
            let begins = |(rebuild, answer)| (answer == 1).then_some(rebuild);
            begun.extend(answered.into_iter().filter_map(begins));
        }
        Ok(begun)
    }

    /// How far a rebuild of everybody that did not end has come in the table of users `n`; `None` where it has not begun with it.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn rebuilt_up_to(&self, n: Partition) -> Result<Option<i64>, UnreadError> {
        let mut cmd = redis::cmd("HGET");
        cmd.arg(self.keys().rebuilt()).arg(n.get());
        self.run_one(cmd).await
    }

    /// Remembers for an hour that everybody in the table of users `n` up to `uid` is done.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn note_rebuilt(&self, n: Partition, uid: i64) -> Result<(), UnreadError> {
        let key = self.keys().rebuilt();
        let mut pipe = redis::pipe();
        pipe.cmd("HSET").arg(&key).arg(n.get()).arg(uid).ignore();
        pipe.cmd("PEXPIRE").arg(&key).arg(REMEMBERED_MS).ignore();
        self.run(&pipe).await
    }

    /// Forgets it: it has ended.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn forget_rebuilt(&self) -> Result<(), UnreadError> {
        let mut cmd = redis::cmd("DEL");
        cmd.arg(self.keys().rebuilt());
        self.run_one::<i64>(cmd).await.map(drop)
    }

    /// Keeps others from taking these rebuilds over for another `lease_ms`; does nothing for those that have been completed, taken over or
    /// dropped.
    ///
    /// # Errors
    /// [`UnreadError::Transient`]; some may have been renewed.
    pub async fn renew_rebuilds(
        &self,
        rebuilds: &[Rebuild],
        lease_ms: u64,
    ) -> Result<(), UnreadError> {
        for chunk in rebuilds.chunks(USERS_PER_PIPELINE) {
            let mut pipe = redis::pipe();
            for rebuild in chunk {
                pipe.add_command(self.rebuild_command(&scripts::RENEW_REBUILD, rebuild))
                    .arg(lease_ms)
                    .ignore();
            }
            self.run::<()>(&pipe).await?;
        }
        Ok(())
    }

    /// Merges what the user's contact rows say into the state, makes the views, and takes the user off the wanted set.
    ///
    /// `false` where nothing was completed, because the rebuild was taken over, the state went, or (rarely) what was
    /// applied since cannot be compared with the rows: begin again, or find it done by another.
    ///
    /// # Errors
    /// [`UnreadError::Transient`]; whether it was completed is then unknown.
    pub async fn complete_rebuild(
        &self,
        rebuild: &Rebuild,
        peers: &[(UserId, PeerOrdinals)],
    ) -> Result<bool, UnreadError> {
        let script = match rebuild.place {
            Place::Its => &scripts::COMPLETE_REBUILD,
            Place::Beside => &scripts::COMPLETE_BESIDE,
        };
        let mut cmd = self.rebuild_command(script, rebuild);
        for (peer, ordinals) in peers {
            cmd.arg(peer.get()).arg(&ordinals.as_args());
        }
        Ok(self.run_one::<i64>(cmd).await? == 1)
    }

    fn rebuild_command(&self, script: &redis::Script, rebuild: &Rebuild) -> redis::Cmd {
        let mut cmd = scripts::call(script, &self.keys().of_scripts(rebuild.uid));
        cmd.arg(rebuild.generation.to_string())
            .arg(self.expiry_ms())
            .arg(rebuild.uid.get())
            .arg(rebuild.nonce.to_string());
        cmd
    }
}

fn rebuilds_of(uids: &[UserId], generation: Generation, place: Place) -> Vec<Rebuild> {
    let rebuilds = uids.iter().map(|uid| Rebuild {
        uid: *uid,
        generation,
        nonce: Uuid::new_v4(),
        place,
    });
    rebuilds.collect()
}
