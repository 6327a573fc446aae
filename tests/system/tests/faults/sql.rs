//! MariaDB, for tests that break what is in it.

use std::ops::Range;

use anyhow::{Context as _, Result, ensure};
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection, Row as _, mysql::MySqlRow};
use system_tests::TestEnv;

/// MariaDB, as somebody who breaks it sees it.
pub struct Sql(MySqlConnection);

impl Sql {
    pub async fn connect(env: &TestEnv) -> Result<Self> {
        Ok(Self(MySqlConnection::connect(&env.mysql_url()).await?))
    }

    pub async fn run(&mut self, sql: &str) -> Result<()> {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
            .execute(&mut self.0)
            .await
            .with_context(|| sql.to_owned())?;
        Ok(())
    }

    pub async fn number(&mut self, sql: &str) -> Result<i64> {
        Ok(self.row(sql).await?.try_get(0)?)
    }

    /// The month that many after the present one, as `DATE_FORMAT` writes it.
    pub async fn month(&mut self, after: i8, format: &str) -> Result<String> {
        let sql =
            format!("SELECT DATE_FORMAT(UTC_TIMESTAMP() + INTERVAL {after} MONTH, '{format}')");
        Ok(self.row(&sql).await?.try_get(0)?)
    }

    async fn row(&mut self, sql: &str) -> Result<MySqlRow> {
        sqlx::query(AssertSqlSafe(sql.to_owned()))
            .fetch_one(&mut self.0)
            .await
            .with_context(|| sql.to_owned())
    }

    /// How many messages there are in all tables.
    pub async fn messages(&mut self) -> Result<i64> {
        let mut messages = 0;
        for n in 0..64 {
            let sql = format!("SELECT COUNT(*) FROM im_{}.chat_msg_{n}", n / 16);
            messages += self.number(&sql).await?;
        }
        Ok(messages)
    }

    /// The number of a table of this kind that has rows, the one with the most.
    pub async fn fullest(&mut self, kind: &str) -> Result<u8> {
        let mut most = (0, 0);
        for n in 0..64_u8 {
            let database = n / 16;
            let rows = self
                .number(&format!("SELECT COUNT(*) FROM im_{database}.{kind}_{n}"))
                .await?;
            most = most.max((rows, n));
        }
        ensure!(most.0 > 0, "no rows in any {kind}");
        Ok(most.1)
    }

    /// How many tables are neither live nor of the schema's own.
    pub async fn leftovers(&mut self) -> Result<i64> {
        let sql = "SELECT COUNT(*) FROM information_schema.TABLES \
                   WHERE TABLE_SCHEMA LIKE 'im\\_%' AND TABLE_NAME REGEXP '_(new|old)$'";
        self.number(sql).await
    }

    /// Leaves what a killed rebuild of all `kind` tables of the first database leaves.
    pub async fn leave_begun(&mut self, sink: &str, kind: &str, tables: Range<u8>) -> Result<()> {
        for n in tables {
            let live = format!("im_0.{kind}_{n}");
            self.run(&format!("CREATE TABLE {live}_new LIKE {live}"))
                .await?;
        }
        self.run(&format!(
            "INSERT INTO im_0.resume_offset (sink, topic, partition_no, next_offset, src_epoch, src_offset) \
             VALUES ('{sink}.all', 'chat.events', 0, 0, 0, 0)"
        ))
        .await
    }

    pub async fn nothing_left(&mut self) -> Result<()> {
        let offsets = "SELECT COUNT(*) FROM im_0.resume_offset WHERE sink LIKE '%.%'";
        ensure!(self.leftovers().await? == 0 && self.number(offsets).await? == 0);
        Ok(())
    }
}
