use message_store::{MessageRow, UNREAD_LIMIT};
use schemas::{ConversationId, Mid, Ordinal, TimestampMs};
use sqlx::AssertSqlSafe;

use crate::support::{
    DAY_MS, Fixture, NOW, conversation, message, mid, mids, ordinal, table_number, user,
};

/// Twelve messages, a third of them the other way round, four days apart, the last one now.
fn talk(users: (schemas::UserId, schemas::UserId)) -> Vec<MessageRow> {
    (1..=12)
        .map(|number| {
            let back = number % 3 == 0;
            let mut row = message(if back { (users.1, users.0) } else { users }, number);
            row.ts = TimestampMs(NOW.0 - (12 - number) * 4 * DAY_MS);
            row.ordinal = Some(ordinal(if back {
                number / 3
            } else {
                number - number / 3
            }));
            row
        })
        .collect()
}

#[tokio::test]
async fn unread_is_what_the_seed_says() {
    let fixture = Fixture::shared().await;
    let users = fixture.users(13);
    let talk = talk(users);
    fixture.write(&talk).await.unwrap();
    let mut snapshot = fixture
        .store
        .snapshot(fixture.shard(table_number(13)))
        .await
        .unwrap();
    let mut unread = async |read, now| {
        mids(
            &snapshot
                .unread_messages(conversation(users), mid(read), now)
                .await
                .unwrap(),
        )
    };
    // 31 days back from NOW is October 21: exactly a month is too old, 28 days are not.
    assert_eq!(unread(0, NOW).await, [12, 11, 10, 9, 8, 7, 6, 5]);
    assert_eq!(unread(9, NOW).await, [12, 11, 10]);
    assert!(unread(12, NOW).await.is_empty());
    let at_a_month = TimestampMs(talk[4].ts.0 + 30 * DAY_MS);
    assert_eq!(unread(0, at_a_month).await.last(), Some(&5));
}

#[tokio::test]
async fn unread_ends_at_two_hundred() {
    let fixture = Fixture::shared().await;
    let (one, two) = fixture.users(14);
    let rows: Vec<MessageRow> = (1..=450)
        .map(|number| {
            message(
                if number % 2 == 0 {
                    (one, two)
                } else {
                    (two, one)
                },
                number,
            )
        })
        .collect();
    fixture.write(&rows).await.unwrap();
    let mut snapshot = fixture
        .store
        .snapshot(fixture.shard(table_number(14)))
        .await
        .unwrap();
    let found = snapshot
        .unread_messages(conversation((one, two)), mid(100), NOW)
        .await
        .unwrap();
    assert_eq!(mids(&found), (251..=450).rev().collect::<Vec<_>>());
    assert_eq!(found.len(), UNREAD_LIMIT);
}

#[tokio::test]
async fn a_note_to_oneself_is_there_once() {
    let fixture = Fixture::shared().await;
    let (uid, _) = fixture.users(15);
    let rows = [message((uid, uid), 1), message((uid, uid), 2)];
    fixture.write(&rows).await.unwrap();
    let own = conversation((uid, uid));
    let mut snapshot = fixture
        .store
        .snapshot(fixture.shard(own.partition()))
        .await
        .unwrap();
    assert_eq!(
        mids(&snapshot.unread_messages(own, Mid::ZERO, NOW).await.unwrap()),
        [2, 1]
    );
    assert_eq!(
        mids(&snapshot.page_before(own, None, Mid::ZERO, 9).await.unwrap()),
        [2, 1]
    );
    assert_eq!(
        mids(&snapshot.page_after(own, Mid::ZERO, 9).await.unwrap()),
        [1, 2]
    );
    assert_eq!(
        snapshot
            .messages_by_mid(&[(own.into(), mid(2))])
            .await
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        snapshot.ordinal_at(own, uid, mid(1)).await.unwrap(),
        Some(ordinal(1))
    );
}

#[tokio::test]
async fn history_is_paged_both_ways() {
    let fixture = Fixture::shared().await;
    let users = fixture.users(16);
    let talk = talk(users);
    fixture.write(&talk).await.unwrap();
    let conversation = conversation(users);
    let mut snapshot = fixture
        .store
        .snapshot(fixture.shard(table_number(16)))
        .await
        .unwrap();
    assert_eq!(
        mids(
            &snapshot
                .page_before(conversation, None, Mid::ZERO, 5)
                .await
                .unwrap()
        ),
        [12, 11, 10, 9, 8]
    );
    let above = snapshot.page_before(conversation, None, mid(9), 5).await;
    assert_eq!(mids(&above.unwrap()), [12, 11, 10]);
    assert_eq!(
        mids(
            &snapshot
                .page_before(conversation, Some(mid(4)), Mid::ZERO, 5)
                .await
                .unwrap()
        ),
        [3, 2, 1]
    );
    assert!(
        snapshot
            .page_before(conversation, Some(mid(1)), Mid::ZERO, 5)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        snapshot
            .page_after(conversation, Mid::ZERO, 100)
            .await
            .unwrap(),
        talk
    );
    assert_eq!(
        mids(&snapshot.page_after(conversation, mid(3), 4).await.unwrap()),
        [4, 5, 6, 7]
    );
}

#[tokio::test]
async fn single_messages_are_found_by_mid_in_any_table() {
    let fixture = Fixture::shared().await;
    let mut keys = Vec::new();
    // All in the third of four databases.
    for n in [33, 40, 47] {
        let users = fixture.users(n);
        fixture.write(&talk(users)).await.unwrap();
        keys.extend([3, 4].map(|number| (conversation(users).into(), mid(number))));
    }
    let gone: (ConversationId, Mid) = (keys[0].0, mid(99));
    let third = fixture.shard(table_number(33));
    let mut snapshot = fixture.store.snapshot(third).await.unwrap();
    let found = snapshot
        .messages_by_mid(&[keys.as_slice(), &[gone]].concat())
        .await
        .unwrap();
    assert_eq!(
        found
            .keys()
            .copied()
            .collect::<std::collections::BTreeSet<_>>(),
        keys.iter().copied().collect()
    );
    for ((conversation, mid), row) in found {
        assert_eq!((row.conversation(), row.mid), (conversation, mid));
    }
    assert!(snapshot.messages_by_mid(&[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_send_is_found_by_its_own_id() {
    let fixture = Fixture::shared().await;
    let users = fixture.users(18);
    let mut rows = [
        message(users, 1),
        message((users.1, users.0), 2),
        message(users, 3),
        message(users, 4),
    ];
    for (row, id) in rows.iter_mut().zip(["x", "x", "x ", "x"]) {
        row.client_msg_id = id.to_owned().try_into().unwrap();
    }
    fixture.write(&rows).await.unwrap();
    let mut snapshot = fixture
        .store
        .snapshot(fixture.shard(table_number(18)))
        .await
        .unwrap();
    let id = "x".to_owned().try_into().unwrap();
    let found = snapshot
        .find_by_client_msg_id(conversation(users), users.0, &id)
        .await
        .unwrap();
    assert_eq!(mids(&found), [1, 4]);
    let id = "X".to_owned().try_into().unwrap();
    assert!(
        snapshot
            .find_by_client_msg_id(conversation(users), users.0, &id)
            .await
            .unwrap()
            .is_empty()
    );
}

/// However long a conversation is, a look-up reads no more of it.
#[tokio::test]
async fn an_id_is_found_among_the_newest_messages_only() {
    let fixture = Fixture::shared().await;
    let users = fixture.users(28);
    let mut rows: Vec<_> = (1..=1_001).map(|mid| message(users, mid)).collect();
    for (row, id) in rows.iter_mut().zip(["old", "known"]) {
        row.client_msg_id = id.to_owned().try_into().unwrap();
    }
    fixture.write(&rows).await.unwrap();
    let mut snapshot = fixture
        .store
        .snapshot(fixture.shard(table_number(28)))
        .await
        .unwrap();
    for (id, expected) in [("old", vec![]), ("known", vec![2])] {
        let id = id.to_owned().try_into().unwrap();
        let found = snapshot
            .find_by_client_msg_id(conversation(users), users.0, &id)
            .await
            .unwrap();
        assert_eq!(mids(&found), expected);
    }
}

#[tokio::test]
async fn an_ordinal_is_told_from_rows_or_not_at_all() {
    let fixture = Fixture::shared().await;
    let users = fixture.users(19);
    let partition = conversation(users).partition();
    let shard = fixture.shard(partition);
    fixture.write(&talk(users)).await.unwrap();
    let at = async |sender, number| -> Option<i64> {
        let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
        let n = snapshot
            .ordinal_at(conversation(users), sender, mid(number))
            .await
            .unwrap();
        n.map(Ordinal::get)
    };
    // The second user sent 3, 6, 9 and 12.
    assert_eq!(at(users.1, 0).await, Some(0));
    assert_eq!(at(users.1, 2).await, Some(0));
    assert_eq!(at(users.1, 3).await, Some(1));
    assert_eq!(at(users.1, 11).await, Some(3));
    assert_eq!(at(users.0, 12).await, Some(8));

    // As if the oldest month had been dropped.
    let drop = format!(
        "DELETE FROM {} WHERE id <= 4 AND srcid IN (?, ?)",
        fixture.table("chat_msg", partition)
    );
    let mut admin = fixture.admin().await;
    let drop = sqlx::query(AssertSqlSafe(drop))
        .bind(users.0.get())
        .bind(users.1.get());
    drop.execute(&mut admin).await.unwrap();
    assert_eq!(at(users.1, 5).await, None);
    assert_eq!(at(users.1, 6).await, Some(2));
    assert_eq!(at(user(i64::MAX - 9), 0).await, Some(0));
}

#[tokio::test]
async fn a_table_is_scanned_in_the_order_of_the_log() {
    let fixture = Fixture::without_schema().await;
    fixture
        .store
        .apply_schema(TimestampMs(NOW.0 - 40 * DAY_MS))
        .await
        .unwrap();
    let users = fixture.users(20);
    let mut rows = talk(users);
    // Ids rise with time in life, but the order of the scan must not depend on the months.
    rows[0].ts = NOW;
    fixture.write(&rows).await.unwrap();
    let partition = conversation(users).partition();
    let mut snapshot = fixture
        .store
        .snapshot(fixture.shard(partition))
        .await
        .unwrap();
    let mut found = Vec::new();
    loop {
        let after = found.last().map_or(-1, |row: &MessageRow| row.id);
        let page = snapshot
            .scan_messages(partition.into(), after, 5)
            .await
            .unwrap();
        if page.is_empty() {
            break;
        }
        found.extend(page);
    }
    assert_eq!(found, rows);
}
