//! Whether a value may be what the log says. Pure.

use std::collections::BTreeMap;

use schemas::UserId;

use super::keys::{Keys, Ordinals, State};
use crate::{
    Area, Kind,
    fold::{Contact, Read},
};

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A row of `read_chat_mid_<n>`.
    ReadPosition { uid: UserId, peer: UserId },
    /// A row of `contact_<n>`.
    Contact { uid: UserId, peer: UserId },
    /// A user's keys in Redis.
    Unread { uid: UserId },
}

/// What was seen there.
#[derive(Clone, Debug)]
pub(crate) enum Observed {
    /// Up to where on pc and mobile; 0 without a row.
    Reads([i64; 2]),
    Contact(Option<Contact>),
    Keys(Keys),
    /// It holds what no projection writes.
    Foreign(String),
}

/// What the log says of a user at some time, by peer, as far as it matters to the subject.
pub(crate) type View = BTreeMap<UserId, Contact>;

/// A value that is not what the log says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) area: Area,
    pub(crate) kind: Kind,
    pub(crate) what: String,
    /// Of whose conversation the newest event is to be named.
    pub(crate) peer: Option<UserId>,
}

impl Subject {
    pub(crate) fn uid(self) -> UserId {
        match self {
            Self::ReadPosition { uid, .. } | Self::Contact { uid, .. } | Self::Unread { uid } => {
                uid
            }
        }
    }

    /// The one peer that it is about; `None` for all.
    pub(crate) fn peer(self) -> Option<UserId> {
        match self {
            Self::ReadPosition { peer, .. } | Self::Contact { peer, .. } => Some(peer),
            Self::Unread { .. } => None,
        }
    }

    pub(crate) fn area(self) -> Area {
        match self {
            Self::ReadPosition { .. } => Area::ReadPositions,
            Self::Contact { .. } => Area::Contacts,
            Self::Unread { .. } => Area::UnreadStates,
        }
    }

    fn verdict(self, kind: Kind, what: String) -> Verdict {
        Verdict {
            area: self.area(),
            kind,
            what,
            peer: self.peer(),
        }
    }
}

/// What is wrong with `seen`, if the log said `low` before the look and `high` after it.
pub(crate) fn judge(subject: Subject, seen: &Observed, low: &View, high: &View) -> Vec<Verdict> {
    match (subject, seen) {
        (Subject::ReadPosition { peer, .. }, Observed::Reads(mids)) => {
            judge_reads(subject, *mids, &of_peer(low, peer), &of_peer(high, peer))
        }
        (Subject::Contact { peer, .. }, Observed::Contact(contact)) => {
            let is_known = high.contains_key(&peer);
            let bounds = (&of_peer(low, peer), &of_peer(high, peer));
            judge_contact(subject, contact.as_ref(), bounds, is_known)
        }
        (Subject::Unread { uid }, Observed::Keys(keys)) => judge_keys(uid, keys, low, high),
        (_, Observed::Foreign(what)) => vec![subject.verdict(Kind::Different, what.clone())],
        _ => unreachable!("every subject is looked at in its own way"),
    }
}

fn of_peer(view: &View, peer: UserId) -> Contact {
    view.get(&peer).copied().unwrap_or_default()
}

fn judge_reads(subject: Subject, mids: [i64; 2], low: &Contact, high: &Contact) -> Vec<Verdict> {
    let is_right = |i: usize| (low.reads[i].mid..=high.reads[i].mid).contains(&mids[i]);
    let Some(i) = (0..2).find(|i| !is_right(*i)) else {
        return Vec::new();
    };
    let kind = match (mids, high.reads[i].mid) {
        ([0, 0], _) => Kind::Missing,
        (_, 0) => Kind::Extra,
        _ => Kind::Different,
    };
    let what = format!(
        "read_chat_mid of {}: {} is {}, {} is right",
        side(subject),
        ["pcMid", "mobileMid"][i],
        mids[i],
        low.reads[i].mid
    );
    vec![subject.verdict(kind, what)]
}

fn judge_contact(
    subject: Subject,
    contact: Option<&Contact>,
    (low, high): (&Contact, &Contact),
    is_known: bool,
) -> Vec<Verdict> {
    let found = contact.copied().unwrap_or_default();
    let Some(column) = found.outside(low, high) else {
        return Vec::new();
    };
    let (kind, what) = match (contact, is_known) {
        (None, _) => (Kind::Missing, "no row".to_owned()),
        (Some(_), false) => (Kind::Extra, "no such conversation".to_owned()),
        (Some(_), true) => (Kind::Different, column.to_owned()),
    };
    vec![subject.verdict(kind, format!("contact of {}: {what}", side(subject)))]
}

fn side(subject: Subject) -> String {
    match subject.peer() {
        Some(peer) => format!("{} with {peer}", subject.uid()),
        None => subject.uid().to_string(),
    }
}

fn judge_keys(uid: UserId, keys: &Keys, low: &View, high: &View) -> Vec<Verdict> {
    let verdict = |area, kind, what, peer| Verdict {
        area,
        kind,
        what,
        peer,
    };
    let peers = match &keys.state {
        State::Unusable => return Vec::new(),
        State::Absent if keys.views.iter().all(BTreeMap::is_empty) => return Vec::new(),
        State::Absent => {
            let what = format!("a view of {uid} without a state beside it");
            return vec![verdict(Area::UnreadViews, Kind::Extra, what, None)];
        }
        State::Complete(peers) => peers,
    };
    let mut verdicts = Vec::new();
    if let Some((kind, peer, what)) = wrong_ordinals(peers, low, high) {
        let what = format!("state-{uid} of {peer}: {what}");
        verdicts.push(verdict(Area::UnreadStates, kind, what, Some(peer)));
    }
    if keys.is_immortal {
        let what = format!("a key of {uid} never expires");
        verdicts.push(verdict(Area::UnreadStates, Kind::Different, what, None));
    }
    for (class, name) in ["pc", "mobile"].into_iter().enumerate() {
        if let Some((kind, peer, what)) = wrong_view(&keys.views[class], peers, class) {
            let what = format!("{name}-{uid} of {peer}: {what}");
            verdicts.push(verdict(Area::UnreadViews, kind, what, Some(peer)));
        }
    }
    verdicts
}

type Wrong = (Kind, UserId, String);

/// The first peer whose ordinals are not what the log says.
fn wrong_ordinals(state: &BTreeMap<UserId, Ordinals>, low: &View, high: &View) -> Option<Wrong> {
    let mut peers: Vec<UserId> = state.keys().chain(high.keys()).copied().collect();
    peers.sort_unstable();
    peers.dedup();
    peers.into_iter().find_map(|peer| {
        let held = state.get(&peer);
        let found = held.copied().unwrap_or(Ordinals::NOTHING);
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
            spelled(&found),
            spelled(&least)
        );
        Some((kind, peer, what))
    })
}

fn ordinals(contact: &Contact) -> Ordinals {
    Ordinals {
        n: contact.peer_n,
        reads: contact.reads.map(|Read { n, .. }| n),
    }
}

fn outside(found: &Ordinals, low: &Ordinals, high: &Ordinals) -> Option<&'static str> {
    if !(low.n..=high.n).contains(&found.n) {
        return Some("n");
    }
    let is_right = |i: usize| match (found.reads[i], low.reads[i], high.reads[i]) {
        (Some(found), Some(low), Some(high)) => (low..=high).contains(&found),
        _ => false,
    };
    let names = ["pc_n", "mobile_n"];
    (0..2).find(|i| !is_right(*i)).map(|i| names[i])
}

fn spelled(ordinals: &Ordinals) -> String {
    let read = |n: Option<i64>| n.map_or_else(|| "?".to_owned(), |n| n.to_string());
    let [pc, mobile] = ordinals.reads;
    format!("{},{},{}", ordinals.n, read(pc), read(mobile))
}

/// The first peer whose count is not what follows from the state, which was read at the same moment.
fn wrong_view(
    view: &BTreeMap<UserId, i64>,
    state: &BTreeMap<UserId, Ordinals>,
    class: usize,
) -> Option<Wrong> {
    let wanted: BTreeMap<UserId, i64> = state
        .iter()
        .filter_map(|(peer, ordinals)| Some((*peer, ordinals.unread(class)?)))
        .collect();
    let peers = wanted.keys().chain(view.keys());
    let peer = *peers
        .into_iter()
        .find(|peer| view.get(peer) != wanted.get(peer))?;
    let (kind, what) = match (view.get(&peer), wanted.get(&peer)) {
        (None, wanted) => (
            Kind::Missing,
            format!("no count, {} is right", wanted.unwrap_or(&0)),
        ),
        (Some(found), None) => (Kind::Extra, format!("{found} unread, none is right")),
        (Some(found), Some(wanted)) => (
            Kind::Different,
            format!("{found} unread, {wanted} is right"),
        ),
    };
    Some((kind, peer, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: i64) -> UserId {
        uid.try_into().unwrap()
    }

    fn view(peer_n: i64, read: i64) -> View {
        let read = Read {
            mid: read,
            n: Some(read),
        };
        let contact = Contact {
            peer_n,
            reads: [read; 2],
            ..Contact::default()
        };
        BTreeMap::from([(user(2), contact)])
    }

    fn keys(n: i64, read: Option<i64>, shown: i64) -> Observed {
        let state = BTreeMap::from([(
            user(2),
            Ordinals {
                n,
                reads: [read; 2],
            },
        )]);
        let shown = BTreeMap::from([(user(2), shown)]);
        Observed::Keys(Keys {
            state: State::Complete(state),
            views: [shown.clone(), shown],
            is_immortal: false,
        })
    }

    fn kinds(seen: &Observed, low: &View, high: &View) -> Vec<(Area, Kind)> {
        let verdicts = judge(Subject::Unread { uid: user(1) }, seen, low, high);
        verdicts
            .into_iter()
            .map(|verdict| (verdict.area, verdict.kind))
            .collect()
    }

    #[test]
    fn what_changes_between_two_looks_may_be_in_between() {
        let seen = keys(5, Some(2), 3);
        assert_eq!(kinds(&seen, &view(5, 2), &view(5, 2)), []);
        assert_eq!(kinds(&seen, &view(4, 2), &view(6, 2)), []);
        assert_eq!(
            kinds(&seen, &view(6, 2), &view(6, 2)),
            [(Area::UnreadStates, Kind::Different)]
        );
    }

    #[test]
    fn a_view_follows_from_its_state() {
        let wrong = kinds(&keys(5, Some(2), 4), &view(5, 2), &view(5, 2));
        assert_eq!(wrong, [(Area::UnreadViews, Kind::Different); 2]);
    }

    #[test]
    fn what_is_known_must_not_be_unknown() {
        let wrong = kinds(&keys(5, None, 0), &view(5, 2), &view(5, 2));
        assert!(
            wrong.contains(&(Area::UnreadStates, Kind::Different)),
            "{wrong:?}"
        );
    }

    #[test]
    fn an_absent_key_is_no_difference_and_a_view_alone_is() {
        let absent = Observed::Keys(Keys::default());
        assert_eq!(kinds(&absent, &view(5, 2), &view(5, 2)), []);
        let alone = Observed::Keys(Keys {
            views: [BTreeMap::from([(user(2), 1)]), BTreeMap::new()],
            ..Keys::default()
        });
        assert_eq!(
            kinds(&alone, &View::new(), &View::new()),
            [(Area::UnreadViews, Kind::Extra)]
        );
    }

    #[test]
    fn a_read_position_is_missing_extra_or_different() {
        let subject = Subject::ReadPosition {
            uid: user(1),
            peer: user(2),
        };
        let kind = |mids, read| {
            let wrong = judge(
                subject,
                &Observed::Reads(mids),
                &view(9, read),
                &view(9, read),
            );
            wrong.first().map(|verdict| verdict.kind)
        };
        assert_eq!(kind([3, 3], 3), None);
        assert_eq!(kind([0, 0], 3), Some(Kind::Missing));
        assert_eq!(kind([3, 2], 3), Some(Kind::Different));
        assert_eq!(kind([3, 0], 0), Some(Kind::Extra));
    }
}
