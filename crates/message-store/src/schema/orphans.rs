//! Orphaned partition files. MariaDB creates a partitioned table file by file; if it is killed meanwhile, it may leave files that prevent a table of
//! that name from being created, and that belong to no table that could be dropped.

use super::{MONTHS_AHEAD, Month};
use crate::{StoreError, session::Session};

/// Executes a `CREATE TABLE IF NOT EXISTS` of `table` with the months from `first` on. If the server answers that the table exists
/// nevertheless, orphaned files are deleted, and the table is created.
///
/// # Errors
/// As all statements.
pub(super) async fn create_table(
    session: &mut Session,
    sql: String,
    table: &str,
    first: Month,
) -> Result<(), StoreError> {
    match session.execute(sql.clone()).await {
        Err(error) if error.table_exists() => {
            tracing::warn!(
                table,
                "orphaned files of a table that was never complete are deleted"
            );
            remove(session, table, first).await?;
            session.execute(sql).await.map(drop)
        }
        made => made.map(drop),
    }
}

/// MariaDB drops a file that belongs to no known table by the name `#mysql50#<file>`.
async fn remove(session: &mut Session, table: &str, first: Month) -> Result<(), StoreError> {
    let (database, name) = table.split_once('.').unwrap_or_default();
    for month in first.and_ahead(MONTHS_AHEAD) {
        let file = format!("{database}.`#mysql50#{name}#P#{}`", month.name());
        session
            .execute(format!("DROP TABLE IF EXISTS {file}"))
            .await?;
    }
    Ok(())
}
