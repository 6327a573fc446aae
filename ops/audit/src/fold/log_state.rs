use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ops::Range,
};

use event_log::Record;
use schemas::{
    ConversationId, DirectConversation, GroupId, OffsetRange, Partition, PartitionMap, Profile,
    TableNumber, UserId,
    event::{Body, Event},
};

use super::{
    contact::Contact, conversation::Conversation, group::Group, profile::ProfileVersion,
    watermark::Watermark,
};
use crate::{AuditError, Scope, read};

/// How far a partition is folded.
#[derive(Clone, Copy, Debug)]
struct FoldPosition {
    next: i64,
    watermark: Watermark,
    /// Whether the partition was folded here from its start, so that numbers can be checked.
    is_whole: bool,
}

/// An event that readers accept, and what is wrong with its numbers.
pub(crate) struct FoldedEvent {
    pub(crate) event: Event,
    pub(crate) wrong: Option<String>,
}

/// What a partition has.
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

    /// An empty state: these partitions are to be folded from their start.
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

    /// Adds what a partition has that was folded within `bounds`.
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

    /// What is left to fold up to `ends`.
    pub(crate) fn left_to(&self, ends: &PartitionMap<i64>) -> Vec<(Partition, Range<i64>)> {
        self.next_offsets()
            .into_iter()
            .filter_map(|(partition, next)| Some((partition, next..*ends.get(partition)?)))
            .collect()
    }

    /// Folds the next record; returns its event if readers accept it. The numbers are checked only in partitions that were folded here from
    /// their start.
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

    /// Whether what `uid` sees of `peer` is in scope and known.
    pub(crate) fn covers(&self, uid: UserId, peer: UserId) -> bool {
        let partition = DirectConversation::new(uid, peer).partition();
        self.scope.has_contact(uid, peer) && !self.without_start.contains(&partition)
    }

    /// The contact of `uid` with `peer`; `None` if the log has no such conversation.
    pub(crate) fn contact(&self, uid: UserId, peer: UserId) -> Option<Contact> {
        let id = DirectConversation::new(uid, peer);
        self.conversations
            .get(&id)
            .map(|conversation| conversation.contact(id, uid))
    }

    /// The offset of the newest event of a conversation; of a group, that of the last one that changed what everybody sees.
    pub(crate) fn newest_event(&self, conversation: ConversationId) -> Option<i64> {
        match conversation {
            ConversationId::Direct(id) => {
                self.conversations.get(&id).map(Conversation::newest_event)
            }
            ConversationId::Group(gid) => self.groups.get(&gid).map(|group| group.pos),
        }
    }

    /// The covered contacts of a user, by peer.
    pub(crate) fn contacts(&self, uid: UserId) -> BTreeMap<UserId, Contact> {
        let peers = self.peers.get(&uid).map(Vec::as_slice).unwrap_or_default();
        peers
            .iter()
            .filter(|peer| self.covers(uid, **peer))
            .filter_map(|peer| Some((*peer, self.contact(uid, *peer)?)))
            .collect()
    }

    /// The user and the peer of every covered contact.
    pub(crate) fn contact_keys(&self) -> impl Iterator<Item = (UserId, UserId)> + '_ {
        self.peers
            .iter()
            .flat_map(|(uid, peers)| peers.iter().map(|peer| (*uid, *peer)))
            .filter(|(uid, peer)| self.covers(*uid, *peer))
    }

    /// Whether what the stores have of a group, or of a user in it, is in scope and known.
    pub(crate) fn covers_in_group(&self, gid: GroupId, uid: Option<UserId>) -> bool {
        let partition = ConversationId::Group(gid).partition();
        let is_in_scope = match uid {
            None => self.scope.has_group(gid),
            Some(uid) => self.scope.has_member(gid, uid),
        };
        is_in_scope && !self.without_start.contains(&partition)
    }

    pub(crate) fn group(&self, gid: GroupId) -> Option<&Group> {
        self.groups.get(&gid)
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = (GroupId, &Group)> {
        self.groups.iter().map(|(gid, group)| (*gid, group))
    }

    /// Whether a user's profile is in scope and known.
    pub(crate) fn covers_profile(&self, uid: UserId) -> bool {
        let is_in_scope = match self.scope {
            Scope::All => true,
            Scope::User(one) => one == uid,
            Scope::Conversation(_) => false,
        };
        is_in_scope && !self.without_start.contains(&Profile::partition_of(uid))
    }

    pub(crate) fn profile(&self, uid: UserId) -> Option<&ProfileVersion> {
        self.profiles.get(&uid)
    }

    /// The covered users whose profiles are in this table.
    pub(crate) fn users_with_profiles(&self, table: TableNumber) -> impl Iterator<Item = UserId> {
        let all = self.profiles.keys().copied();
        all.filter(move |uid| TableNumber::of_user(*uid) == table && self.covers_profile(*uid))
    }

    /// The users of direct conversations.
    pub(crate) fn users(&self) -> impl Iterator<Item = UserId> + '_ {
        self.peers.keys().copied()
    }
}
