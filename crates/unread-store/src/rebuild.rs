use schemas::{TableNumber, UserId};
use uuid::Uuid;

use crate::{
    Connection, Generation, PeerOrdinals, UnreadError,
    scripts::{self, PEERS_PER_CALL},
};

/// The lease of one rebuild of a user (PROTOCOL R4), valid until another process takes it over or the state is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebuild {
    uid: UserId,
    generation: Generation,
    nonce: Uuid,
    target: Target,
}

/// The hash that a rebuild fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// The state itself, which readers do not use meanwhile.
    State,
    /// A hash beside the complete state. Readers use the state until the shadow replaces it.
    Shadow,
}

impl Rebuild {
    /// The user.
    #[must_use]
    pub fn uid(&self) -> UserId {
        self.uid
    }
}

/// The result of beginning a rebuild.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeginOutcome {
    /// This caller has the lease, and from now on events apply to the state. Read the ends of `chat.events` *now*, wait until the
    /// contact rows reach them, read the rows, complete.
    Begun(Rebuild),
    /// Another process has the lease.
    InProgress {
        /// Milliseconds until the lease expires and may be taken over.
        wait_ms: u64,
    },
    /// The user is complete.
    Complete,
}

/// How long the progress of an interrupted rebuild of all users is stored, milliseconds.
const PROGRESS_EXPIRY_MS: u64 = 3_600_000;

/// How many users go to Redis in one pipeline.
const USERS_PER_PIPELINE: usize = 512;

/// Results of the scripts that build a state.
const DONE: i64 = 1;
const TOO_MANY: i64 = 2;

impl Connection {
    /// Creates the state of an absent user, or takes over a rebuild whose lease has expired.
    ///
    /// # Errors
    /// [`UnreadError::NotReady`] on a slot without all its positions; [`UnreadError::Transient`].
    pub async fn begin_rebuild(
        &self,
        uid: UserId,
        lease_ms: u64,
    ) -> Result<BeginOutcome, UnreadError> {
        let (uids, nonce) = ([uid], Uuid::new_v4());
        let begun = self.begin_rebuilds(&uids, nonce, lease_ms).await?;
        let (_, outcome) = begun.into_iter().next().ok_or(UnreadError::NotReady)?;
        Ok(outcome)
    }

    /// [`Self::begin_rebuild`] for many users, in few round trips. A caller that repeats the call after an error has to repeat the nonce: under
    /// another nonce, rebuilds begun before the error are in progress.
    ///
    /// # Errors
    /// As [`Self::begin_rebuild`]. Rebuilds begun before an error keep their lease until it expires.
    pub async fn begin_rebuilds(
        &self,
        uids: &[UserId],
        nonce: Uuid,
        lease_ms: u64,
    ) -> Result<Vec<(UserId, BeginOutcome)>, UnreadError> {
        let script = &scripts::BEGIN_REBUILD;
        let begun: Vec<(Rebuild, (u8, u64))> = self
            .begin(script, uids, nonce, Target::State, lease_ms)
            .await?;
        let outcome = |(rebuild, result): (Rebuild, (u8, u64))| match result {
            (0, _) => (rebuild.uid, BeginOutcome::Begun(rebuild)),
            (1, wait_ms) => (rebuild.uid, BeginOutcome::InProgress { wait_ms }),
            _ => (rebuild.uid, BeginOutcome::Complete),
        };
        Ok(begun.into_iter().map(outcome).collect())
    }

    /// Begins shadow states of those users that are complete. As with any rebuild, read the ends of `chat.events` afterwards. Each has to be
    /// completed within `lease_ms`.
    ///
    /// # Errors
    /// As [`Self::begin_rebuilds`].
    pub async fn begin_shadow_rebuilds(
        &self,
        uids: &[UserId],
        lease_ms: u64,
    ) -> Result<Vec<Rebuild>, UnreadError> {
        let (script, nonce) = (&scripts::BEGIN_SHADOW, Uuid::new_v4());
        let begun: Vec<(Rebuild, i64)> = self
            .begin(script, uids, nonce, Target::Shadow, lease_ms)
            .await?;
        let begun = begun.into_iter().filter(|(_, result)| *result == 1);
        Ok(begun.map(|(rebuild, _)| rebuild).collect())
    }

    /// Runs the script for each of the users. Returns the scripts' results.
    async fn begin<R: redis::FromRedisValue>(
        &self,
        script: &redis::Script,
        uids: &[UserId],
        nonce: Uuid,
        target: Target,
        lease_ms: u64,
    ) -> Result<Vec<(Rebuild, R)>, UnreadError> {
        let positions = self.read_positions().await?;
        let generation = positions.generation().ok_or(UnreadError::NotReady)?;
        let mut begun = Vec::with_capacity(uids.len());
        for chunk in uids.chunks(USERS_PER_PIPELINE) {
            let rebuilds: Vec<Rebuild> = chunk
                .iter()
                .map(|uid| Rebuild {
                    uid: *uid,
                    generation,
                    nonce,
                    target,
                })
                .collect();
            let mut pipe = redis::pipe();
            for rebuild in &rebuilds {
                pipe.add_command(self.rebuild_command(script, rebuild))
                    .arg(lease_ms);
            }
            let results: Vec<R> = self.run(&pipe).await?;
            begun.extend(rebuilds.into_iter().zip(results));
        }
        Ok(begun)
    }

    /// The progress of an interrupted rebuild of all users: the highest uid of `table` that is done. `None` if the table has not been begun.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn rebuild_progress(&self, table: TableNumber) -> Result<Option<i64>, UnreadError> {
        let mut cmd = redis::cmd("HGET");
        cmd.arg(self.keys().rebuild_progress()).arg(table.get());
        self.run_one(cmd).await
    }

    /// Stores, for an hour, that all users of `table` up to `uid` are done.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn set_rebuild_progress(
        &self,
        table: TableNumber,
        uid: i64,
    ) -> Result<(), UnreadError> {
        let key = self.keys().rebuild_progress();
        let mut pipe = redis::pipe();
        pipe.cmd("HSET")
            .arg(&key)
            .arg(table.get())
            .arg(uid)
            .ignore();
        pipe.cmd("PEXPIRE")
            .arg(&key)
            .arg(PROGRESS_EXPIRY_MS)
            .ignore();
        self.run(&pipe).await
    }

    /// Deletes the progress once all users are done.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn clear_rebuild_progress(&self) -> Result<(), UnreadError> {
        let mut cmd = redis::cmd("DEL");
        cmd.arg(self.keys().rebuild_progress());
        self.run_one::<i64>(cmd).await.map(drop)
    }

    /// Extends the leases of these rebuilds to `lease_ms` from now; does nothing for rebuilds that are completed, taken over or dropped.
    ///
    /// # Errors
    /// [`UnreadError::Transient`]; some may have been extended.
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

    /// Builds a state and views from the user's contact rows and the events since the beginning, puts them in place of the user's keys, and removes
    /// the request for the rebuild. No call is long, even with many peers and events: all but the last ones are added in pages beside the keys.
    ///
    /// Returns `false` if nothing was completed, because the rebuild was taken over, the state was dropped, or (rarely) the updates since its
    /// beginning cannot be compared with the rows: begin again, or find it completed by another process.
    ///
    /// # Errors
    /// [`UnreadError::Transient`]; the outcome is then unknown. The call may be repeated, also with later rows.
    pub async fn complete_rebuild(
        &self,
        rebuild: &Rebuild,
        peers: &[(UserId, PeerOrdinals)],
    ) -> Result<bool, UnreadError> {
        let before_last = peers.len().saturating_sub(1) / PEERS_PER_CALL * PEERS_PER_CALL;
        let (pages, mut last) = peers.split_at(before_last);
        for page in pages.chunks(PEERS_PER_CALL) {
            if self.add_peers(&scripts::ADD_PAGE, rebuild, page).await? != DONE {
                return Ok(false);
            }
        }
        loop {
            let completed = self.add_peers(&scripts::COMPLETE_REBUILD, rebuild, last);
            match completed.await? {
                TOO_MANY => {}
                outcome => return Ok(outcome == DONE),
            }
            let added = self.add_peers(&scripts::ADD_PAGE, rebuild, last);
            if added.await? != DONE || !self.move_events(rebuild).await? {
                return Ok(false);
            }
            last = &[];
        }
    }

    async fn add_peers(
        &self,
        script: &redis::Script,
        rebuild: &Rebuild,
        peers: &[(UserId, PeerOrdinals)],
    ) -> Result<i64, UnreadError> {
        let mut cmd = self.rebuild_command(script, rebuild);
        for (peer, ordinals) in peers {
            cmd.arg(peer.get()).arg(&ordinals.as_args());
        }
        self.run_one(cmd).await
    }

    /// Moves the events since the beginning into the new state, page by page. Returns whether this rebuild still has the lease.
    async fn move_events(&self, rebuild: &Rebuild) -> Result<bool, UnreadError> {
        let mut cursor = "0".to_owned();
        loop {
            let mut cmd = self.rebuild_command(&scripts::MOVE_EVENTS, rebuild);
            cmd.arg(&cursor);
            match self.run_one::<Option<String>>(cmd).await? {
                None => return Ok(false),
                Some(next) if next == "0" => return Ok(true),
                Some(next) => cursor = next,
            }
        }
    }

    /// The command that runs a script on a rebuild; the caller adds the script's own arguments.
    fn rebuild_command(&self, script: &redis::Script, rebuild: &Rebuild) -> redis::Cmd {
        let mut keys = self.keys().of_scripts(rebuild.uid).to_vec();
        let [state, .., shadow] = self.keys().of_scripts(rebuild.uid);
        keys.push(match rebuild.target {
            Target::State => state,
            Target::Shadow => shadow.clone(),
        });
        keys.extend(["state", "pc", "mobile"].map(|kind| format!("{shadow}:{kind}")));
        let mut cmd = scripts::call(script, &keys);
        cmd.arg(rebuild.generation.to_string())
            .arg(self.expiry_ms())
            .arg(rebuild.uid.get())
            .arg(rebuild.nonce.to_string());
        cmd
    }
}
