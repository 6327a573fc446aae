//! Compares a stored value with the state that follows from the log. Pure.

use std::collections::BTreeMap;

use message_store::Sink;
use schemas::{ConversationId, DeviceClass, DirectConversation, PerDevice, TableNumber, UserId};

use super::redis_keys::{Ordinals, RedisKeys, StateHash};
use crate::{
    Area, Kind,
    fold::{Contact, LastRead, ordinal_within},
};

/// The tables that have a row of a user for each peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rows {
    /// `read_chat_mid_<n>`.
    ReadPositions,
    /// `contact_<n>`.
    Contacts,
    /// `hidden_<n>`: a row for each message.
    Hidden,
}

impl Rows {
    pub(crate) fn area(self) -> Area {
        match self {
            Self::ReadPositions => Area::ReadPositions,
            Self::Contacts => Area::Contacts,
            Self::Hidden => Area::Hidden,
        }
    }

    pub(crate) fn sink(self) -> Sink {
        match self {
            Self::ReadPositions => Sink::Reads,
            Self::Contacts | Self::Hidden => Sink::Contacts,
        }
    }

    /// The number of the table that has the row.
    pub(crate) fn table_of(self, uid: UserId, peer: UserId) -> TableNumber {
        match self {
            Self::ReadPositions => DirectConversation::new(uid, peer).partition().into(),
            Self::Contacts | Self::Hidden => TableNumber::of_user(uid),
        }
    }
}

/// Which value of a store is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKey {
    Row {
        of: Rows,
        uid: UserId,
        peer: UserId,
    },
    /// A user's keys in Redis.
    Unread {
        uid: UserId,
    },
}

/// The value that a store has.
#[derive(Clone, Debug)]
pub(crate) enum StoredValue {
    /// The mids read; 0 without a row.
    Reads(PerDevice<i64>),
    Contact(Option<Contact>),
    /// The hidden messages, ascending.
    Hidden(Vec<i64>),
    Keys(RedisKeys),
    /// A value that no projection writes.
    Unreadable(String),
}

/// What the stores should have of a user at some point of the log, by peer: the peers that the key is about.
pub(crate) type ExpectedContacts = BTreeMap<UserId, Contact>;

/// A value that does not follow from the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    pub(crate) area: Area,
    pub(crate) kind: Kind,
    pub(crate) what: String,
    /// The report names the newest event of this one.
    pub(crate) conversation: Option<ConversationId>,
}

impl ValueKey {
    pub(crate) fn uid(self) -> UserId {
        match self {
            Self::Row { uid, .. } | Self::Unread { uid } => uid,
        }
    }

    /// The peer that it is about; `None` for all.
    pub(crate) fn peer(self) -> Option<UserId> {
        match self {
            Self::Row { peer, .. } => Some(peer),
            Self::Unread { .. } => None,
        }
    }

    pub(crate) fn area(self) -> Area {
        match self {
            Self::Row { of, .. } => of.area(),
            Self::Unread { .. } => Area::UnreadStates,
        }
    }

    fn mismatch(self, kind: Kind, what: String) -> Mismatch {
        Mismatch {
            area: self.area(),
            kind,
            what,
            conversation: self.peer().map(|peer| between(self.uid(), peer)),
        }
    }
}

/// Compares `stored` with the log's state before it was read (`low`) and after (`high`).
pub(crate) fn mismatches(
    key: ValueKey,
    stored: &StoredValue,
    low: &ExpectedContacts,
    high: &ExpectedContacts,
) -> Vec<Mismatch> {
    // What is expected of a row is that of its peer alone.
    let of_row =
        |contacts: &ExpectedContacts| contacts.values().next().cloned().unwrap_or_default();
    match stored {
        StoredValue::Reads(mids) => reads_mismatch(key, *mids, &of_row(low), &of_row(high)),
        StoredValue::Contact(contact) => {
            let bounds = (&of_row(low), &of_row(high));
            contact_mismatch(key, contact.as_ref(), bounds, !high.is_empty())
        }
        StoredValue::Hidden(mids) => hidden_mismatches(key, mids, &of_row(low), &of_row(high)),
        StoredValue::Keys(keys) => key_mismatches(key.uid(), keys, low, high),
        StoredValue::Unreadable(what) => vec![key.mismatch(Kind::Different, what.clone())],
    }
}

fn between(uid: UserId, peer: UserId) -> ConversationId {
    DirectConversation::new(uid, peer).into()
}

fn of_peer(contacts: &ExpectedContacts, peer: UserId) -> Contact {
    contacts.get(&peer).cloned().unwrap_or_default()
}

fn reads_mismatch(
    key: ValueKey,
    mids: PerDevice<i64>,
    low: &Contact,
    high: &Contact,
) -> Vec<Mismatch> {
    let is_right = |device: &DeviceClass| {
        (low.reads[*device].mid..=high.reads[*device].mid).contains(&mids[*device])
    };
    let Some(device) = DeviceClass::ALL.into_iter().find(|one| !is_right(one)) else {
        return Vec::new();
    };
    let kind = if mids == PerDevice::default() {
        Kind::Missing
    } else if high.reads[device].mid == 0 {
        Kind::Extra
    } else {
        Kind::Different
    };
    let what = format!(
        "read_chat_mid of {}: {device}Mid is {}, {} is right",
        users_of(key),
        mids[device],
        low.reads[device].mid
    );
    vec![key.mismatch(kind, what)]
}

fn contact_mismatch(
    key: ValueKey,
    contact: Option<&Contact>,
    (low, high): (&Contact, &Contact),
    is_in_log: bool,
) -> Vec<Mismatch> {
    let found = contact.cloned().unwrap_or_default();
    let Some(column) = found.outside(low, high) else {
        return Vec::new();
    };
    let (kind, what) = match (contact, is_in_log) {
        (None, _) => (Kind::Missing, "no row".to_owned()),
        (Some(_), false) => (Kind::Extra, "no such conversation".to_owned()),
        (Some(_), true) => (Kind::Different, column.to_owned()),
    };
    vec![key.mismatch(kind, format!("contact of {}: {what}", users_of(key)))]
}

/// What is hidden stays so. What is cleared may be deleted.
fn hidden_mismatches(key: ValueKey, mids: &[i64], low: &Contact, high: &Contact) -> Vec<Mismatch> {
    let kept = low.hidden.iter().filter(|mid| **mid > high.clear_mid);
    let missing = kept.filter(|mid| !mids.contains(mid));
    let extra = mids.iter().filter(|mid| !high.hidden.contains(mid));
    let mismatch =
        |kind, mid: &i64| key.mismatch(kind, format!("hidden of {}: mid {mid}", users_of(key)));
    missing
        .map(|mid| mismatch(Kind::Missing, mid))
        .chain(extra.map(|mid| mismatch(Kind::Extra, mid)))
        .collect()
}

fn users_of(key: ValueKey) -> String {
    match key.peer() {
        Some(peer) => format!("{} with {peer}", key.uid()),
        None => key.uid().to_string(),
    }
}

fn key_mismatches(
    uid: UserId,
    keys: &RedisKeys,
    low: &ExpectedContacts,
    high: &ExpectedContacts,
) -> Vec<Mismatch> {
    let mismatch = |area, kind, what, peer: Option<UserId>| Mismatch {
        area,
        kind,
        what,
        conversation: peer.map(|peer| between(uid, peer)),
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
    if let Some((kind, peer, what)) = wrong_ordinals(peers, low, high) {
        let what = format!("state-{uid} of {peer}: {what}");
        mismatches.push(mismatch(Area::UnreadStates, kind, what, Some(peer)));
    }
    if keys.lacks_expiry {
        let what = format!("a key of {uid} never expires");
        mismatches.push(mismatch(Area::UnreadStates, Kind::Different, what, None));
    }
    for (device, view) in keys.views.iter() {
        if let Some((kind, peer, what)) = wrong_view(view, peers, device) {
            let what = format!("{device}-{uid} of {peer}: {what}");
            mismatches.push(mismatch(Area::UnreadViews, kind, what, Some(peer)));
        }
    }
    mismatches
}

type PeerMismatch = (Kind, UserId, String);

/// The first peer whose ordinals do not follow from the log.
fn wrong_ordinals(
    state: &BTreeMap<UserId, Ordinals>,
    low: &ExpectedContacts,
    high: &ExpectedContacts,
) -> Option<PeerMismatch> {
    let mut peers: Vec<UserId> = state.keys().chain(high.keys()).copied().collect();
    peers.sort_unstable();
    peers.dedup();
    peers.into_iter().find_map(|peer| {
        let held = state.get(&peer);
        let found = held.copied().unwrap_or(Ordinals::ZERO);
        let (least, most) = (
            ordinals(&of_peer(low, peer)),
            ordinals(&of_peer(high, peer)),
        );
        let column = outside(&found, &least, &most)?;
        let kind = match (held, high.contains_key(&peer)) {
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

fn ordinals(contact: &Contact) -> Ordinals {
    Ordinals {
        n: contact.peer_n,
        reads: contact.reads.map(|LastRead { n, .. }| n),
    }
}

fn outside(found: &Ordinals, low: &Ordinals, high: &Ordinals) -> Option<&'static str> {
    if !(low.n..=high.n).contains(&found.n) {
        return Some("n");
    }
    let is_right = |device: DeviceClass| {
        ordinal_within(found.reads[device], low.reads[device], high.reads[device])
    };
    let device = DeviceClass::ALL.into_iter().find(|one| !is_right(*one))?;
    Some(match device {
        DeviceClass::Pc => "pc_n",
        DeviceClass::Mobile => "mobile_n",
    })
}

fn text_of(ordinals: &Ordinals) -> String {
    let read = |n: Option<i64>| n.map_or_else(|| "?".to_owned(), |n| n.to_string());
    let PerDevice { pc, mobile } = ordinals.reads;
    format!("{},{},{}", ordinals.n, read(pc), read(mobile))
}

/// The first peer whose count does not follow from the state hash, which was read in the same step.
fn wrong_view(
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
    use schemas::ContactFlags;

    use super::*;
    use crate::fold::Flags;

    fn user(uid: i64) -> UserId {
        uid.try_into().unwrap()
    }

    fn contacts(peer_n: i64, read: i64) -> ExpectedContacts {
        let read = LastRead {
            mid: read,
            n: Some(read),
        };
        let contact = Contact {
            peer_n,
            reads: PerDevice::from_fn(|_| read),
            ..Contact::default()
        };
        BTreeMap::from([(user(2), contact)])
    }

    fn keys(n: i64, read: Option<i64>, shown: i64) -> StoredValue {
        let state = BTreeMap::from([(
            user(2),
            Ordinals {
                n,
                reads: PerDevice::from_fn(|_| read),
            },
        )]);
        let shown = BTreeMap::from([(user(2), shown)]);
        StoredValue::Keys(RedisKeys {
            state: StateHash::Complete(state),
            views: PerDevice::from_fn(|_| shown.clone()),
            lacks_expiry: false,
        })
    }

    fn kinds(
        stored: &StoredValue,
        low: &ExpectedContacts,
        high: &ExpectedContacts,
    ) -> Vec<(Area, Kind)> {
        let mismatches = mismatches(ValueKey::Unread { uid: user(1) }, stored, low, high);
        mismatches
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
        let absent = StoredValue::Keys(RedisKeys::default());
        assert_eq!(kinds(&absent, &contacts(5, 2), &contacts(5, 2)), []);
        let alone = StoredValue::Keys(RedisKeys {
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
        let StoredValue::Keys(keys) = &mut early else {
            unreachable!("they are keys");
        };
        keys.state = StateHash::Rebuilding;
        assert_eq!(
            kinds(&early, &contacts(5, 2), &contacts(5, 2)),
            [(Area::UnreadViews, Kind::Extra)]
        );
    }

    #[test]
    fn a_hidden_message_is_missing_or_extra() {
        let (uid, peer) = (user(1), user(2));
        let of = Rows::Hidden;
        let key = ValueKey::Row { of, uid, peer };
        let hidden = |mids: &[i64]| {
            let hidden = mids.to_vec();
            let contact = Contact {
                hidden,
                ..Contact::default()
            };
            BTreeMap::from([(peer, contact)])
        };
        let kinds = |found: &[i64], low: &[i64], high: &[i64]| {
            let found = StoredValue::Hidden(found.to_vec());
            let wrong = mismatches(key, &found, &hidden(low), &hidden(high));
            wrong.into_iter().map(|one| one.kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(&[3], &[3], &[3, 5]), []);
        assert_eq!(kinds(&[3, 5], &[3], &[3, 5]), []);
        assert_eq!(kinds(&[5], &[3], &[3, 5]), [Kind::Missing]);
        assert_eq!(kinds(&[3, 4], &[3], &[3]), [Kind::Extra]);

        let mut cleared = hidden(&[3, 5, 7]);
        if let Some(contact) = cleared.get_mut(&peer) {
            contact.clear_mid = 5;
        }
        for (found, kinds) in [
            (vec![7], vec![]),
            (vec![3, 5, 7], vec![]),
            (vec![3, 5], vec![Kind::Missing]),
            (vec![4, 7], vec![Kind::Extra]),
        ] {
            let wrong = mismatches(key, &StoredValue::Hidden(found), &cleared, &cleared);
            let found: Vec<Kind> = wrong.into_iter().map(|one| one.kind).collect();
            assert_eq!(found, kinds);
        }
    }

    #[test]
    fn a_contact_may_be_in_between_and_its_flags_any_while_they_change() {
        let (uid, peer) = (user(1), user(2));
        let of = Rows::Contacts;
        let key = ValueKey::Row { of, uid, peer };
        let contact = |chg, pos, pinned| {
            let set = ContactFlags {
                pinned,
                ..ContactFlags::default()
            };
            let flags = Flags { set, at: pos };
            Contact {
                chg,
                pos,
                flags,
                ..Contact::default()
            }
        };
        let what = |found: Contact, low: &Contact, high: &Contact| {
            let of_peer = |contact: &Contact| BTreeMap::from([(peer, contact.clone())]);
            let found = StoredValue::Contact(Some(found));
            let wrong = mismatches(key, &found, &of_peer(low), &of_peer(high));
            let what = wrong.first().map(|one| one.what.clone());
            what.map(|what| what.rsplit(' ').next().unwrap().to_owned())
        };
        let (low, high) = (contact(1, 5, false), contact(3, 9, false));
        assert_eq!(what(contact(2, 7, true), &low, &high), None);
        assert_eq!(what(contact(3, 9, false), &low, &high), None);
        assert_eq!(
            what(contact(3, 9, true), &low, &high).as_deref(),
            Some("pinned")
        );
        assert_eq!(
            what(contact(1, 5, true), &low, &low).as_deref(),
            Some("pinned")
        );
        assert_eq!(
            what(contact(4, 7, false), &low, &high).as_deref(),
            Some("chg")
        );
        assert_eq!(
            what(contact(3, 10, false), &low, &high).as_deref(),
            Some("pos")
        );
        // From before schema version 4.
        let plain = contact(0, 9, false);
        let plain = Contact {
            flags: Flags::default(),
            ..plain
        };
        let old = Contact {
            pos: -1,
            ..plain.clone()
        };
        assert_eq!(what(old.clone(), &plain, &plain), None);
        assert_eq!(what(old, &high, &high).as_deref(), Some("chg"));
    }

    #[test]
    fn a_read_position_is_missing_extra_or_different() {
        let key = ValueKey::Row {
            of: Rows::ReadPositions,
            uid: user(1),
            peer: user(2),
        };
        let kind = |[pc, mobile]: [i64; 2], read| {
            let wrong = mismatches(
                key,
                &StoredValue::Reads(PerDevice { pc, mobile }),
                &contacts(9, read),
                &contacts(9, read),
            );
            wrong.first().map(|mismatch| mismatch.kind)
        };
        assert_eq!(kind([3, 3], 3), None);
        assert_eq!(kind([0, 0], 3), Some(Kind::Missing));
        assert_eq!(kind([3, 2], 3), Some(Kind::Different));
        assert_eq!(kind([3, 0], 0), Some(Kind::Extra));
    }
}
