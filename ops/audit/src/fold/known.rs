use std::collections::{BTreeMap, HashMap, HashSet};

use event_log::{Bounds, Record};
use schemas::{
    ConversationId, DirectConversation, Partition, SourceWatermark, UserId,
    event::{Body, Event, SourceOffset},
};

use super::{contact::Contact, conversation::Conversation};
use crate::Scope;

/// Where the fold of a partition has come.
#[derive(Clone, Copy, Debug)]
struct Tail {
    next: i64,
    watermarks: SourceWatermark,
    /// Whether everything before it was folded here, so that its numbers can be judged.
    whole: bool,
}

/// An event that counts, and what is wrong with its numbers.
pub(crate) struct Taken {
    pub(crate) event: Event,
    pub(crate) wrong: Option<String>,
}

/// All conversations that were folded, as of the ends so far.
pub(crate) struct Known {
    scope: Scope,
    conversations: HashMap<DirectConversation, Conversation>,
    /// Whom each user has a conversation with.
    peers: HashMap<UserId, Vec<UserId>>,
    tails: BTreeMap<Partition, Tail>,
    /// Partitions whose log lost its beginning: what hangs on it is not known.
    beheaded: HashSet<Partition>,
}

impl Known {
    pub(crate) fn new(scope: Scope) -> Self {
        Self {
            scope,
            conversations: HashMap::new(),
            peers: HashMap::new(),
            tails: BTreeMap::new(),
            beheaded: HashSet::new(),
        }
    }

    /// Nothing yet; each of these partitions is folded from its beginning on.
    pub(crate) fn from_start(partitions: &[Partition]) -> Self {
        let tail = Tail {
            next: 0,
            watermarks: SourceWatermark::above(SourceOffset::START),
            whole: true,
        };
        let tails = partitions.iter().map(|partition| (*partition, tail));
        Self {
            tails: tails.collect(),
            ..Self::new(Scope::All)
        }
    }

    /// Takes over the conversations of a partition that was folded within `bounds`.
    pub(crate) fn add(
        &mut self,
        partition: Partition,
        bounds: Bounds,
        watermarks: SourceWatermark,
        conversations: HashMap<DirectConversation, Conversation>,
    ) {
        let next = bounds.end;
        let whole = false;
        self.tails.insert(
            partition,
            Tail {
                next,
                watermarks,
                whole,
            },
        );
        if bounds.start > 0 {
            self.beheaded.insert(partition);
        }
        for (id, conversation) in conversations {
            self.introduce(id);
            self.conversations.insert(id, conversation);
        }
    }

    fn introduce(&mut self, id: DirectConversation) {
        self.peers.entry(id.lo()).or_default().push(id.hi());
        if !id.is_to_self() {
            self.peers.entry(id.hi()).or_default().push(id.lo());
        }
    }

    /// Where the fold goes on in each partition.
    pub(crate) fn next_offsets(&self) -> BTreeMap<Partition, i64> {
        self.tails
            .iter()
            .map(|(partition, tail)| (*partition, tail.next))
            .collect()
    }

    /// Goes on over a later record; what it says, if it counts. In partitions that were taken over, what may be wrong with it is for
    /// the next audit to say.
    pub(crate) fn extend(&mut self, record: &Record) -> Option<Taken> {
        let tail = self.tails.get_mut(&record.partition)?;
        tail.next = record.offset + 1;
        let event = record.event().ok()?;
        if !tail.watermarks.admit(event.src.offset) {
            return None;
        }
        let is_whole = tail.whole;
        let Some(ConversationId::Direct(id)) = event.conversation() else {
            return Some(Taken { event, wrong: None });
        };
        if !self.conversations.contains_key(&id) {
            self.introduce(id);
        }
        let conversation = self.conversations.entry(id).or_default();
        let at = record.offset;
        let wrong = match &event.body {
            Body::Message(message) => conversation.message(id, message, event.ts, at, is_whole),
            Body::ReadPosition(position) => conversation.read(id, position, at, is_whole),
            Body::Control(_) | Body::Progress => None,
        };
        Some(Taken { event, wrong })
    }

    /// Whether what `uid` sees of `peer` is asked for and can be told.
    pub(crate) fn covers(&self, uid: UserId, peer: UserId) -> bool {
        let partition = DirectConversation::new(uid, peer).partition();
        self.scope.has_side(uid, peer) && !self.beheaded.contains(&partition)
    }

    /// What is to be kept for `uid` of `peer`; `None` where the log has nothing.
    pub(crate) fn contact(&self, uid: UserId, peer: UserId) -> Option<Contact> {
        let id = DirectConversation::new(uid, peer);
        self.conversations
            .get(&id)
            .map(|conversation| conversation.contact(id, uid))
    }

    /// The offset of the newest event between two users.
    pub(crate) fn newest_event(&self, uid: UserId, peer: UserId) -> Option<i64> {
        let id = DirectConversation::new(uid, peer);
        self.conversations.get(&id).map(Conversation::newest_event)
    }

    /// All that is to be kept for a user, by peer, as far as it is covered.
    pub(crate) fn contacts(&self, uid: UserId) -> BTreeMap<UserId, Contact> {
        let peers = self.peers.get(&uid).map(Vec::as_slice).unwrap_or_default();
        peers
            .iter()
            .filter(|peer| self.covers(uid, **peer))
            .filter_map(|peer| Some((*peer, self.contact(uid, *peer)?)))
            .collect()
    }

    /// Everyone whose side of a conversation is covered, with the peer.
    pub(crate) fn sides(&self) -> impl Iterator<Item = (UserId, UserId)> + '_ {
        self.peers
            .iter()
            .flat_map(|(uid, peers)| peers.iter().map(|peer| (*uid, *peer)))
            .filter(|(uid, peer)| self.covers(*uid, *peer))
    }

    /// Everyone in the log.
    pub(crate) fn users(&self) -> impl Iterator<Item = UserId> + '_ {
        self.peers.keys().copied()
    }
}
