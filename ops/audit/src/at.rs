//! What the log says up to some of its offsets: what a reader would have been told then.

use std::{cmp::Reverse, collections::BTreeMap};

use event_log::LogReader;
use schemas::{
    ContactFlags, DeviceClass, GroupId, GroupRole, GroupSettings, Partition, PartitionMap,
    PerDevice, Recipient, TimestampMs, UserId,
};

use crate::{
    AuditError,
    fold::{Contact, Group, LogState, Member},
    stream,
};

/// The conversations and groups of a part of the log.
pub struct StateAt {
    log: LogState,
}

/// A conversation of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationAt {
    /// The other side.
    pub with: Recipient,
    /// The name of a group.
    pub name: Option<String>,
    /// Its newest message; 0 if there is none.
    pub last_mid: i64,
    /// When it was sent.
    pub last_ts: TimestampMs,
    /// How many messages the user has not read; `None` if the sequencer no longer knew (PROTOCOL R5).
    pub unread: PerDevice<Option<i64>>,
    /// The newest message that the user has read.
    pub read_mid: PerDevice<i64>,
    /// What the user has set.
    pub flags: ContactFlags,
}

/// A member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemberAt {
    /// The user.
    pub uid: UserId,
    /// The role.
    pub role: GroupRole,
    /// Whether the member may not send.
    pub muted: bool,
}

/// What a user sees of the messages of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewAt {
    /// Messages up to this one are not shown: the user has cleared them, or joined the group after them.
    pub begins_after_mid: i64,
    /// Messages that the user has hidden.
    pub hidden: Vec<i64>,
}

impl StateAt {
    /// Folds these partitions from their beginnings to these ends; `progress` is called for each record. Blocks.
    ///
    /// # Errors
    /// [`AuditError`], also if an event needs a newer program.
    pub fn fold(
        reader: &LogReader,
        ends: &PartitionMap<i64>,
        mut progress: impl FnMut(),
    ) -> Result<Self, AuditError> {
        let partitions: Vec<Partition> = ends.partitions().collect();
        let mut log = LogState::from_start(&partitions);
        let left = log.left_to(ends);
        stream::fold_events(reader, &left, |record| {
            progress();
            log.extend(record).map(drop)
        })?;
        Ok(Self { log })
    }

    /// How many messages of each peer a user has not read, those with 0 left out; `None` as in [`ConversationAt::unread`].
    #[must_use]
    pub fn unread(&self, uid: UserId, device: DeviceClass) -> BTreeMap<UserId, Option<i64>> {
        let contacts = self.log.contacts(uid).into_iter();
        contacts
            .map(|(peer, contact)| (peer, unread(&contact, uid == peer, device)))
            .filter(|(_, unread)| *unread != Some(0))
            .collect()
    }

    /// The conversations in a user's list, pinned ones first, then by their newest messages.
    #[must_use]
    pub fn conversations(&self, uid: UserId) -> Vec<ConversationAt> {
        let contacts = self.log.contacts(uid).into_iter();
        let listed = contacts.filter(|(_, contact)| contact.last.mid > contact.deleted_mid);
        let direct = listed.map(|(peer, contact)| ConversationAt {
            with: Recipient::User(peer),
            name: None,
            last_mid: contact.last.mid,
            last_ts: TimestampMs(contact.last.ts),
            unread: PerDevice::from_fn(|device| unread(&contact, uid == peer, device)),
            read_mid: contact.reads.map(|read| read.mid),
            flags: contact.flags.set,
        });
        let groups = self.log.groups_of(uid);
        let groups = groups.filter_map(|(gid, group)| in_group(gid, group, group.of_user(uid)?));
        let mut all: Vec<ConversationAt> = direct.chain(groups).collect();
        all.sort_by_key(|one| Reverse((one.flags.pinned, one.last_ts, one.with)));
        all
    }

    /// The members of a group, by uid; `None` if there is no such group.
    #[must_use]
    pub fn members(&self, gid: GroupId) -> Option<(GroupSettings, Vec<MemberAt>)> {
        let group = self.log.group(gid)?;
        let settings = group.settings.clone()?;
        let member = |uid: UserId| {
            let Member { role, muted, .. } = group.of_user(uid)?;
            Some(MemberAt {
                uid,
                role: (*role)?,
                muted: *muted,
            })
        };
        let mut members: Vec<MemberAt> = group.everybody().filter_map(member).collect();
        members.sort_unstable();
        Some((settings, members))
    }

    /// What a user sees of a conversation; `None` of a group whose member the user is not.
    #[must_use]
    pub fn view(&self, uid: UserId, with: Recipient) -> Option<ViewAt> {
        let gid = match with {
            Recipient::Group(gid) => gid,
            Recipient::User(peer) => {
                let contact = self.log.contact(uid, peer).unwrap_or_default();
                return Some(ViewAt {
                    begins_after_mid: contact.clear_mid,
                    hidden: contact.hidden,
                });
            }
        };
        let group = self.log.group(gid)?;
        let member = group.of_user(uid).filter(|member| member.role.is_some())?;
        let is_whole = group.settings.as_ref().is_some_and(|set| set.whole_history);
        let joined = if is_whole { 0 } else { member.join_mid };
        Some(ViewAt {
            begins_after_mid: joined.max(member.clear_mid),
            hidden: member.hidden.clone(),
        })
    }
}

/// A note to oneself is never unread.
fn unread(contact: &Contact, is_note: bool, device: DeviceClass) -> Option<i64> {
    if is_note {
        return Some(0);
    }
    let unread = contact.peer_ordinal - contact.reads[device].ordinal?;
    Some(unread.max(0))
}

/// `None` for a user who is not a member.
fn in_group(gid: GroupId, group: &Group, member: &Member) -> Option<ConversationAt> {
    member.role?;
    let settings = group.settings.as_ref()?;
    let last_mid = group.last.mid;
    let read_mid = PerDevice::from_fn(|device| member.read_mid(device));
    Some(ConversationAt {
        with: Recipient::Group(gid),
        name: Some(settings.name.clone()),
        last_mid,
        last_ts: TimestampMs(group.last.ts),
        unread: match settings.dissolved {
            true => PerDevice::from_fn(|_| Some(0)),
            false => read_mid.map(|mid| Some((last_mid - mid).max(0))),
        },
        read_mid,
        flags: ContactFlags::default(),
    })
}
