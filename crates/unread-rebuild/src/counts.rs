use std::collections::BTreeMap;

use message_store::ContactRow;
use schemas::{DeviceClass, UserId};
use unread_store::{PeerOrdinals, UnreadView};

use crate::{
    UnreadRebuildError,
    barrier::{ContactPage, Contacts},
};

/// A user's unread messages according to the contact rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContactCounts {
    /// All peers that have sent something.
    pub peers: BTreeMap<UserId, PeerOrdinals>,
}

impl ContactCounts {
    /// The unread messages on one class; always [`UnreadView::Complete`].
    #[must_use]
    pub fn unread(&self, device: DeviceClass) -> UnreadView {
        let mut counts = BTreeMap::new();
        let mut unknown = Vec::new();
        for (peer, ordinals) in &self.peers {
            match ordinals.unread(device) {
                Some(0) => {}
                Some(unread) => drop(counts.insert(*peer, unread)),
                None => unknown.push(*peer),
            }
        }
        UnreadView::Complete { counts, unknown }
    }
}

/// The counts of some users, one user after the other.
pub(crate) struct Users {
    contacts: Contacts,
    /// The users whose rows have all been read.
    ended: Vec<UserId>,
    counts: BTreeMap<UserId, ContactCounts>,
}

impl Users {
    pub(crate) fn new(contacts: Contacts) -> Self {
        Self {
            contacts,
            ended: Vec::new(),
            counts: BTreeMap::new(),
        }
    }

    /// The next user; `None` after the last. A user without rows has no peers.
    pub(crate) async fn next(
        &mut self,
    ) -> Result<Option<(UserId, ContactCounts)>, UnreadRebuildError> {
        loop {
            if let Some(uid) = self.ended.pop() {
                return Ok(Some((uid, self.counts.remove(&uid).unwrap_or_default())));
            }
            let Some(ContactPage { rows, ended }) = self.contacts.next().await? else {
                return Ok(None);
            };
            add(&mut self.counts, &rows);
            self.ended = ended;
        }
    }
}

/// Adds rows to the counts of their users.
pub(crate) fn add(users: &mut BTreeMap<UserId, ContactCounts>, rows: &[ContactRow]) {
    for ContactRow { contact, .. } in rows {
        let ordinals = PeerOrdinals {
            ordinal: contact.peer_ordinal,
            read: contact.read.map(|read| read.ordinal),
        };
        // A note to oneself is never unread, and a peer that has sent nothing has nothing to count.
        if contact.peer == contact.uid || ordinals == PeerOrdinals::NONE {
            continue;
        }
        let user = users.entry(contact.uid).or_default();
        user.peers.insert(contact.peer, ordinals);
    }
}

#[cfg(test)]
mod tests {
    use message_store::{ContactDelta, ReadUpTo};
    use schemas::{Mid, PerDevice};

    use super::*;

    fn user(uid: i64) -> UserId {
        uid.try_into().unwrap()
    }

    fn row(uid: i64, peer: i64, n: i64, pc: Option<i64>, mobile: Option<i64>) -> ContactRow {
        let read = |n: Option<i64>| ReadUpTo {
            mid: Mid::ZERO.next(),
            ordinal: n.map(|n| n.try_into().unwrap()),
        };
        let contact = ContactDelta {
            peer_ordinal: n.try_into().unwrap(),
            read: PerDevice {
                pc: read(pc),
                mobile: read(mobile),
            },
            ..ContactDelta::new(user(uid), user(peer))
        };
        ContactRow { contact }
    }

    fn by_user(rows: &[ContactRow]) -> BTreeMap<UserId, ContactCounts> {
        let mut users = BTreeMap::new();
        add(&mut users, rows);
        users
    }

    #[test]
    fn counts_leave_out_zero_and_name_unknown_peers() {
        let rows = [row(1, 2, 3, Some(0), Some(3)), row(1, 3, 5, None, Some(4))];
        let counts = &by_user(&rows)[&user(1)];
        let expected = |counts: &[(i64, i64)], unknown: &[i64]| UnreadView::Complete {
            counts: counts.iter().map(|(p, n)| (user(*p), *n)).collect(),
            unknown: unknown.iter().map(|p| user(*p)).collect(),
        };
        assert_eq!(counts.unread(DeviceClass::Pc), expected(&[(2, 3)], &[3]));
        assert_eq!(counts.unread(DeviceClass::Mobile), expected(&[(3, 1)], &[]));
    }

    #[test]
    fn notes_to_oneself_and_peers_without_messages_are_left_out() {
        let rows = [
            row(1, 1, 3, Some(0), Some(0)),
            row(1, 2, 0, Some(0), Some(0)),
        ];
        assert_eq!(by_user(&rows), BTreeMap::new());
    }
}
