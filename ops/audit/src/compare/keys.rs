use std::collections::BTreeMap;

use schemas::{Ordinal, PerDevice, UserId};
use unread_store::{Generation, RawKey, RawUser};

/// What Redis has of one user, in numbers: of the peers that are compared, and of no others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) state: State,
    /// Of pc and mobile; empty where there is none.
    pub(crate) views: [BTreeMap<UserId, i64>; 2],
    /// Whether one of the keys lives for ever, which none should.
    pub(crate) is_immortal: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// There is none: expired, flushed, or never made.
    #[default]
    Absent,
    /// It says nothing now: somebody rebuilds it, or it is left from another life of the node.
    Unusable,
    /// By peer.
    Complete(BTreeMap<UserId, Ordinals>),
}

/// n of the peer's newest message, and up to which one was read on pc and on mobile; `None` for unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ordinals {
    pub(crate) n: i64,
    pub(crate) reads: [Option<i64>; 2],
}

impl Ordinals {
    pub(crate) const NOTHING: Self = Self {
        n: 0,
        reads: [Some(0); 2],
    };

    /// How many are unread on pc (0) or mobile (1), where that is known and not nothing.
    pub(crate) fn unread(&self, class: usize) -> Option<i64> {
        self.reads[class]
            .map(|read| self.n - read)
            .filter(|unread| *unread > 0)
    }
}

impl Keys {
    pub(crate) fn new(
        user: RawUser,
        generation: Generation,
        is_compared: impl Fn(UserId) -> bool,
    ) -> Self {
        let RawUser { state, views } = user;
        let PerDevice { pc, mobile } = views;
        let is_immortal = state.as_ref().is_some_and(lives_for_ever)
            || pc.as_ref().is_some_and(lives_for_ever)
            || mobile.as_ref().is_some_and(lives_for_ever);
        let state = match state.map(|key| key.value) {
            None => State::Absent,
            Some(state) if state.generation != generation || state.rebuilding.is_some() => {
                State::Unusable
            }
            Some(state) => State::Complete(
                state
                    .peers
                    .into_iter()
                    .filter(|(peer, _)| is_compared(*peer))
                    .map(|(peer, ordinals)| {
                        let reads = [ordinals.read.pc, ordinals.read.mobile];
                        let (n, reads) = (ordinals.n.get(), reads.map(|n| n.map(Ordinal::get)));
                        (peer, Ordinals { n, reads })
                    })
                    .collect(),
            ),
        };
        let views = [pc, mobile].map(|view| {
            let mut counts = view.map(|key| key.value).unwrap_or_default();
            counts.retain(|peer, _| is_compared(*peer));
            counts
        });
        Self {
            state,
            views,
            is_immortal,
        }
    }
}

fn lives_for_ever<T>(key: &RawKey<T>) -> bool {
    key.expires_at_ms.is_none()
}
