//! Months of messages that are dropped stay dropped, and nobody misses them; months that cannot have been are missed by everybody.

use anyhow::{Result, ensure};
use system_tests::{Load, Servers, Settings, TestEnv, run};

use crate::sql::Sql;

#[test]
fn what_may_be_dropped_is_and_what_may_not_be_is_missed() {
    run(Servers::Own(Settings::default()), async |env| {
        let mut sql = Sql::connect(env).await?;
        let mut load = Load::start(env, 4);
        load.grows_by(300).await?;
        let finished = load.finish().await?;
        finished.judge(env).await?;

        let present = sql.month(0, "%Y-%m").await?;
        let list = env.tidemark(&["--json", "partitions", "list"]).await?;
        let list = list.expect(0)?.json()?;
        ensure!(list["months"][0]["month"] == present.as_str(), "{list}");
        ensure!(list["months"][0]["tables"] == 128, "{list}");
        refuses_the_present(env, &mut sql).await?;
        drops_the_month_before(env, &mut sql, &present).await?;

        // Somebody has written that the present month was dropped, too, and it is gone: nobody believes that it is not missed.
        let messages = drop_the_present(&mut sql).await?;
        ensure!(messages > 0);
        say_that_it_was(&mut sql).await?;
        let audit = env.tidemark(&["audit", "--json"]).await?;
        let report = audit.expect(1)?.json()?;
        let checks = report["checks"].as_array().into_iter().flatten();
        let of_retention: Vec<_> = checks.filter(|one| one["area"] == "retention").collect();
        ensure!(of_retention[0]["different"] == 4, "{report:#}");
        let refused = env.tidemark(&["rebuild", "messages"]).await?;
        ensure!(refused.code != Some(0), "{refused:?}");
        let named = "im_0.retention: kept_from";
        ensure!(refused.stderr.contains(named), "{refused:?}");

        for database in 0..4 {
            sql.run(&format!("DELETE FROM im_{database}.retention"))
                .await?;
        }
        env.tidemark(&["rebuild", "messages"]).await?.expect(0)?;
        ensure!(sql.messages().await? == messages);
        nothing_differs(env).await?;
        Ok(())
    });
}

/// The month that is being written is kept at least, and a dry run says so, too.
async fn refuses_the_present(env: &TestEnv, sql: &mut Sql) -> Result<()> {
    let next = sql.month(1, "%Y-%m").await?;
    for more in [&[][..], &["--yes"]] {
        let drop = ["partitions", "drop", "--before", &next];
        let refused = env.tidemark(&[&drop[..], more].concat()).await?;
        let refused = refused.expect(1)?;
        ensure!(refused.stderr.contains("has not begun"), "{refused:?}");
    }
    let wrong = env
        .tidemark(&["partitions", "drop", "--before", "soon"])
        .await?;
    ensure!(wrong.code == Some(2), "{wrong:?}");
    ensure!(sql.messages().await? > 0);
    Ok(())
}

/// Without --yes it says what would go; where there is nothing to drop, nothing is recorded.
async fn drops_the_month_before(env: &TestEnv, sql: &mut Sql, present: &str) -> Result<()> {
    let drop = ["partitions", "drop", "--before", present];
    let none = env.tidemark(&[&drop[..], &["--yes"]].concat()).await?;
    let none = none.expect(0)?;
    ensure!(none.stdout.contains("there is no month"), "{none:?}");
    let list = env.tidemark(&["partitions", "list"]).await?.expect(0)?;
    ensure!(!list.stdout.contains("kept from"), "{list:?}");

    let [before, this] = [sql.month(-1, "p%Y%m").await?, sql.month(0, "p%Y%m").await?];
    let [until_this, until_next] = [
        sql.month(0, "%Y-%m-01").await?,
        sql.month(1, "%Y-%m-01").await?,
    ];
    sql.run(&format!(
        "ALTER TABLE im_0.chat_msg_0 REORGANIZE PARTITION {this} INTO \
         (PARTITION {before} VALUES LESS THAN ('{until_this}'), PARTITION {this} VALUES LESS THAN ('{until_next}'))"
    ))
    .await?;
    let messages = sql.messages().await?;
    let would = env.tidemark(&drop).await?.expect(0)?;
    ensure!(would.stdout.contains("would be dropped"), "{would:?}");
    let dropped = env.tidemark(&[&drop[..], &["--yes"]].concat()).await?;
    let dropped = dropped.expect(0)?;
    ensure!(dropped.stdout.contains(": dropped"), "{dropped:?}");
    let left = env.tidemark(&drop).await?.expect(0)?;
    ensure!(left.stdout.contains("there is no month"), "{left:?}");
    ensure!(sql.messages().await? == messages);
    Ok(())
}

/// Writes that every month up to the present one was dropped.
async fn say_that_it_was(sql: &mut Sql) -> Result<()> {
    let month = sql.month(1, "%Y-%m-01").await?;
    for database in 0..4 {
        sql.run(&format!(
            "REPLACE INTO im_{database}.retention (what, kept_from) VALUES ('chat_msg', '{month}')"
        ))
        .await?;
    }
    Ok(())
}

/// Drops the present month of messages between users; how many messages that were.
async fn drop_the_present(sql: &mut Sql) -> Result<i64> {
    let messages = sql.messages().await?;
    let name = sql.month(0, "p%Y%m").await?;
    for n in 0..64 {
        let table = format!("im_{}.chat_msg_{n}", n / 16);
        sql.run(&format!("ALTER TABLE {table} DROP PARTITION {name}"))
            .await?;
    }
    Ok(messages)
}

async fn nothing_differs(env: &TestEnv) -> Result<()> {
    let report = env
        .tidemark(&["audit", "--json"])
        .await?
        .expect(0)?
        .json()?;
    ensure!(report["differences"] == 0, "{report:#}");
    Ok(())
}
