use std::collections::BTreeMap;

use schemas::{Ordinal, PerDevice, Recipient, UserId, event::ReadPosition};

use crate::{
    Connection, Generation, PositionMove, UnreadError,
    scripts::{self, PEERS_PER_CALL},
};

/// The changes of a batch of events to one user's keys. All are maxima, so they may be applied again and in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserUpdate {
    /// The user.
    pub uid: UserId,
    /// Whether the user has read something, which renews the expiry.
    pub renew: bool,
    /// Whether there was a read position without its ordinal: if so, the state is outdated and is dropped.
    pub invalidate: bool,
    /// The changes by peer.
    pub peers: BTreeMap<UserId, PeerUpdate>,
}

/// The changes of a batch to one peer; `None` if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerUpdate {
    /// The ordinal of the peer's newest message.
    pub ordinal: Option<Ordinal>,
    /// The ordinal of the last message read.
    pub read: PerDevice<Option<Ordinal>>,
}

impl UserUpdate {
    /// An update without changes.
    #[must_use]
    pub fn new(uid: UserId) -> Self {
        Self {
            uid,
            renew: false,
            invalidate: false,
            peers: BTreeMap::new(),
        }
    }

    /// Adds the peer's n-th message to this user. A note to oneself is never unread and adds nothing.
    pub fn message(&mut self, peer: UserId, ordinal: Ordinal) {
        if peer != self.uid {
            let newest = &mut self.peers.entry(peer).or_default().ordinal;
            *newest = (*newest).max(Some(ordinal));
        }
    }

    /// Adds a read position of this user in a conversation between two users.
    pub fn read(&mut self, position: &ReadPosition) {
        let peer = match position.to {
            Recipient::User(peer) => peer,
            Recipient::Group(_) => return,
        };
        self.renew = true;
        if peer == self.uid {
            return;
        }
        let Some(n) = position.ordinal else {
            self.invalidate = true;
            return;
        };
        let peer = self.peers.entry(peer).or_default();
        let read = &mut peer.read[position.device];
        *read = (*read).max(Some(n));
    }
}

/// The result of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchOutcome {
    /// Users whose state is absent, or whose rebuild has lost its lease: their rebuild is requested.
    pub absent: Vec<UserId>,
}

/// How many users go to Redis in one pipeline; bounds the buffers on both sides.
const USERS_PER_PIPELINE: usize = 512;

/// The script's result for a user without a state.
const ABSENT: i64 = 0;

impl Connection {
    /// Applies a batch, then moves its positions, all on this connection (PROTOCOL R1). `generation` is that of the positions.
    /// After an error the whole batch may be applied again.
    ///
    /// # Errors
    /// [`UnreadError::PositionsMoved`]: read the positions again and follow the plan. [`UnreadError::Transient`] and [`UnreadError::Broken`]: do the
    /// same on a new connection.
    pub async fn apply_batch(
        &mut self,
        generation: Generation,
        updates: &[UserUpdate],
        moves: &[PositionMove],
    ) -> Result<BatchOutcome, UnreadError> {
        let mut outcome = BatchOutcome::default();
        for chunk in updates.chunks(USERS_PER_PIPELINE) {
            outcome.absent.extend(self.apply(generation, chunk).await?);
        }
        // The positions move last: a position must never be ahead of what was applied.
        self.move_positions(moves).await?;
        Ok(outcome)
    }

    /// Applies updates. Returns the users that are absent.
    async fn apply(
        &self,
        generation: Generation,
        updates: &[UserUpdate],
    ) -> Result<Vec<UserId>, UnreadError> {
        let mut pipe = redis::pipe();
        let mut uids = Vec::with_capacity(updates.len());
        for update in updates {
            let peers: Vec<_> = update.peers.iter().collect();
            let mut left = peers.as_slice();
            // At least one call is made: there may be no peers.
            loop {
                let (page, behind) = left.split_at(left.len().min(PEERS_PER_CALL));
                pipe.add_command(self.apply_command(generation, update, page));
                uids.push(update.uid);
                left = behind;
                if left.is_empty() {
                    break;
                }
            }
        }
        let results: Vec<i64> = self.run(&pipe).await?;
        let with_results = uids.into_iter().zip(results);
        let mut absent: Vec<UserId> = with_results
            .filter(|(_, result)| *result == ABSENT)
            .map(|(uid, _)| uid)
            .collect();
        absent.dedup();
        Ok(absent)
    }

    fn apply_command(
        &self,
        generation: Generation,
        update: &UserUpdate,
        peers: &[(&UserId, &PeerUpdate)],
    ) -> redis::Cmd {
        let mut cmd = scripts::call(&scripts::APPLY, &self.keys().of_scripts(update.uid));
        cmd.arg(generation.to_string())
            .arg(self.expiry_ms())
            .arg(i64::from(update.renew))
            .arg(i64::from(update.invalidate))
            .arg(update.uid.get());
        for (peer, PeerUpdate { ordinal: n, read }) in peers {
            cmd.arg(peer.get());
            for ordinal in [*n, read.pc, read.mobile] {
                cmd.arg(ordinal.map(|n| n.to_string()).unwrap_or_default());
            }
        }
        cmd
    }
}

#[cfg(test)]
mod tests {
    use schemas::{DeviceClass, Mid};

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
            to: Recipient::User(user(peer)),
            device,
            mid: Mid::ZERO.next(),
            ordinal: n,
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
        assert!(update.renew && !update.invalidate);
        let expected = PeerUpdate {
            ordinal: Some(n(5)),
            read: PerDevice {
                pc: Some(n(3)),
                mobile: None,
            },
        };
        assert_eq!(update.peers, BTreeMap::from([(user(2), expected)]));
    }

    #[test]
    fn a_position_without_ordinal_invalidates_the_state() {
        let mut update = UserUpdate::new(user(1));
        update.read(&position(2, DeviceClass::Mobile, None));
        assert!(update.invalidate);
    }

    #[test]
    fn notes_to_oneself_are_never_unread() {
        let mut update = UserUpdate::new(user(1));
        update.message(user(1), n(1));
        update.read(&position(1, DeviceClass::Pc, None));
        assert!(update.peers.is_empty() && update.renew && !update.invalidate);
    }
}
