//! Compares a user's keys in Redis with the state that follows from the log. Pure.

use std::collections::BTreeMap;

use schemas::{DeviceClass, PerDevice, UserId};

use super::{
    mismatch::{ComparedValues, Mismatch},
    redis_keys::{Ordinals, StateHash},
    value::{ExpectedContacts, Value},
};
use crate::{
    Area, Kind,
    fold::{Contact, LastRead, Subject, ordinal_within},
};

pub(super) fn mismatches(uid: UserId, values: ComparedValues<'_>) -> Vec<Mismatch> {
    let (Some(Value::Keys(keys)), Some(Value::Contacts(lower)), Some(Value::Contacts(upper))) =
        (values.found, values.lower, values.upper)
    else {
        return Vec::new();
    };
    let mismatch = |area, kind, what, peer: Option<UserId>| Mismatch {
        area,
        kind,
        what,
        about: peer.map(|peer| Subject::Contact(uid, peer)),
    };
    let peers = match &keys.state {
        StateHash::Complete(peers) => peers,
        _ if keys.views.iter().all(|(_, view)| view.is_empty()) => return Vec::new(),
        StateHash::Absent | StateHash::Rebuilding => {
            let what = format!("a view of {uid} without a valid state beside it");
            return vec![mismatch(Area::UnreadViews, Kind::Extra, what, None)];
        }
    };
    let mut mismatches = Vec::new();
    if let Some((kind, peer, what)) = ordinals_difference(peers, lower, upper) {
        let what = format!("state-{uid} of {peer}: {what}");
        mismatches.push(mismatch(Area::UnreadStates, kind, what, Some(peer)));
    }
    if keys.lacks_expiry {
        let what = format!("a key of {uid} never expires");
        mismatches.push(mismatch(Area::UnreadStates, Kind::Different, what, None));
    }
    for (device, view) in keys.views.iter() {
        if let Some((kind, peer, what)) = view_difference(view, peers, device) {
            let what = format!("{device}-{uid} of {peer}: {what}");
            mismatches.push(mismatch(Area::UnreadViews, kind, what, Some(peer)));
        }
    }
    mismatches
}

type PeerMismatch = (Kind, UserId, String);

/// The first peer whose ordinals do not follow from the log.
fn ordinals_difference(
    state: &BTreeMap<UserId, Ordinals>,
    lower: &ExpectedContacts,
    upper: &ExpectedContacts,
) -> Option<PeerMismatch> {
    let mut peers: Vec<UserId> = state.keys().chain(upper.keys()).copied().collect();
    peers.sort_unstable();
    peers.dedup();
    peers.into_iter().find_map(|peer| {
        let held = state.get(&peer);
        let found = held.copied().unwrap_or(Ordinals::ZERO);
        let [least, most] = [lower, upper].map(|contacts| ordinals(contacts.get(&peer)));
        let column = outside(&found, &least, &most)?;
        let kind = match (held, upper.contains_key(&peer)) {
            (None, _) => Kind::Missing,
            (Some(_), false) => Kind::Extra,
            (Some(_), true) => Kind::Different,
        };
        let what = format!(
            "{column}: {} is there, {} is right",
            text_of(&found),
            text_of(&least)
        );
        Some((kind, peer, what))
    })
}

fn ordinals(contact: Option<&Contact>) -> Ordinals {
    contact.map_or(Ordinals::ZERO, |contact| Ordinals {
        ordinal: contact.peer_ordinal,
        reads: contact.reads.map(|LastRead { ordinal: n, .. }| n),
    })
}

fn outside(found: &Ordinals, lower: &Ordinals, upper: &Ordinals) -> Option<&'static str> {
    if !(lower.ordinal..=upper.ordinal).contains(&found.ordinal) {
        return Some("n");
    }
    let is_within = |device: DeviceClass| {
        ordinal_within(
            found.reads[device],
            lower.reads[device],
            upper.reads[device],
        )
    };
    let device = DeviceClass::ALL.into_iter().find(|one| !is_within(*one))?;
    Some(match device {
        DeviceClass::Pc => "pc_n",
        DeviceClass::Mobile => "mobile_n",
    })
}

fn text_of(ordinals: &Ordinals) -> String {
    let read = |n: Option<i64>| n.map_or_else(|| "?".to_owned(), |n| n.to_string());
    let PerDevice { pc, mobile } = ordinals.reads;
    format!("{},{},{}", ordinals.ordinal, read(pc), read(mobile))
}

/// The first peer whose count does not follow from the state hash, which was read in the same step.
fn view_difference(
    view: &BTreeMap<UserId, i64>,
    state: &BTreeMap<UserId, Ordinals>,
    device: DeviceClass,
) -> Option<PeerMismatch> {
    let expected: BTreeMap<UserId, i64> = state
        .iter()
        .filter_map(|(peer, ordinals)| Some((*peer, ordinals.unread(device)?)))
        .collect();
    let peers = expected.keys().chain(view.keys());
    let peer = *peers
        .into_iter()
        .find(|peer| view.get(peer) != expected.get(peer))?;
    let (kind, what) = match (view.get(&peer), expected.get(&peer)) {
        (None, expected) => (
            Kind::Missing,
            format!("no count, {} is right", expected.unwrap_or(&0)),
        ),
        (Some(found), None) => (Kind::Extra, format!("{found} unread, none is right")),
        (Some(found), Some(expected)) => (
            Kind::Different,
            format!("{found} unread, {expected} is right"),
        ),
    };
    Some((kind, peer, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::redis_keys::RedisKeys;

    fn user(uid: i64) -> UserId {
        uid.try_into().unwrap()
    }

    fn contacts(peer_ordinal: i64, read: i64) -> ExpectedContacts {
        let read = LastRead {
            mid: read,
            ordinal: Some(read),
        };
        let contact = Contact {
            peer_ordinal,
            reads: PerDevice::from_fn(|_| read),
            ..Contact::default()
        };
        BTreeMap::from([(user(2), contact)])
    }

    fn keys(n: i64, read: Option<i64>, shown: i64) -> Value {
        let state = BTreeMap::from([(
            user(2),
            Ordinals {
                ordinal: n,
                reads: PerDevice::from_fn(|_| read),
            },
        )]);
        let shown = BTreeMap::from([(user(2), shown)]);
        Value::Keys(RedisKeys {
            state: StateHash::Complete(state),
            views: PerDevice::from_fn(|_| shown.clone()),
            lacks_expiry: false,
        })
    }

    fn kinds(
        stored: &Value,
        lower: &ExpectedContacts,
        upper: &ExpectedContacts,
    ) -> Vec<(Area, Kind)> {
        let [lower, upper] = [lower, upper].map(|contacts| Value::Contacts(contacts.clone()));
        let values = ComparedValues {
            found: Some(stored),
            lower: Some(&lower),
            upper: Some(&upper),
        };
        mismatches(user(1), values)
            .into_iter()
            .map(|mismatch| (mismatch.area, mismatch.kind))
            .collect()
    }

    #[test]
    fn a_value_that_changes_during_the_read_may_be_in_between() {
        let stored = keys(5, Some(2), 3);
        assert_eq!(kinds(&stored, &contacts(5, 2), &contacts(5, 2)), []);
        assert_eq!(kinds(&stored, &contacts(4, 2), &contacts(6, 2)), []);
        assert_eq!(
            kinds(&stored, &contacts(6, 2), &contacts(6, 2)),
            [(Area::UnreadStates, Kind::Different)]
        );
    }

    #[test]
    fn counts_that_do_not_follow_from_the_state_hash_are_different() {
        let wrong = kinds(&keys(5, Some(2), 4), &contacts(5, 2), &contacts(5, 2));
        assert_eq!(wrong, [(Area::UnreadViews, Kind::Different); 2]);
    }

    #[test]
    fn an_unknown_ordinal_that_the_log_has_is_different() {
        let wrong = kinds(&keys(5, None, 0), &contacts(5, 2), &contacts(5, 2));
        assert!(
            wrong.contains(&(Area::UnreadStates, Kind::Different)),
            "{wrong:?}"
        );
    }

    #[test]
    fn absent_keys_are_no_difference_and_counts_without_a_state_hash_are() {
        let absent = Value::Keys(RedisKeys::default());
        assert_eq!(kinds(&absent, &contacts(5, 2), &contacts(5, 2)), []);
        let alone = Value::Keys(RedisKeys {
            views: PerDevice {
                pc: BTreeMap::from([(user(2), 1)]),
                mobile: BTreeMap::new(),
            },
            ..RedisKeys::default()
        });
        assert_eq!(
            kinds(&alone, &ExpectedContacts::new(), &ExpectedContacts::new()),
            [(Area::UnreadViews, Kind::Extra)]
        );
    }

    #[test]
    fn a_view_beside_a_state_that_is_being_rebuilt_is_a_difference() {
        let mut early = keys(5, Some(2), 3);
        let Value::Keys(keys) = &mut early else {
            unreachable!("they are keys");
        };
        keys.state = StateHash::Rebuilding;
        assert_eq!(
            kinds(&early, &contacts(5, 2), &contacts(5, 2)),
            [(Area::UnreadViews, Kind::Extra)]
        );
    }
}
