use std::collections::BTreeMap;

use schemas::{DeviceClass, Ordinal, PerDevice, UserId};
use unread_store::{Generation, RawKey, RawUser};

/// The keys that Redis has of one user, with the compared peers only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RedisKeys {
    pub(crate) state: StateHash,
    /// `pc-<uid>` and `mobile-<uid>`; empty if absent.
    pub(crate) views: PerDevice<BTreeMap<UserId, i64>>,
    /// Whether a key has no expiry; each should have one.
    pub(crate) lacks_expiry: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum StateHash {
    /// The state expired, was flushed, was never written, or is of another generation than its slot.
    #[default]
    Absent,
    /// The state is being rebuilt.
    Rebuilding,
    /// The ordinals by peer.
    Complete(BTreeMap<UserId, Ordinals>),
}

/// n of the peer's newest message, and of the newest that was read; `None` if unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ordinals {
    pub(crate) ordinal: i64,
    pub(crate) reads: PerDevice<Option<i64>>,
}

impl Ordinals {
    pub(crate) const ZERO: Self = Self {
        ordinal: 0,
        reads: PerDevice {
            pc: Some(0),
            mobile: Some(0),
        },
    };

    /// The unread count, unless it is zero or unknown.
    pub(crate) fn unread(&self, device: DeviceClass) -> Option<i64> {
        self.reads[device]
            .map(|read| self.ordinal - read)
            .filter(|unread| *unread > 0)
    }
}

impl RedisKeys {
    pub(crate) fn new(
        user: RawUser,
        generation: Generation,
        is_compared: impl Fn(UserId) -> bool,
    ) -> Self {
        let RawUser { state, views } = user;
        let is_permanent = |view: &Option<_>| view.as_ref().is_some_and(has_no_expiry);
        let lacks_expiry = state.as_ref().is_some_and(has_no_expiry)
            || views.iter().any(|(_, view)| is_permanent(view));
        let state = state.map(|key| key.value);
        let state = match state.filter(|state| state.generation == generation) {
            None => StateHash::Absent,
            Some(state) if state.rebuilding.is_some() => StateHash::Rebuilding,
            Some(state) => StateHash::Complete(
                state
                    .peers
                    .into_iter()
                    .filter(|(peer, _)| is_compared(*peer))
                    .map(|(peer, ordinals)| {
                        let reads = ordinals.read.map(|n| n.map(Ordinal::get));
                        let n = ordinals.ordinal.get();
                        (peer, Ordinals { ordinal: n, reads })
                    })
                    .collect(),
            ),
        };
        let views = views.map(|view| {
            let mut counts = view.map(|key| key.value).unwrap_or_default();
            counts.retain(|peer, _| is_compared(*peer));
            counts
        });
        Self {
            state,
            views,
            lacks_expiry,
        }
    }
}

fn has_no_expiry<T>(key: &RawKey<T>) -> bool {
    key.expires_at_ms.is_none()
}
