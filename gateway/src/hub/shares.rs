//! What each account has in the rings, so that one account's bytes do not push out what others come back for.

use std::collections::{HashMap, VecDeque};

use schemas::{Partition, PartitionMap, UserId};

use super::ring::PartitionRing;

/// The events of all accounts in the rings, as far as they are whole.
#[derive(Default)]
pub(super) struct Shares(HashMap<UserId, Share>);

#[derive(Default)]
struct Share {
    bytes: usize,
    /// In the order in which they came: partition, number in its ring, bytes.
    events: VecDeque<(Partition, u64, usize)>,
}

impl Shares {
    /// An event of an account is whole in a ring. If the account's whole events have more than `limit` bytes, the oldest of them are stripped.
    pub(super) fn add(
        &mut self,
        author: UserId,
        event: (Partition, u64, usize),
        limit: usize,
        rings: &mut PartitionMap<PartitionRing>,
    ) {
        let share = self.0.entry(author).or_default();
        share.bytes += event.2;
        share.events.push_back(event);
        let is_gone =
            |(partition, number, _): &(Partition, u64, usize)| *number < rings[*partition].first();
        while share.events.front().is_some_and(is_gone) {
            share.events.pop_front();
        }
        while share.bytes > limit
            && share.events.len() > 1
            && let Some((partition, number, bytes)) = share.events.pop_front()
        {
            if number >= rings[partition].first() {
                rings[partition].strip(number);
                share.bytes -= bytes;
            }
        }
    }

    /// An event that was whole has left its ring.
    pub(super) fn remove(&mut self, author: UserId, bytes: usize) {
        if let Some(share) = self.0.get_mut(&author) {
            share.bytes = share.bytes.saturating_sub(bytes);
            if share.bytes == 0 {
                self.0.remove(&author);
            }
        }
    }
}
