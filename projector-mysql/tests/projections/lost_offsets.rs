//! Offset rows that are gone or set back, while the rows they spoke for are still there.

use sqlx::AssertSqlSafe;

use crate::test_env::TestEnv;

/// Does something to the offset rows of both databases; some have to be there.
async fn tamper(env: &TestEnv, deed: impl Fn(&str) -> String) {
    let mut admin = env.admin().await;
    for number in 0..2 {
        let table = format!("{}{number}.resume_offset", env.config.mysql.database_prefix);
        let sql = AssertSqlSafe(deed(&table));
        let done = sqlx::raw_sql(sql).execute(&mut admin).await.unwrap();
        assert!(done.rows_affected() > 0, "{table}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_whose_offsets_were_deleted_are_written_again() {
    let mut env = TestEnv::new().await;
    let service = env.start().await;
    env.log.chatter(70, 200).await;
    env.assert_exact().await;
    let delete = |table: &str| format!("DELETE FROM {table}");
    tamper(&env, delete).await;
    env.log.chatter(71, 100).await;
    env.assert_exact().await;

    // Without another event, and for one that starts only then.
    tamper(&env, delete).await;
    env.assert_exact().await;
    service.stop().await;
    tamper(&env, delete).await;
    let service = env.start().await;
    env.assert_exact().await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_whose_offsets_were_set_back_are_written_again() {
    let mut env = TestEnv::new().await;
    let service = env.start().await;
    env.log.chatter(72, 100).await;
    env.assert_exact().await;
    let keep = |table: &str| format!("CREATE TABLE {table}_before SELECT * FROM {table}");
    tamper(&env, keep).await;
    env.log.chatter(72, 100).await;
    env.assert_exact().await;
    let set_back = |table: &str| format!("REPLACE INTO {table} SELECT * FROM {table}_before");
    tamper(&env, set_back).await;
    env.log.chatter(73, 100).await;
    env.assert_exact().await;
    service.stop().await;
}
