use sqlx::Row as _;

use crate::{MessageStore, Shard, StoreError, session::WRITE_BEGIN};

impl MessageStore {
    /// Whether the server of a database takes no writes, or only those of administrators.
    ///
    /// # Errors
    /// As all reads.
    pub async fn is_read_only(&self, shard: Shard) -> Result<bool, StoreError> {
        let mut session = self.session(shard).await?;
        let sql = include_str!("../../sql/read/read_only.sql");
        let rows = session.fetch_text(sql.to_owned()).await?;
        let [row] = &rows[..] else { return Ok(false) };
        // On newer servers `read_only` has more than two values.
        let value: String = row.try_get(0)?;
        Ok(!matches!(value.as_str(), "0" | "OFF"))
    }

    /// Writes a row to a database and deletes it: a server that is read-only or full answers reads, but fails this.
    ///
    /// # Errors
    /// As writes; never [`StoreError::Moved`].
    pub async fn probe_write(&self, shard: Shard) -> Result<(), StoreError> {
        let table = self.names().resume_offset(shard);
        let mut session = self.session(shard).await?;
        // If a step before the end fails, the connection is closed, and the server rolls back.
        session.close_unless_released();
        for template in [
            WRITE_BEGIN,
            include_str!("../../sql/write/probe_insert.sql"),
            include_str!("../../sql/write/probe_delete.sql"),
            "COMMIT",
        ] {
            session.execute(template.replace("{table}", &table)).await?;
        }
        session.release();
        Ok(())
    }
}
