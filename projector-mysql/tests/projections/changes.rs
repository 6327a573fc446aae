//! Changes to messages and contacts.

use message_store::FlagsAt;
use schemas::{Change, ContactFlags, Mid};
use sqlx::{AssertSqlSafe, Row as _};

use crate::{log::user, test_env::TestEnv};

/// The columns of all tables that hold `text`.
async fn columns_with(env: &TestEnv, text: &str) -> Vec<String> {
    let mut admin = env.admin().await;
    let columns = sqlx::query(
        "SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME) AS name, COLUMN_NAME AS col FROM information_schema.COLUMNS \
         WHERE LEFT(TABLE_SCHEMA, CHAR_LENGTH(?)) = ? AND DATA_TYPE IN ('varchar', 'text')",
    );
    let prefix = &env.config.mysql.database_prefix;
    let columns = columns.bind(prefix).bind(prefix);
    let columns = columns.fetch_all(&mut admin).await.unwrap();
    assert!(columns.len() > 128);
    let mut found = Vec::new();
    for row in columns {
        let (table, column): (String, String) = (row.get("name"), row.get("col"));
        let sql = format!("SELECT COUNT(*) AS n FROM {table} WHERE {column} LIKE '%{text}%'");
        let count = sqlx::query(AssertSqlSafe(sql));
        let count = count.fetch_one(&mut admin).await.unwrap();
        if count.get::<i64, _>("n") > 0 {
            found.push(format!("{table}.{column}"));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recalled_text_is_in_no_table_any_more() {
    let mut env = TestEnv::new().await;
    let service = env.start().await;
    let mut earlier = Vec::new();
    for i in 0..300 {
        earlier.push(env.log.send(1, 2, &format!("confidential {i}")).await);
    }
    let edited = env.log.send(2, 1, "harmless").await;
    let edit = Change::Edit("confidential, too".to_owned());
    env.log.change(2, 1, edited, edit, None).await;
    env.assert_exact().await;
    assert!(!columns_with(&env, "confidential").await.is_empty());

    for mid in earlier {
        env.log.change(1, 2, mid, Change::Recall, None).await;
    }
    env.log.change(2, 1, edited, Change::Delete, None).await;
    env.assert_exact().await;
    assert!(columns_with(&env, "confidential").await.is_empty());
    service.stop().await;

    // Message, edit and recall in one batch.
    let mid = env.log.send(2, 1, "confidential").await;
    let edit = Change::Edit("confidential, too".to_owned());
    env.log.change(2, 1, mid, edit, None).await;
    env.log.change(2, 1, mid, Change::Recall, None).await;
    let service = env.start().await;
    env.assert_exact().await;
    assert!(columns_with(&env, "confidential").await.is_empty());
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_the_same_in_one_batch_and_one_by_one() {
    for one_by_one in [true, false] {
        let mut env = TestEnv::new().await;
        let mut service = None;
        if one_by_one {
            service = Some(env.start().await);
        }
        let flags = |pinned, muted| ContactFlags {
            pinned,
            muted,
            ..ContactFlags::default()
        };
        for step in 0..9 {
            let mid = |mid: i64| Mid::try_from(mid).unwrap();
            let edit = |text: &str| Change::Edit(text.to_owned());
            let log = &mut env.log;
            match step {
                0 => log.contact(5, 6, flags(true, true), true).await,
                1 => drop(log.send(5, 6, "first").await),
                2 => log.change(5, 6, mid(1), edit("second"), None).await,
                3 => log.contact(5, 6, flags(false, true), true).await,
                4 => log.change(5, 6, mid(1), edit("third"), None).await,
                5 => log.change(6, 5, mid(1), Change::Hide, None).await,
                6 => log.change(6, 5, mid(1), Change::Clear, None).await,
                7 => log.change(5, 6, mid(1), Change::Recall, None).await,
                _ => drop(log.send(6, 5, "an answer").await),
            }
            if one_by_one {
                env.assert_exact().await;
            }
        }
        let service = match service {
            Some(service) => service,
            None => env.start().await,
        };
        env.assert_exact().await;
        let contact = env.rows().await.contacts[&(user(5), user(6))].clone();
        let set = FlagsAt {
            event_offset: contact.event_offset,
            flags: flags(false, true),
        };
        assert_eq!(contact.flags, Some(set));
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_to_a_message_of_a_dropped_month_changes_nothing_else() {
    let mut env = TestEnv::new().await;
    let service = env.start().await;
    let old = env.log.send(1, 2, "old").await;
    env.log.move_clock(40);
    let new = env.log.send(2, 1, "new").await;
    env.assert_exact().await;
    let now = env.log.events.last().unwrap().event.ts;
    env.store.keep_months(0, now).await.unwrap();
    env.log.change(1, 2, old, Change::Recall, None).await;
    env.log.change(2, 1, new, Change::Recall, None).await;
    env.caught_up().await;
    let rows = env.rows().await;
    let left: Vec<_> = rows.messages.values().collect();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].msg, "");
    assert_eq!(rows.changes.len(), 2);
    service.stop().await;
}
