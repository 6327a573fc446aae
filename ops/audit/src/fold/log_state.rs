use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ops::Range,
};

use event_log::Record;
use schemas::{
    ConversationId, DirectConversation, GroupId, OffsetRange, Partition, PartitionMap, UserId,
    event::{Body, Event},
};

use super::{
    contact::Contact, conversation::Conversation, group::Group, profile::ProfileVersion,
    subject::Subject, watermark::Watermark,
};
use crate::{AuditError, Scope, read};

/// How far a partition is folded.
#[derive(Clone, Copy, Debug)]
struct FoldPosition {
    next: i64,
    watermark: Watermark,
    /// Whether this program folded the partition from its start, so that numbers can be checked.
    is_whole: bool,
}

/// An event that readers accept, and what is wrong with its numbers.
pub(crate) struct FoldedEvent {
    pub(crate) event: Event,
    pub(crate) wrong: Option<String>,
}

/// The state of a partition.
type Folded = (
    HashMap<DirectConversation, Conversation>,
    HashMap<GroupId, Group>,
    HashMap<UserId, ProfileVersion>,
);

/// All conversations, groups and profiles, folded up to each partition's position.
pub(crate) struct LogState {
    scope: Scope,
    conversations: HashMap<DirectConversation, Conversation>,
    groups: HashMap<GroupId, Group>,
    profiles: HashMap<UserId, ProfileVersion>,
    peers: HashMap<UserId, Vec<UserId>>,
    positions: PartitionMap<FoldPosition>,
    /// Partitions whose log does not begin at 0: their state is incomplete.
    without_start: HashSet<Partition>,
}

impl LogState {
    pub(crate) fn new(scope: Scope) -> Self {
        Self {
            scope,
            conversations: HashMap::new(),
            groups: HashMap::new(),
            profiles: HashMap::new(),
            peers: HashMap::new(),
            positions: PartitionMap::new(),
            without_start: HashSet::new(),
        }
    }

    /// An empty state, in which these partitions are to be folded from their start.
    pub(crate) fn from_start(partitions: &[Partition]) -> Self {
        let position = FoldPosition {
            next: 0,
            watermark: Watermark::START,
            is_whole: true,
        };
        let positions = partitions.iter().map(|partition| (*partition, position));
        Self {
            positions: positions.collect(),
            ..Self::new(Scope::All)
        }
    }

    /// Adds the state of a partition that was folded within `bounds`.
    pub(crate) fn add(
        &mut self,
        partition: Partition,
        bounds: OffsetRange,
        watermark: Watermark,
        (conversations, groups, profiles): Folded,
    ) {
        let next = bounds.end;
        let is_whole = false;
        self.positions.insert(
            partition,
            FoldPosition {
                next,
                watermark,
                is_whole,
            },
        );
        if bounds.start > 0 {
            self.without_start.insert(partition);
        }
        for (id, conversation) in conversations {
            self.add_peers(id);
            self.conversations.insert(id, conversation);
        }
        self.groups.extend(groups);
        self.profiles.extend(profiles);
    }

    fn add_peers(&mut self, id: DirectConversation) {
        for uid in id.users() {
            self.peers.entry(uid).or_default().push(id.peer_of(uid));
        }
    }

    /// The next offset to fold in each partition.
    pub(crate) fn next_offsets(&self) -> PartitionMap<i64> {
        self.positions
            .iter()
            .map(|(partition, position)| (partition, position.next))
            .collect()
    }

    /// The highest source offset of a partition so far.
    pub(crate) fn watermark(&self, partition: Partition) -> Watermark {
        self.positions
            .get(partition)
            .map_or(Watermark::UNKNOWN, |position| position.watermark)
    }

    /// The offsets left to fold up to `ends`.
    pub(crate) fn left_to(&self, ends: &PartitionMap<i64>) -> Vec<(Partition, Range<i64>)> {
        self.next_offsets()
            .into_iter()
            .filter_map(|(partition, next)| Some((partition, next..*ends.get(partition)?)))
            .collect()
    }

    /// Folds the next record; returns its event if readers accept it. The numbers are checked only in partitions that were folded from their start.
    pub(crate) fn extend(&mut self, record: &Record) -> Result<Option<FoldedEvent>, AuditError> {
        let Some(position) = self.positions.get_mut(record.partition) else {
            return Ok(None);
        };
        let read = read::event(record)?;
        position.next = record.offset + 1;
        let event = read
            .ok()
            .filter(|event| position.watermark.rise_to(event.src.offset));
        let Some(event) = event else {
            return Ok(None);
        };
        let is_whole = position.is_whole;
        let at = record.offset;
        let wrong = match (event.conversation(), &event.body) {
            (Some(ConversationId::Direct(id)), body) => {
                if !self.conversations.contains_key(&id) {
                    self.add_peers(id);
                }
                let conversation = self.conversations.entry(id).or_default();
                conversation.apply(id, body, event.ts, at, is_whole)
            }
            (Some(ConversationId::Group(gid)), body) => {
                let group = self.groups.entry(gid).or_default();
                group.apply(gid, body, event.ts, at, is_whole)
            }
            (_, Body::Profile(profile)) => {
                let version = ProfileVersion::new(profile, event.ts, at);
                self.profiles.insert(profile.uid, version);
                None
            }
            _ => None,
        };
        Ok(Some(FoldedEvent { event, wrong }))
    }

    pub(crate) fn scope(&self) -> Scope {
        self.scope
    }

    /// Whether a subject is in scope, and its values are known.
    pub(crate) fn covers(&self, subject: Subject) -> bool {
        let is_in_scope = match subject {
            Subject::Contact(uid, peer) => self.scope.has_contact(uid, peer),
            Subject::Group(gid) => self.scope.has_group(gid),
            Subject::Member(gid, uid) => self.scope.has_member(gid, uid),
            Subject::User(uid) => [Scope::All, Scope::User(uid)].contains(&self.scope),
        };
        is_in_scope && !self.without_start.contains(&subject.partition())
    }

    /// Every covered subject.
    pub(crate) fn subjects(&self) -> impl Iterator<Item = Subject> {
        let contacts = self.peers.iter().flat_map(|(uid, peers)| {
            let peers = peers.iter();
            peers.map(|peer| Subject::Contact(*uid, *peer))
        });
        let groups = self.groups.iter().flat_map(|(gid, group)| {
            let members = group.everybody();
            let members = members.map(|uid| Subject::Member(*gid, uid));
            members.chain([Subject::Group(*gid)])
        });
        let users = self.profiles.keys().map(|uid| Subject::User(*uid));
        let all = contacts.chain(groups).chain(users);
        all.filter(|subject| self.covers(*subject))
    }

    /// The contact of `uid` with `peer`; `None` if the log has no such conversation.
    pub(crate) fn contact(&self, uid: UserId, peer: UserId) -> Option<Contact> {
        let id = DirectConversation::new(uid, peer);
        self.conversations
            .get(&id)
            .map(|conversation| conversation.contact(id, uid))
    }

    /// The offset of the newest event of a contact's conversation or of a profile; for a group, of the last event that changed what everybody sees.
    pub(crate) fn newest_event(&self, subject: Subject) -> Option<i64> {
        match subject {
            Subject::Contact(uid, peer) => {
                let conversation = self.conversations.get(&DirectConversation::new(uid, peer));
                conversation.map(Conversation::newest_event)
            }
            Subject::Group(gid) | Subject::Member(gid, _) => {
                self.group(gid).map(|group| group.event_offset)
            }
            Subject::User(uid) => self.profile(uid).map(|version| version.at),
        }
    }

    /// The covered contacts of a user, by peer.
    pub(crate) fn contacts(&self, uid: UserId) -> BTreeMap<UserId, Contact> {
        let peers = self.peers.get(&uid).map(Vec::as_slice).unwrap_or_default();
        peers
            .iter()
            .filter(|peer| self.covers(Subject::Contact(uid, **peer)))
            .filter_map(|peer| Some((*peer, self.contact(uid, *peer)?)))
            .collect()
    }

    /// The groups that a user was ever a member of.
    pub(crate) fn groups_of(&self, uid: UserId) -> impl Iterator<Item = (GroupId, &Group)> {
        let groups = self.groups.iter().map(|(gid, group)| (*gid, group));
        groups.filter(move |(_, group)| group.of_user(uid).is_some())
    }

    pub(crate) fn group(&self, gid: GroupId) -> Option<&Group> {
        self.groups.get(&gid)
    }

    pub(crate) fn profile(&self, uid: UserId) -> Option<&ProfileVersion> {
        self.profiles.get(&uid)
    }

    /// The users of direct conversations.
    pub(crate) fn users(&self) -> impl Iterator<Item = UserId> + '_ {
        self.peers.keys().copied()
    }
}
