use std::ops::Range;

use schemas::ConversationId;
use sqlx::MySqlPool;

use crate::{
    MessageStore, OffsetUpdate, Shard, Sink, StoreError,
    conversation::{EMPTIED, Kind, lo_and_hi},
    multi_row::MultiRow,
    resume::OffsetStatements,
    session::{Session, WRITE_BEGIN},
};

/// Rows, and the offsets that cover them.
pub(crate) struct Transaction {
    sink: Sink,
    shard: Shard,
    updates: Option<OffsetStatements>,
    statements: Vec<MultiRow>,
    removals: Vec<Removal>,
}

/// Rows that give way to those of the transaction.
pub(super) struct Removal {
    pub(super) table: String,
    /// The ids that the offset moves past; no other row is deleted.
    pub(super) span: Range<i64>,
    pub(super) keys: RemovedKeys,
}

pub(super) enum RemovedKeys {
    /// Of `chat_msg_<n>` or `group_msg_<n>`: the ids, and the table of the changes.
    Messages {
        kind: Kind,
        ids: Vec<i64>,
        changes: String,
    },
    /// Of `msg_change_<n>`: its column `chg`.
    Changes(Vec<(ConversationId, i64)>),
}

/// How many keys a statement names.
const KEYS_AT_ONCE: usize = 1000;

impl Removal {
    fn statements(&self) -> Vec<String> {
        let statement = |condition: String| {
            include_str!("../../sql/write/delete_replaced.sql")
                .replace("{table}", &self.table)
                .replace("{from}", &self.span.start.to_string())
                .replace("{to}", &self.span.end.to_string())
                .replace("{condition}", &condition)
        };
        match &self.keys {
            RemovedKeys::Messages { ids, .. } => {
                let ids = ids.chunks(KEYS_AT_ONCE);
                let ids = ids.map(|ids| format!("id IN ({})", list(ids)));
                ids.map(statement).collect()
            }
            RemovedKeys::Changes(keys) => {
                let keys = keys.chunks(KEYS_AT_ONCE).map(|keys| {
                    any_of(keys, |(conversation, change_seq)| {
                        let (lo, hi) = lo_and_hi(*conversation);
                        format!("lo = {lo} AND hi = {hi} AND chg = {change_seq}")
                    })
                });
                keys.map(statement).collect()
            }
        }
    }

    /// Statements that remove the texts of those messages again that changes still in the table have recalled or deleted: the log is being read again from
    /// before these changes.
    fn recalls(&self) -> Vec<String> {
        let RemovedKeys::Messages { kind, ids, changes } = &self.keys else {
            return Vec::new();
        };
        let recall = |ids: &[i64]| {
            kind.fill(include_str!("../../sql/write/recall_again.sql"))
                .replace("{emptied}", EMPTIED)
                .replace("{messages}", &self.table)
                .replace("{changes}", changes)
                .replace("{ids}", &list(ids))
        };
        ids.chunks(KEYS_AT_ONCE).map(recall).collect()
    }
}

fn list(ids: &[i64]) -> String {
    let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
    ids.join(", ")
}

/// Alternatives, as ranges that the index can use (it cannot use a list of tuples).
pub(super) fn any_of<T>(keys: &[T], condition: impl Fn(&T) -> String) -> String {
    let conditions: Vec<String> = keys.iter().map(condition).collect();
    format!("(({}))", conditions.join(") OR ("))
}

impl Transaction {
    pub(crate) fn new(
        store: &MessageStore,
        shard: Shard,
        (sink, topic): (Sink, &str),
        updates: &[OffsetUpdate],
        statements: Vec<MultiRow>,
    ) -> Result<Self, StoreError> {
        let table = store.names().resume_offset(shard);
        Ok(Self {
            sink,
            shard,
            updates: OffsetStatements::new(&table, &store.names().sink_name(sink), topic, updates)?,
            statements,
            removals: Vec::new(),
        })
    }

    /// If a row exists already, these rows are removed first, and then all rows are written.
    pub(super) fn replacing(mut self, removals: Vec<Removal>) -> Self {
        self.removals = removals;
        self
    }

    /// Commits all or nothing. Runs to its end even if the caller is dropped: if a COMMIT is cut off, its outcome is unknown.
    ///
    /// # Errors
    /// After a transient error it is not known whether the transaction was committed.
    pub(crate) async fn commit(self, store: &MessageStore) -> Result<(), StoreError> {
        if self.updates.is_none() && self.statements.is_empty() {
            return Ok(());
        }
        let pool: MySqlPool = store.pool(self.shard).clone();
        let deadline = store.statement_timeout();
        let task = tokio::spawn(async move {
            let mut session = Session::acquire(&pool, deadline).await?;
            // If a step before the end fails, the connection is closed, and the server rolls back.
            session.close_unless_released();
            self.run(&mut session).await?;
            session.release();
            Ok(())
        });
        task.await.map_err(StoreError::transient)?
    }

    async fn run(self, session: &mut Session) -> Result<(), StoreError> {
        session.execute(WRITE_BEGIN.to_owned()).await?;
        // The offsets come first: a second writer waits there and is turned away before it touches a row.
        if let Some(updates) = &self.updates
            && !update_offsets(session, updates).await?
        {
            session.execute("ROLLBACK".to_owned()).await?;
            return Err(StoreError::Moved {
                sink: self.sink,
                shard: self.shard,
            });
        }
        match self.write_rows(session).await {
            Err(error) if error.is_duplicate() && !self.removals.is_empty() => {
                tracing::warn!(%error, "rows that no offset accounts for are replaced");
                self.remove(session).await?;
                self.write_rows(session).await?;
                self.recall_again(session).await?;
            }
            outcome => outcome?,
        }
        session.execute("COMMIT".to_owned()).await?;
        Ok(())
    }

    async fn write_rows(&self, session: &mut Session) -> Result<(), StoreError> {
        for statement in &self.statements {
            let MultiRow { table, rows, .. } = statement;
            let inserted = session.insert(statement).await;
            let affected = inserted.map_err(|error| error.of(table))?;
            if let Some(rows) = rows
                && affected != *rows
            {
                return Err(StoreError::fatal(format!(
                    "{table}: an INSERT of {rows} rows affected {affected}"
                )));
            }
        }
        Ok(())
    }

    /// Also removes what this transaction has inserted so far: the server has undone only the statement that it refused.
    async fn remove(&self, session: &mut Session) -> Result<(), StoreError> {
        for removal in &self.removals {
            for sql in removal.statements() {
                let removed = session.execute(sql).await;
                removed.map_err(|error| error.of(&removal.table))?;
            }
        }
        Ok(())
    }

    async fn recall_again(&self, session: &mut Session) -> Result<(), StoreError> {
        for removal in &self.removals {
            for sql in removal.recalls() {
                let recalled = session.execute(sql).await;
                recalled.map_err(|error| error.of(&removal.table))?;
            }
        }
        Ok(())
    }
}

/// Whether all offsets were as the updates expect; then they are locked until the transaction ends.
async fn update_offsets(
    session: &mut Session,
    updates: &OffsetStatements,
) -> Result<bool, StoreError> {
    let of_table = |error: StoreError| error.of(&updates.table);
    if let Some(sql) = &updates.insert_missing {
        session.execute(sql.clone()).await.map_err(of_table)?;
    }
    let matched = session.execute(updates.update.clone()).await;
    Ok(matched.map_err(of_table)? == updates.count)
}
