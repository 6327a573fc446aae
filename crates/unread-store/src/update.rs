use std::collections::BTreeMap;

use schemas::{DeviceClass, Ordinal, UserId, event::ReadPosition};

use crate::{Connection, Generation, UnreadError, WatermarkMove, scripts};

/// What a batch of events says to one user's keys: maxima, so that it may be applied again and in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserUpdate {
    /// Whose keys.
    pub uid: UserId,
    /// Whether the user did something, which renews the expiry.
    pub renew: bool,
    /// Whether there was a read position without its ordinal: the state cannot be right any more and is dropped.
    pub forget: bool,
    /// What is told of each peer.
    pub peers: BTreeMap<UserId, PeerUpdate>,
}

/// What a batch tells of one peer; `None` where it tells nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerUpdate {
    /// Ordinal of the peer's newest message.
    pub n: Option<Ordinal>,
    /// Ordinal of the last one read on a PC.
    pub pc_n: Option<Ordinal>,
    /// Ordinal of the last one read on a mobile.
    pub mobile_n: Option<Ordinal>,
}

impl UserUpdate {
    /// Nothing yet.
    #[must_use]
    pub fn new(uid: UserId) -> Self {
        Self {
            uid,
            renew: false,
            forget: false,
            peers: BTreeMap::new(),
        }
    }

    /// Adds the peer's n-th message to this user. A note to oneself is never unread and adds nothing.
    pub fn message(&mut self, peer: UserId, n: Ordinal) {
        if peer != self.uid {
            let told = &mut self.peers.entry(peer).or_default().n;
            *told = (*told).max(Some(n));
        }
    }

    /// Adds a read position of this user.
    pub fn read(&mut self, position: &ReadPosition) {
        self.renew = true;
        if position.peer == self.uid {
            return;
        }
        let Some(n) = position.n else {
            self.forget = true;
            return;
        };
        let peer = self.peers.entry(position.peer).or_default();
        let told = match position.device {
            DeviceClass::Pc => &mut peer.pc_n,
            DeviceClass::Mobile => &mut peer.mobile_n,
        };
        *told = (*told).max(Some(n));
    }
}

/// What became of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchOutcome {
    /// Users whose state is absent, or whose rebuild lost its holder: they are in the wanted set, and need a rebuild.
    pub absent: Vec<UserId>,
}

/// How many users go to Redis in one write; bounds what both sides buffer.
const USERS_PER_PIPELINE: usize = 512;

/// What the script answers for a user without a state.
const ABSENT: i64 = 0;

impl Connection {
    /// Applies a batch, then moves its watermarks, all on this connection (PROTOCOL R1). `generation` is that of the watermarks.
    /// After an error the whole batch may be applied again.
    ///
    /// # Errors
    /// [`UnreadError::MarksMoved`]: read the watermarks again and follow the plan. [`UnreadError::Transient`] and
    /// [`UnreadError::Broken`]: the same on a new connection.
    pub async fn apply_batch(
        &mut self,
        generation: Generation,
        updates: &[UserUpdate],
        moves: &[WatermarkMove],
    ) -> Result<BatchOutcome, UnreadError> {
        let mut outcome = BatchOutcome::default();
        for chunk in updates.chunks(USERS_PER_PIPELINE) {
            outcome.absent.extend(self.apply(generation, chunk).await?);
        }
        // Only now: a watermark must never be ahead of what was applied.
        self.move_marks(moves).await?;
        Ok(outcome)
    }

    /// Applies updates; answers the users that are absent.
    async fn apply(
        &self,
        generation: Generation,
        updates: &[UserUpdate],
    ) -> Result<Vec<UserId>, UnreadError> {
        let mut pipe = redis::pipe();
        for update in updates {
            pipe.add_command(self.apply_command(generation, update));
        }
        let answers: Vec<i64> = self.run(&pipe).await?;
        let absent = updates.iter().zip(answers);
        Ok(absent
            .filter(|(_, answer)| *answer == ABSENT)
            .map(|(update, _)| update.uid)
            .collect())
    }

    fn apply_command(&self, generation: Generation, update: &UserUpdate) -> redis::Cmd {
        let mut cmd = scripts::call(&scripts::APPLY, &self.keys().of_scripts(update.uid));
        cmd.arg(generation.to_string())
            .arg(self.expiry_ms())
            .arg(i64::from(update.renew))
            .arg(i64::from(update.forget))
            .arg(update.uid.get());
        for (peer, told) in &update.peers {
            cmd.arg(peer.get());
            for ordinal in [told.n, told.pc_n, told.mobile_n] {
                cmd.arg(ordinal.map(|n| n.to_string()).unwrap_or_default());
            }
        }
        cmd
    }
}

#[cfg(test)]
mod tests {
    use schemas::Mid;

    use super::*;

    fn user(uid: i64) -> UserId {
        uid.try_into().unwrap()
    }

    fn n(n: i64) -> Ordinal {
        n.try_into().unwrap()
    }

    fn position(peer: i64, device: DeviceClass, n: Option<Ordinal>) -> ReadPosition {
        ReadPosition {
            uid: user(1),
            peer: user(peer),
            device,
            mid: Mid::ZERO.next(),
            n,
        }
    }

    #[test]
    fn a_batch_folds_to_its_maxima() {
        let mut update = UserUpdate::new(user(1));
        update.message(user(2), n(5));
        update.message(user(2), n(4));
        assert!(!update.renew);
        update.read(&position(2, DeviceClass::Pc, Some(n(3))));
        update.read(&position(2, DeviceClass::Pc, Some(n(2))));
        assert!(update.renew && !update.forget);
        let told = PeerUpdate {
            n: Some(n(5)),
            pc_n: Some(n(3)),
            mobile_n: None,
        };
        assert_eq!(update.peers, BTreeMap::from([(user(2), told)]));
    }

    #[test]
    fn a_position_without_ordinal_forgets() {
        let mut update = UserUpdate::new(user(1));
        update.read(&position(2, DeviceClass::Mobile, None));
        assert!(update.forget);
    }

    #[test]
    fn notes_to_oneself_are_never_unread() {
        let mut update = UserUpdate::new(user(1));
        update.message(user(1), n(1));
        update.read(&position(1, DeviceClass::Pc, None));
        assert!(update.peers.is_empty() && update.renew && !update.forget);
    }
}
