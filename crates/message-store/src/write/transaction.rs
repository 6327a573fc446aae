use sqlx::MySqlPool;

use crate::{
    MessageStore, ResumeMove, Shard, Sink, StoreError,
    multi_row::MultiRow,
    resume::Moves,
    session::{Session, WRITE_BEGIN},
};

/// Rows, and the offsets that say that they are there.
pub(super) struct Transaction {
    sink: Sink,
    shard: Shard,
    moves: Option<Moves>,
    statements: Vec<MultiRow>,
    rows: RowCheck,
}

/// What the server's count of a statement's rows has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowCheck {
    /// As many as the statement carries.
    All,
    /// Upserts: a row counts 1 or 2, whatever became of it.
    Upserted,
}

impl Transaction {
    pub(super) fn new(
        store: &MessageStore,
        shard: Shard,
        (sink, topic): (Sink, &str),
        moves: &[ResumeMove],
        statements: Vec<MultiRow>,
        rows: RowCheck,
    ) -> Result<Self, StoreError> {
        let table = store.names().resume_offset(shard);
        Ok(Self {
            sink,
            shard,
            moves: Moves::new(&table, sink, topic, moves)?,
            statements,
            rows,
        })
    }

    /// Commits all or nothing. Goes on to its end although the caller may have been dropped: where a COMMIT is cut off, nobody
    /// knows what became of it.
    ///
    /// # Errors
    /// After a transient one it is not known whether the transaction was committed.
    pub(super) async fn commit(self, store: &MessageStore) -> Result<(), StoreError> {
        if self.moves.is_none() && self.statements.is_empty() {
            return Ok(());
        }
        let pool: MySqlPool = store.pool(self.shard).clone();
        let deadline = store.statement_timeout();
        let task = tokio::spawn(async move {
            let mut session = Session::acquire(&pool, deadline).await?;
            // Until the end an error closes the connection, and the server rolls back.
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
        if let Some(moves) = self.moves {
            if let Some(sql) = moves.insert_missing {
                session.execute(sql).await?;
            }
            if session.execute(moves.update).await? != moves.count {
                session.execute("ROLLBACK".to_owned()).await?;
                return Err(StoreError::Moved {
                    sink: self.sink,
                    shard: self.shard,
                });
            }
        }
        for statement in self.statements {
            let rows = statement.rows;
            let affected = session.insert(statement).await?;
            if self.rows == RowCheck::All && affected != rows {
                return Err(StoreError::fatal(format!(
                    "an INSERT of {rows} rows affected {affected}"
                )));
            }
        }
        session.execute("COMMIT".to_owned()).await?;
        Ok(())
    }
}
