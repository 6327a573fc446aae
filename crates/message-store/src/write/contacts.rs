use schemas::{
    ChangeSeq, ContactFlags, ConversationId, DirectConversation, Mid, Ordinal, StoredProfile,
    TableNumber, TimestampMs, UserId,
};

use super::{by_table, groups, profiles, transaction::Transaction};
use crate::{
    ContactDelta, FlagsAt, Membership, MessageStore, OffsetUpdate, ReadUpTo, Shard, Sink,
    StoreError,
    arguments::Arguments,
    conversation::{Kind, peer_number},
    datetime,
    multi_row::{Insert, MultiRow, Preparation},
    names::Table,
    unresolved_read,
};

const COLUMNS: &str = "uid, kind, peer, last_mid, last_ts, last_srcid, preview, peer_n, own_n, \
    pc_read_mid, pc_read_n, mobile_read_mid, mobile_read_n, pos";

/// The columns of a row whose newest message was changed.
const COLUMNS_OF_CHANGED: &str = "uid, kind, peer, last_mid, last_ts, last_srcid, preview, peer_n, own_n, \
    pc_read_mid, pc_read_n, mobile_read_mid, mobile_read_n, pos, last_chg, last_state";

const COLUMNS_OF_CHANGES: &str =
    "uid, kind, peer, pos, favourite, pinned, muted, blocked, chg, own_pos, deleted_mid, clear_mid";

/// Rows of users, of one database.
#[derive(Clone, Debug, Default)]
pub struct UserRows<'a> {
    /// Of `contact_<n>` and `hidden_<n>`.
    pub contacts: Vec<&'a ContactDelta>,
    /// Of `membership_<n>` and `hidden_<n>`.
    pub memberships: Vec<&'a Membership>,
    /// Of `user_<n>`; a row there changes only if `pos` rises.
    pub profiles: Vec<&'a StoredProfile>,
}

impl MessageStore {
    /// Merges contacts, memberships and profiles by maximum and updates the offsets of [`Sink::Contacts`], all or nothing. A read position without
    /// ordinal is stored as an unresolved read as well. Columns that only changes need are in statements of their own.
    ///
    /// # Errors
    /// As [`write_messages`](Self::write_messages).
    pub async fn write_user_rows(
        &self,
        shard: Shard,
        topic: &str,
        rows: UserRows<'_>,
        updates: &[OffsetUpdate],
    ) -> Result<(), StoreError> {
        let UserRows {
            contacts,
            memberships,
            profiles,
        } = rows;
        let table_of = |row: &Membership| TableNumber::of_user(row.uid);
        let sort_key = |row: &Membership| (row.uid.get(), row.gid.get());
        let memberships = by_table(self, shard, memberships, table_of, sort_key)?;
        let table_of = |row: &ContactDelta| TableNumber::of_user(row.uid);
        let sort_key = |row: &ContactDelta| (row.uid.get(), row.peer.get());
        let contacts = by_table(self, shard, contacts, table_of, sort_key)?;
        let table_of = |row: &StoredProfile| TableNumber::of_user(row.profile.uid);
        let sort_key = |row: &StoredProfile| (row.profile.uid.get(), 0);
        let profiles = by_table(self, shard, profiles, table_of, sort_key)?;
        let mut statements = Vec::new();
        for (n, rows) in &contacts {
            let table = self.names().table(Table::Contact, *n);
            statements.extend(merge_changes(&table, rows)?);
            statements.extend(merge(&table, rows)?);
            let hidden = rows.iter().flat_map(|row| {
                let conversation: ConversationId =
                    DirectConversation::new(row.uid, row.peer).into();
                row.hidden
                    .iter()
                    .map(move |mid| (row.uid, conversation, *mid))
            });
            statements.extend(hide(&self.names().table(Table::Hidden, *n), hidden)?);
        }
        for (n, rows) in &memberships {
            let table = self.names().table(Table::Membership, *n);
            statements.extend(groups::merge_memberships(&table, rows)?);
            let hidden = rows.iter().flat_map(|row| {
                let conversation = ConversationId::Group(row.gid);
                row.hidden
                    .iter()
                    .map(move |mid| (row.uid, conversation, *mid))
            });
            statements.extend(hide(&self.names().table(Table::Hidden, *n), hidden)?);
        }
        for (n, rows) in &profiles {
            let table = self.names().table(Table::User, *n);
            statements.extend(profiles::merge(&table, rows)?);
        }
        statements.extend(unresolved_read::statements(
            self.names(),
            shard,
            contacts.values().flatten(),
            updates,
        )?);
        let target = (Sink::Contacts, topic);
        Transaction::new(self, shard, target, updates, statements)?
            .commit(self)
            .await
    }
}

/// To be executed before [`merge`], which raises `pos`: flags are compared with it.
fn merge_changes(table: &str, rows: &[&ContactDelta]) -> Result<Vec<MultiRow>, StoreError> {
    let is_changed = |row: &&&ContactDelta| {
        let is_counted = row.change_seq > ChangeSeq::ZERO || row.own_pos > 0;
        row.flags.is_some() || is_counted || row.deleted_mid.max(row.clear_mid) > Mid::ZERO
    };
    let changed: Vec<&ContactDelta> = rows.iter().filter(is_changed).copied().collect();
    let insert = Insert {
        table,
        columns: COLUMNS_OF_CHANGES,
        tail: include_str!("../../sql/write/merge_contact_change.sql"),
        sizes: Preparation::Once,
    };
    insert.statements(&changed, |arguments, row| {
        let FlagsAt {
            event_offset,
            flags,
        } = row.flags.unwrap_or(FlagsAt {
            event_offset: -1,
            flags: ContactFlags::default(),
        });
        Ok(bind_key(arguments, row)
            .with(event_offset)
            .with(flags.favourite)
            .with(flags.pinned)
            .with(flags.muted)
            .with(flags.blocked)
            .with(row.change_seq.get())
            .with(row.own_pos)
            .with(row.deleted_mid.get())
            .with(row.clear_mid.get()))
    })
}

fn merge(table: &str, rows: &[&ContactDelta]) -> Result<Vec<MultiRow>, StoreError> {
    let last_chg = |row: &ContactDelta| {
        row.last
            .as_ref()
            .map_or(ChangeSeq::ZERO, |last| last.change_seq)
    };
    let (plain, changed): (Vec<&ContactDelta>, Vec<&ContactDelta>) = rows
        .iter()
        .partition(|row| last_chg(row) == ChangeSeq::ZERO);
    let insert = |columns| Insert {
        table,
        columns,
        tail: include_str!("../../sql/write/merge_contact.sql"),
        sizes: Preparation::Once,
    };
    let mut statements = insert(COLUMNS).statements(&plain, bind_row)?;
    let of_changed = insert(COLUMNS_OF_CHANGED).statements(&changed, |arguments, row| {
        let state = row.last.as_ref().map(|last| last.state);
        let state = state.unwrap_or_default();
        Ok(bind_row(arguments, row)?
            .with(last_chg(row).get())
            .with(state.to_column()))
    });
    statements.extend(of_changed?);
    Ok(statements)
}

fn hide(
    table: &str,
    hidden: impl Iterator<Item = (UserId, ConversationId, Mid)>,
) -> Result<Vec<MultiRow>, StoreError> {
    let hidden: Vec<_> = hidden.collect();
    let insert = Insert {
        table,
        columns: "uid, kind, peer, mid",
        tail: include_str!("../../sql/write/hide.sql"),
        sizes: Preparation::Once,
    };
    insert.statements(&hidden, |arguments, (uid, conversation, mid)| {
        Ok(arguments
            .with(uid.get())
            .with(Kind::of(*conversation).to_column())
            .with(peer_number(*conversation, *uid))
            .with(mid.get()))
    })
}

fn bind_key(arguments: Arguments, row: &ContactDelta) -> Arguments {
    arguments
        .with(row.uid.get())
        .with(Kind::Direct.to_column())
        .with(row.peer.get())
}

fn bind_row(arguments: Arguments, row: &&ContactDelta) -> Result<Arguments, StoreError> {
    let arguments = bind_key(arguments, row);
    let arguments = match &row.last {
        Some(last) => arguments
            .with(last.mid.get())
            .with(datetime::to_column(last.ts)?)
            .with(last.srcid.get())
            .with(last.preview.as_str()),
        None => arguments
            .with(0_i64)
            .with(datetime::to_column(TimestampMs(0))?)
            .with(0_i64)
            .with(""),
    };
    let arguments = arguments
        .with(row.peer_ordinal.get())
        .with(row.own_ordinal.get());
    let reads = [row.read.pc, row.read.mobile];
    let arguments = reads
        .into_iter()
        .fold(arguments, |arguments, ReadUpTo { mid, ordinal: n }| {
            arguments.with(mid.get()).with(n.map(Ordinal::get))
        });
    Ok(arguments.with(row.event_offset))
}
