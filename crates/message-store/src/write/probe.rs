use crate::{MessageStore, Shard, StoreError, session::WRITE_BEGIN};

/// Commits the writing and the removal of an offset row that is nobody's.
pub(crate) async fn probe(store: &MessageStore, shard: Shard) -> Result<(), StoreError> {
    let table = store.names().resume_offset(shard);
    let mut session = store.session(shard).await?;
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
