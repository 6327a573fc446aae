//! Partitions without a table. MariaDB makes a partitioned table file by file; one that is killed meanwhile may keep some of the files,
//! under which no table of that name can be made any more, and which belong to nothing that could be dropped.

use super::{MONTHS_AHEAD, Month};
use crate::{StoreError, session::Session};

/// Executes a `CREATE TABLE IF NOT EXISTS` of `table` with the months from `first` on. If the server says that it exists nevertheless,
/// that is what was left of such a table: it is removed, and the table made.
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
        Err(error) if error.is_there() => {
            tracing::warn!(
                table,
                "what is left of a table that was never whole is removed"
            );
            remove(session, table, first).await?;
            session.execute(sql).await.map(drop)
        }
        made => made.map(drop),
    }
}

/// Each by the name of its file, which is how MariaDB can be told of a table that it does not know.
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
