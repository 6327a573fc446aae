use crate::{MessageStore, Shard, StoreError, session::WRITE_BEGIN};

impl MessageStore {
    /// Writes a row to a database and deletes it: a server that is read-only or full answers reads, but fails this.
    ///
    /// # Errors
    /// As writes; never [`StoreError::Moved`].
    pub async fn probe_write(&self, shard: Shard) -> Result<(), StoreError> {
        let table = self.names().resume_offset(shard);
        let mut session = self.session(shard).await?;
        // Until the end an error closes the connection, and the server rolls back.
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
