//! A log of events, as a sequencer would write it, that the sinks of MySQL project when they are told to.

use std::{collections::BTreeMap, sync::Arc};

use event_log::LogReader;
use futures::future::join_all;
use message_store::{MessageStore, OffsetUpdate, Sink};
use mysql_sinks::{CoalescingSink, Destination, MessagesSink, UserRow};
use projection::{EventBatch, LogEvent};
use schemas::{
    Change, ChangeSeq, ContactChange, ContactFlags, DeletedContact, DeviceClass,
    DirectConversation, GroupChange, GroupChangeKind, GroupId, GroupMember, GroupRole,
    GroupSettings, LogPosition, MessageChange, Mid, NextOffset, Ordinal, Partition, PartitionMap,
    Profile, Recipient, UserId,
    event::{Body, Event, Message, ReadPosition, Source, SourceOffset},
    topics::Topic,
};
use tokio::sync::{Mutex, MutexGuard, OnceCell};
use uuid::Uuid;

use crate::{
    chat::mid,
    deployment::{Deployment, now},
};

/// The sinks have one log, so one test at a time writes it.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

pub struct SyncLog {
    pub deployment: &'static Deployment,
    store: MessageStore,
    reader: Arc<LogReader>,
    events: PartitionMap<Vec<LogEvent>>,
    next: PartitionMap<i64>,
    /// Who sent the messages.
    senders: BTreeMap<DirectConversation, Vec<UserId>>,
    chgs: BTreeMap<DirectConversation, ChangeSeq>,
    groups: BTreeMap<GroupId, Group>,
    /// Hides and clears have no number.
    pub is_of_version_4: bool,
    _turn: MutexGuard<'static, ()>,
}

struct Group {
    settings: GroupSettings,
    members: BTreeMap<UserId, GroupRole>,
    last_mid: Mid,
    change_seq: ChangeSeq,
}

impl SyncLog {
    /// In databases that other tests of syncs had before. What these left undone is passed over.
    pub async fn open() -> Self {
        static DEPLOYMENT: OnceCell<Deployment> = OnceCell::const_new();
        let turn = ONE_AT_A_TIME.lock().await;
        let deployment = DEPLOYMENT.get_or_init(async || {
            let mut deployment = Deployment::new();
            deployment.config.mysql.databases = 2;
            // Where there are none, what reads them blocks for half a minute.
            deployment.apply_topics().await;
            deployment.apply_schema().await;
            deployment
        });
        let deployment = deployment.await;
        let mut log = Self {
            deployment,
            store: deployment.store(),
            reader: Arc::new(LogReader::new(&deployment.config.kafka).unwrap()),
            events: PartitionMap::full(|_| Vec::new()),
            next: PartitionMap::full(|_| 0),
            senders: BTreeMap::new(),
            chgs: BTreeMap::new(),
            groups: BTreeMap::new(),
            is_of_version_4: false,
            _turn: turn,
        };
        log.pass_over_earlier().await;
        log
    }

    async fn pass_over_earlier(&mut self) {
        let topic = self.deployment.events();
        let all: Vec<Partition> = Partition::all().collect();
        let mut found = Vec::new();
        for shard in self.store.layout().shards() {
            for sink in [Sink::Contacts, Sink::Messages] {
                let at = self.store.read_resume_offsets(shard, sink, &topic, &all);
                found.push((shard, sink, at.await.unwrap()));
            }
        }
        for partition in &all {
            let furthest = found.iter().map(|(.., at)| at[*partition].next.get());
            self.next[*partition] = furthest.max().unwrap();
        }
        for (shard, sink, at) in found {
            let moves = all.iter().map(|partition| OffsetUpdate {
                partition: *partition,
                from: at[*partition],
                to: self.end(*partition),
            });
            let moves: Vec<OffsetUpdate> = moves.filter(|moved| moved.from != moved.to).collect();
            let moved = self
                .store
                .update_resume_offsets(shard, sink, &topic, &moves);
            moved.await.unwrap();
        }
    }

    pub fn set_profile(&mut self, uid: UserId, nick: &str) {
        let profile = Profile {
            uid,
            nick: nick.to_owned(),
            avatar: None,
            extra: None,
        };
        self.append(Partition::of_user(uid), Body::Profile(profile));
    }

    /// Where a user's profile was set last.
    pub fn last_profile_at(&self, uid: UserId) -> String {
        let partition = Partition::of_user(uid);
        let is_of_user = |one: &&LogEvent| matches!(&one.event.body, Body::Profile(profile) if profile.uid == uid);
        let set = self.events[partition].iter().rfind(is_of_user);
        format!("{partition}:{}", set.unwrap().offset)
    }

    /// The position behind the last event.
    pub fn end(&self, partition: Partition) -> LogPosition {
        let next = self.next[partition];
        LogPosition {
            next: NextOffset::new(next),
            watermark: SourceOffset {
                epoch: 0,
                offset: next - 1,
            },
        }
    }

    /// Where the last event is that was made of a conversation's partition.
    pub fn last_at(&self, uid: UserId, peer: UserId) -> String {
        let partition = DirectConversation::new(uid, peer).partition();
        format!("{partition}:{}", self.next[partition] - 1)
    }

    /// Both sinks store everything.
    pub async fn project_all(&self) {
        self.project(Sink::Messages).await;
        self.project(Sink::Contacts).await;
    }

    /// A sink stores everything in all databases.
    pub async fn project(&self, sink: Sink) {
        self.fill_log().await;
        for shard in self.store.layout().shards() {
            let to = Destination {
                store: self.store.clone(),
                shard,
                sink,
                topic: self.deployment.events(),
                tables: None,
            };
            let partitions = self.store.layout().source_partitions(sink, shard);
            let partitions: Vec<Partition> = partitions.collect();
            match sink {
                Sink::Contacts => {
                    self.project_into(CoalescingSink::<UserRow>::new([to]), &partitions)
                        .await;
                }
                _ => self.project_into(MessagesSink::new(to), &partitions).await,
            }
        }
    }

    /// A sink has lost its resume offset of a partition, and reads again: so far what is between two positions.
    pub async fn read_again(
        &mut self,
        sink: Sink,
        partition: Partition,
        [from, to]: [LogPosition; 2],
    ) {
        let back = [OffsetUpdate {
            partition,
            from: self.end(partition),
            to: from,
        }];
        let shard = self.store.layout().shard_of(partition);
        let topic = self.deployment.events();
        let moved = self.store.update_resume_offsets(shard, sink, &topic, &back);
        moved.await.unwrap();
        let is_early = |event: &LogEvent| event.offset < to.next.get();
        let later = self.events[partition].partition_point(is_early);
        let later = self.events[partition].split_off(later);
        let next = std::mem::replace(&mut self.next[partition], to.next.get());
        self.project(sink).await;
        self.next[partition] = next;
        self.events[partition].extend(later);
    }

    /// The janitor deletes who left by what both sinks have stored.
    pub async fn forget_left(&self) -> u64 {
        let ends = PartitionMap::full(|partition| self.next[partition]);
        let topic = self.deployment.events();
        self.store.forget_left(&topic, &ends).await.unwrap()
    }

    /// Has as many records on the real log: a token that is ahead of that is of another one.
    async fn fill_log(&self) {
        for (partition, end) in self.reader.ends(Topic::Events).await.unwrap() {
            let deployment = self.deployment;
            let append = |_| deployment.append(Topic::Events, partition, b"", None, &[]);
            join_all((end..self.next[partition]).map(append)).await;
        }
    }

    async fn project_into(&self, mut sink: impl projection::Sink, partitions: &[Partition]) {
        let from = sink.resume(partitions).await.unwrap();
        for (partition, at) in from {
            let new = self.events[partition].iter();
            let new = new.filter(|event| event.offset >= at.next.get());
            sink.absorb(EventBatch {
                partition,
                events: new.cloned().collect(),
                end: self.end(partition),
            });
        }
        let _whole = sink.flush().await.unwrap();
    }

    fn append(&mut self, partition: Partition, body: Body) {
        let offset = self.next[partition];
        self.next[partition] += 1;
        let event = Event {
            src: Source {
                offset: SourceOffset { epoch: 0, offset },
                leader_epoch: 0,
            },
            ts: now(),
            body,
            command: None,
            words: None,
        };
        self.events[partition].push(LogEvent { offset, event });
    }

    pub fn send(&mut self, srcid: UserId, destid: UserId, msg: &str) {
        let conversation = DirectConversation::new(srcid, destid);
        let senders = self.senders.entry(conversation).or_default();
        senders.push(srcid);
        let own = senders.iter().filter(|one| **one == srcid).count();
        let message = Message {
            srcid,
            to: Recipient::User(destid),
            client_msg_id: Uuid::now_v7().to_string().try_into().unwrap(),
            msg: msg.to_owned(),
            mid: mid(senders.len() as i64),
            ordinal: (own as i64).try_into().unwrap(),
        };
        self.append(conversation.partition(), Body::Message(message));
    }

    pub fn last_mid(&self, uid: UserId, peer: UserId) -> i64 {
        let senders = self.senders.get(&DirectConversation::new(uid, peer));
        senders.map_or(0, Vec::len) as i64
    }

    /// How many of the first messages the peer sent.
    fn peer_ordinal(&self, uid: UserId, peer: UserId, up_to: i64) -> Ordinal {
        let senders = self.senders.get(&DirectConversation::new(uid, peer));
        let senders = senders.into_iter().flatten().take(up_to as usize);
        let count = senders.filter(|one| **one == peer && peer != uid).count();
        (count as i64).try_into().unwrap()
    }

    pub fn read(&mut self, uid: UserId, peer: UserId, device: DeviceClass, up_to: i64) {
        let position = ReadPosition {
            uid,
            to: Recipient::User(peer),
            device,
            mid: mid(up_to),
            ordinal: Some(self.peer_ordinal(uid, peer, up_to)),
        };
        let partition = DirectConversation::new(uid, peer).partition();
        self.append(partition, Body::ReadPosition(position));
    }

    pub fn change(&mut self, by: UserId, peer: UserId, of: i64, change: Change) {
        let conversation = DirectConversation::new(by, peer);
        let n = (change == Change::Clear).then(|| self.peer_ordinal(by, peer, of));
        let is_own = self.is_of_version_4 && change.is_for_one();
        let last = self.chgs.entry(conversation).or_default();
        let change = MessageChange {
            by,
            to: Recipient::User(peer),
            mid: mid(of),
            change,
            change_seq: next_chg(last, is_own),
            ordinal: n,
        };
        self.append(conversation.partition(), Body::MessageChange(change));
    }

    pub fn contact(&mut self, uid: UserId, peer: UserId, flags: ContactFlags, deleted: bool) {
        let last = self.last_mid(uid, peer);
        let deleted = deleted.then(|| DeletedContact {
            mid: mid(last),
            ordinal: self.peer_ordinal(uid, peer, last),
        });
        let change = ContactChange {
            uid,
            peer,
            flags,
            deleted,
        };
        let partition = DirectConversation::new(uid, peer).partition();
        self.append(partition, Body::ContactChange(change));
    }

    pub fn create(&mut self, gid: GroupId, owner: UserId, members: &[UserId]) {
        let settings = GroupSettings {
            name: "Lunch".to_owned(),
            owner,
            open: true,
            whole_history: false,
            muted: false,
            dissolved: false,
        };
        let group = Group {
            settings,
            members: BTreeMap::new(),
            last_mid: Mid::ZERO,
            change_seq: ChangeSeq::ZERO,
        };
        self.groups.insert(gid, group);
        let owner_and_members = [(owner, GroupRole::Owner)].into_iter();
        let members = members.iter().map(|uid| (*uid, GroupRole::Member));
        let joined = owner_and_members.chain(members);
        let joined = joined.map(|(uid, role)| member(uid, Some(role), true));
        self.change_group(gid, owner, GroupChangeKind::Create, joined.collect());
    }

    pub fn is_member(&self, gid: GroupId, uid: UserId) -> bool {
        self.groups[&gid].members.contains_key(&uid)
    }

    pub fn join(&mut self, gid: GroupId, uid: UserId) {
        let joined = member(uid, Some(GroupRole::Member), true);
        self.change_group(gid, uid, GroupChangeKind::Join, vec![joined]);
    }

    pub fn leave(&mut self, gid: GroupId, uid: UserId) {
        self.change_group(
            gid,
            uid,
            GroupChangeKind::Leave,
            vec![member(uid, None, false)],
        );
    }

    pub fn set_role(&mut self, gid: GroupId, uid: UserId, role: GroupRole) {
        let owner = self.groups[&gid].settings.owner;
        let changed = vec![member(uid, Some(role), false)];
        self.change_group(gid, owner, GroupChangeKind::SetRole, changed);
    }

    pub fn set(&mut self, gid: GroupId, change: impl FnOnce(&mut GroupSettings)) {
        let settings = &mut self.groups.get_mut(&gid).unwrap().settings;
        change(settings);
        let (owner, dissolved) = (settings.owner, settings.dissolved);
        let kind = match dissolved {
            true => GroupChangeKind::Dissolve,
            false => GroupChangeKind::Rename,
        };
        self.change_group(gid, owner, kind, Vec::new());
    }

    fn change_group(
        &mut self,
        gid: GroupId,
        by: UserId,
        kind: GroupChangeKind,
        members: Vec<GroupMember>,
    ) {
        let group = self.groups.get_mut(&gid).unwrap();
        for member in &members {
            match member.role {
                Some(role) => group.members.insert(member.uid, role),
                None => group.members.remove(&member.uid),
            };
        }
        let count = if group.settings.dissolved {
            0
        } else {
            group.members.len()
        };
        let change = GroupChange {
            gid,
            by,
            kind,
            settings: group.settings.clone(),
            member_count: count as i64,
            last_mid: group.last_mid,
            members,
        };
        self.append(gid.partition(), Body::GroupChange(Box::new(change)));
    }

    pub fn say(&mut self, gid: GroupId, by: UserId, msg: &str) {
        let group = self.groups.get_mut(&gid).unwrap();
        group.last_mid = group.last_mid.next();
        let message = Message {
            srcid: by,
            to: Recipient::Group(gid),
            client_msg_id: Uuid::now_v7().to_string().try_into().unwrap(),
            msg: msg.to_owned(),
            mid: group.last_mid,
            ordinal: Ordinal::ZERO,
        };
        self.append(gid.partition(), Body::Message(message));
    }

    pub fn read_group(&mut self, gid: GroupId, by: UserId, device: DeviceClass) {
        let mid = self.groups[&gid].last_mid;
        let position = ReadPosition {
            uid: by,
            to: Recipient::Group(gid),
            device,
            mid,
            ordinal: None,
        };
        self.append(gid.partition(), Body::ReadPosition(position));
    }

    /// Of the newest message, if there is one.
    pub fn change_in_group(&mut self, gid: GroupId, by: UserId, change: Change) {
        let group = self.groups.get_mut(&gid).unwrap();
        if group.last_mid == Mid::ZERO {
            return;
        }
        let is_own = self.is_of_version_4 && change.is_for_one();
        let change = MessageChange {
            by,
            to: Recipient::Group(gid),
            mid: group.last_mid,
            change,
            change_seq: next_chg(&mut group.change_seq, is_own),
            ordinal: None,
        };
        self.append(gid.partition(), Body::MessageChange(change));
    }
}

fn next_chg(last: &mut ChangeSeq, is_own: bool) -> ChangeSeq {
    if is_own {
        return ChangeSeq::ZERO;
    }
    *last = last.next();
    *last
}

fn member(uid: UserId, role: Option<GroupRole>, joined: bool) -> GroupMember {
    GroupMember {
        uid,
        role,
        muted: false,
        joined,
    }
}
