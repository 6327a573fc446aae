//! A group as the sequencer and the projectors would make it.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicI64, Ordering},
};

use message_store::{
    ChangeRow, ConversationRows, GroupDelta, GroupMemberRow, LastMessage, Membership, MessageRow,
    SettingsAt, UserRows,
};
use schemas::{
    Change, ChangeSeq, GroupId, GroupRole, GroupSettings, Mid, Ordinal, PerDevice, Recipient,
    TimestampMs, UserId, event::Message,
};
use uuid::Uuid;

use crate::{
    chat::{change_seq, fresh_user, mid},
    deployment::{Deployment, now},
};

/// Rows of one table need ids of their own.
static NEXT_ID: AtomicI64 = AtomicI64::new(0);

/// A group that no other test has, and what its members have of it.
pub struct Group {
    pub gid: GroupId,
    pub owner: UserId,
    pub settings: GroupSettings,
    pub messages: Vec<MessageRow>,
    pub changes: Vec<ChangeRow>,
    pub members: BTreeMap<UserId, GroupMemberRow>,
    pub memberships: BTreeMap<UserId, Membership>,
}

impl Group {
    pub fn new() -> Self {
        Self::of(fresh_user().get().try_into().unwrap(), fresh_user())
    }

    pub fn of(gid: GroupId, owner: UserId) -> Self {
        let settings = GroupSettings {
            name: "Lunch".to_owned(),
            owner,
            open: false,
            whole_history: false,
            muted: false,
            dissolved: false,
        };
        let mut group = Self {
            gid,
            owner,
            settings,
            messages: Vec::new(),
            changes: Vec::new(),
            members: BTreeMap::new(),
            memberships: BTreeMap::new(),
        };
        group.join(owner, GroupRole::Owner);
        group
    }

    pub fn path(&self, call: &str, uid: UserId) -> String {
        format!("/v1/groups/{}{call}?uid={uid}", self.gid)
    }

    fn last_mid(&self) -> Mid {
        mid(self.messages.len() as i64)
    }

    pub fn membership(&mut self, uid: UserId) -> &mut Membership {
        let gid = self.gid;
        let row = self.memberships.entry(uid);
        row.or_insert_with(|| Membership::new(uid, gid))
    }

    pub fn join(&mut self, uid: UserId, role: GroupRole) {
        let (event_offset, join_mid) = (next_id(), self.last_mid());
        let row = GroupMemberRow {
            role: Some(role),
            join_mid,
            ..GroupMemberRow::new(self.gid, uid, event_offset)
        };
        self.members.insert(uid, row);
        let row = self.membership(uid);
        (row.join_pos, row.join_mid, row.event_offset) = (event_offset, join_mid, event_offset);
    }

    pub fn joined(&mut self) -> UserId {
        let uid = fresh_user();
        self.join(uid, GroupRole::Member);
        uid
    }

    pub fn leave(&mut self, uid: UserId) {
        let event_offset = next_id();
        let row = self.members.get_mut(&uid).unwrap();
        (row.role, row.event_offset) = (None, event_offset);
        let row = self.membership(uid);
        (row.left_pos, row.event_offset) = (event_offset, event_offset);
    }

    pub fn say(&mut self, srcid: UserId, msg: &str) {
        self.say_at(srcid, msg, TimestampMs(now().0 - 1_000));
    }

    pub fn say_at(&mut self, srcid: UserId, msg: &str, ts: TimestampMs) {
        let mid = self.last_mid().next();
        let message = Message {
            srcid,
            to: Recipient::Group(self.gid),
            client_msg_id: Uuid::now_v7().to_string().try_into().unwrap(),
            msg: msg.to_owned(),
            mid,
            ordinal: Ordinal::ZERO,
        };
        self.messages.push(MessageRow::new(next_id(), ts, message));
        self.membership(srcid).own_last_mid = mid;
    }

    pub fn change(&mut self, by: UserId, of: i64, change: Change) {
        let row = self.membership(by);
        match change {
            Change::Hide => {
                row.hidden.insert(mid(of));
            }
            Change::Clear => row.clear_mid = mid(of),
            _ => {}
        }
        self.changes.push(ChangeRow {
            id: next_id(),
            ts: now(),
            conversation: self.gid.into(),
            by,
            mid: mid(of),
            change,
            change_seq: change_seq(self.changes.len() as i64 + 1),
        });
    }

    pub fn read(&mut self, uid: UserId, pc: i64, mobile: i64) {
        self.membership(uid).read = PerDevice {
            pc: mid(pc),
            mobile: mid(mobile),
        };
    }

    pub fn dissolve(&mut self) {
        self.settings.dissolved = true;
    }

    fn delta(&self) -> GroupDelta {
        let count = self.members.values().filter(|row| row.role.is_some());
        let member_count = if self.settings.dissolved {
            0
        } else {
            count.count() as i64
        };
        let event_offset = next_id();
        let mut delta = GroupDelta {
            settings: Some(SettingsAt {
                event_offset,
                settings: self.settings.clone(),
                member_count,
            }),
            change_seq: self
                .changes
                .last()
                .map_or(ChangeSeq::ZERO, |row| row.change_seq),
            event_offset,
            ..GroupDelta::default()
        };
        for row in &self.messages {
            delta.merge_last(LastMessage::new(row.mid, row.srcid, &row.msg, row.ts));
        }
        for row in &self.changes {
            let last = LastMessage::changed(row.mid, row.by, &row.change, row.change_seq, row.ts);
            if let Some(last) = last {
                delta.merge_last(last);
            }
        }
        delta
    }

    /// What the messages sink has.
    pub fn rows(&self) -> ConversationRows {
        ConversationRows {
            messages: self.messages.clone(),
            changes: self.changes.clone(),
            groups: BTreeMap::from([(self.gid, self.delta())]),
            members: self
                .members
                .iter()
                .map(|(uid, row)| ((self.gid, *uid), *row))
                .collect(),
        }
    }

    pub async fn write(&self, deployment: &Deployment) {
        self.write_group(deployment).await;
        self.write_memberships(deployment).await;
    }

    pub async fn write_group(&self, deployment: &Deployment) {
        let shard = deployment.shard_of(self.gid.partition());
        deployment.write_rows(shard, &self.rows()).await;
    }

    pub async fn write_memberships(&self, deployment: &Deployment) {
        let rows: Vec<&Membership> = self.memberships.values().collect();
        write_memberships(deployment, &rows).await;
    }
}

pub async fn write_memberships(deployment: &Deployment, rows: &[&Membership]) {
    let (store, topic) = (deployment.store(), deployment.events());
    for shard in store.layout().shards() {
        let own = |row: &&&Membership| deployment.shard_of_user(row.uid) == shard;
        let rows = UserRows {
            memberships: rows.iter().filter(own).copied().collect(),
            ..UserRows::default()
        };
        store
            .write_user_rows(shard, &topic, rows, &[])
            .await
            .unwrap();
    }
}

fn next_id() -> i64 {
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}
