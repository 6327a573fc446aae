//! Rows of users who left a group are deleted after a time. The offset up to which they are is noted beside the position of the sink that writes them
//! (PROTOCOL Y8).

use std::collections::BTreeMap;

use schemas::{GroupId, Partition, PartitionMap, TableNumber, UserId};
use sqlx::Row as _;

use crate::{
    MessageStore, Shard, Sink, StoreError, names::Table, read::decode, resume::check_topic,
    session::Session,
};

/// How many rows are deleted at a time: writers wait for the locks of one such statement at most.
const ROWS_AT_ONCE: usize = 1_000;

/// A table with rows of users who left a group.
struct LeftRows {
    table: String,
    select: &'static str,
    /// The condition under which a row may be deleted. The deletion checks it again: the user may have joined again since the row was found.
    may_go: String,
}

impl LeftRows {
    /// Memberships with clears or hides are kept: a group may show members its whole history.
    fn memberships(store: &MessageStore, n: TableNumber, below: &PartitionMap<i64>) -> Self {
        let of_all = Partition::all().map(|one| below.get(one).copied().unwrap_or_default());
        let of_all: Vec<String> = of_all.map(|below| below.to_string()).collect();
        let below = of_all.join(", ");
        Self {
            table: store.names().table(Table::Membership, n),
            select: include_str!("../../sql/read/left_memberships.sql"),
            may_go: format!(
                "left_pos > join_pos AND clear_mid = 0 AND own_pos = 0 AND left_pos < CAST(ELT(gid % 64 + 1, {below}) AS SIGNED)"
            ),
        }
    }

    fn group_members(store: &MessageStore, partition: Partition, below: i64) -> Self {
        Self {
            table: store.names().table(Table::GroupMember, partition.into()),
            select: include_str!("../../sql/read/left_group_members.sql"),
            may_go: format!("role = 0 AND pos < {below}"),
        }
    }
}

impl MessageStore {
    /// Deletes the rows of users who left a group by an event below these offsets, and have not come back: `membership_<n>` and `group_member_<n>`.
    /// Rows are left alone if a sink of any database has yet to apply their event. Returns how many were deleted.
    ///
    /// # Errors
    /// As all writes.
    pub async fn forget_left(
        &self,
        topic: &str,
        below: &PartitionMap<i64>,
    ) -> Result<u64, StoreError> {
        check_topic(topic)?;
        let below = self.applied_of(topic, below).await?;
        let mut deleted = 0;
        for shard in self.layout().shards() {
            let mut session = self.session(shard).await?;
            for n in self.layout().tables_of(shard) {
                let rows = LeftRows::memberships(self, n, &below);
                let of = (shard, Sink::Contacts, topic);
                deleted += self.forget(of, &mut session, &rows).await?;
            }
            for partition in self.layout().source_partitions(Sink::Messages, shard) {
                let below = below.get(partition).copied().unwrap_or_default();
                let rows = LeftRows::group_members(self, partition, below);
                let of = (shard, Sink::Messages, topic);
                deleted += self.forget(of, &mut session, &rows).await?;
            }
        }
        Ok(deleted)
    }

    /// These offsets or, if that is lower, the position of the sink that is furthest behind.
    async fn applied_of(
        &self,
        topic: &str,
        below: &PartitionMap<i64>,
    ) -> Result<PartitionMap<i64>, StoreError> {
        let mut lowest = below.clone();
        for shard in self.layout().shards() {
            for sink in [Sink::Contacts, Sink::Messages] {
                let partitions: Vec<_> = self.layout().source_partitions(sink, shard).collect();
                let applied = self.read_resume_offsets(shard, sink, topic, &partitions);
                for (partition, position) in applied.await? {
                    let next = position.next.get();
                    let lowest = lowest.get_or_insert_with(partition, || 0);
                    *lowest = next.min(*lowest);
                }
            }
        }
        Ok(lowest)
    }

    async fn forget(
        &self,
        (shard, sink, topic): (Shard, Sink, &str),
        session: &mut Session,
        rows: &LeftRows,
    ) -> Result<u64, StoreError> {
        let LeftRows { table, may_go, .. } = rows;
        let (mut from, mut deleted) = (0_i64, 0);
        loop {
            let sql = rows
                .select
                .replace("{table}", table)
                .replace("{from}", &from.to_string())
                .replace("{may_go}", may_go)
                .replace("{limit}", &ROWS_AT_ONCE.to_string());
            let found = session.fetch_text(sql).await?;
            let (mut keys, mut below) = (Vec::new(), BTreeMap::new());
            for row in &found {
                let (uid, gid): (UserId, GroupId) =
                    (decode::number(row, "uid")?, decode::number(row, "gid")?);
                from = row.try_get("left_pos")?;
                keys.push(format!("({}, {})", uid.get(), gid.get()));
                // The rows come in the order of left_pos.
                below.insert(gid.partition(), from + 1);
            }
            if keys.is_empty() {
                return Ok(deleted);
            }
            // `forgotten_below` is raised before rows are deleted: a reader to which it shows no loss has to find every row.
            let sink = self.names().sink_name(sink);
            let raise = raise(&self.names().resume_offset(shard), (&sink, topic), &below);
            session.execute(raise).await?;
            let sql = include_str!("../../sql/write/delete_left.sql")
                .replace("{table}", table)
                .replace("{rows}", &keys.join(", "))
                .replace("{may_go}", may_go);
            let gone = session.execute(sql).await;
            deleted += gone.map_err(|error| error.of(table))?;
            if found.len() < ROWS_AT_ONCE {
                return Ok(deleted);
            }
        }
    }
}

fn raise(table: &str, (sink, topic): (&str, &str), below: &BTreeMap<Partition, i64>) -> String {
    let cases = below
        .iter()
        .map(|(one, below)| format!("WHEN {one} THEN {below}"));
    let partitions: Vec<String> = below.keys().map(Partition::to_string).collect();
    include_str!("../../sql/write/raise_forgotten_below.sql")
        .replace("{table}", table)
        .replace("{below}", &cases.collect::<Vec<_>>().join(" "))
        .replace("{sink}", sink)
        .replace("{topic}", topic)
        .replace("{partitions}", &partitions.join(", "))
}
