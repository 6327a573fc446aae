//! That the server answers with the index and only looks at the months that matter.

use std::fmt::Write as _;

use message_store::{ChangeRow, ContactDelta, ConversationRows, MessageRow};
use schemas::{Change, ChangeSeq, TableNumber, TimestampMs, UserId};
use sqlx::{
    AssertSqlSafe, MySqlConnection, Row as _, mysql::MySqlRow, types::time::PrimitiveDateTime,
};
use time::macros::datetime;

use crate::{
    changes::change,
    support::{DAY_MS, Fixture, NOW, contacts, conversation, message, ordinal, table_number, user},
};

/// Six conversations of the same partition over six months.
async fn fill(fixture: &Fixture) -> (UserId, UserId) {
    let pairs: Vec<_> = (0..6).map(|_| fixture.users(21)).collect();
    for users in &pairs {
        // Uids of tests are thousands apart.
        let first = users.0.get() * 1000;
        let rows: Vec<MessageRow> = (1..=3000)
            .map(|number| {
                let mut row = message(
                    if number % 2 == 0 {
                        *users
                    } else {
                        (users.1, users.0)
                    },
                    number,
                );
                row.id = first + number;
                row.ts = TimestampMs(NOW.0 - (3000 - number) * DAY_MS / 20);
                row.ordinal = Some(ordinal((number + 1) / 2));
                row
            })
            .collect();
        fixture.write(&rows).await.unwrap();
    }
    pairs[3]
}

async fn explain(
    admin: &mut MySqlConnection,
    sql: String,
    bind: impl FnOnce(Query) -> Query,
) -> Vec<MySqlRow> {
    let sql = format!("EXPLAIN PARTITIONS {sql}");
    bind(sqlx::query(AssertSqlSafe(sql)))
        .fetch_all(admin)
        .await
        .unwrap()
}

type Query = sqlx::query::Query<'static, sqlx::MySql, sqlx::mysql::MySqlArguments>;

fn text(row: &MySqlRow, column: &str) -> String {
    row.get::<Option<String>, _>(column).unwrap_or_default()
}

fn show(plan: &[MySqlRow]) -> String {
    plan.iter().fold(String::new(), |mut shown, row| {
        let column = |name| text(row, name);
        writeln!(
            shown,
            "{} key={} partitions={} {}",
            column("table"),
            column("key"),
            column("partitions"),
            column("Extra")
        )
        .unwrap();
        shown
    })
}

#[tokio::test]
async fn the_unread_query_uses_the_index_and_prunes_months() {
    let fixture = Fixture::without_schema().await;
    fixture
        .store
        .apply_schema(TimestampMs(NOW.0 - 150 * DAY_MS))
        .await
        .unwrap();
    fixture.store.ensure_months(NOW, 1).await.unwrap();
    let (srcid, destid) = fill(&fixture).await;
    let mut admin = fixture.admin().await;
    let table = fixture.table("chat_msg", table_number(21));
    sqlx::raw_sql(AssertSqlSafe(format!("ANALYZE TABLE {table}")))
        .execute(&mut admin)
        .await
        .unwrap();

    let sql = include_str!("../../sql/read/unread_messages.sql")
        .replace("{columns}", "*")
        .replace("{table}", &table);
    let since: PrimitiveDateTime = datetime!(2026-10-21 0:00);
    let plan = explain(&mut admin, sql, |query| {
        let there = query
            .bind(srcid.get())
            .bind(destid.get())
            .bind(0_i64)
            .bind(since)
            .bind(200_u64);
        there
            .bind(destid.get())
            .bind(srcid.get())
            .bind(0_i64)
            .bind(since)
            .bind(200_u64)
            .bind(200_u64)
    })
    .await;
    let branches: Vec<&MySqlRow> = plan
        .iter()
        .filter(|row| text(row, "table").starts_with("chat_msg"))
        .collect();
    assert_eq!(branches.len(), 2, "{}", show(&plan));
    for branch in branches {
        assert_eq!(text(branch, "key"), "inx_1", "{}", show(&plan));
        assert_eq!(
            text(branch, "partitions"),
            "p202610,p202611,p202612",
            "{}",
            show(&plan)
        );
        assert!(
            !text(branch, "Extra").contains("filesort"),
            "{}",
            show(&plan)
        );
    }
}

#[tokio::test]
async fn single_messages_are_ranges_of_the_index() {
    let fixture = Fixture::shared().await;
    let (srcid, destid) = fill(&fixture).await;
    let mut admin = fixture.admin().await;
    let table = fixture.table("chat_msg", table_number(21));
    let keys = format!(
        "(srcid = {srcid} AND destid = {destid} AND mid = 5) OR (srcid = {destid} AND destid = {srcid} AND mid = 5)"
    );
    let sql = include_str!("../../sql/read/messages_by_mid.sql")
        .replace("{columns}", "*")
        .replace("{table}", &table)
        .replace("{keys}", &keys);
    let plan = explain(&mut admin, sql, |query| query).await;
    assert_eq!(text(&plan[0], "key"), "inx_1", "{}", show(&plan));
    assert_eq!(text(&plan[0], "type"), "range", "{}", show(&plan));
}

/// A scan of `contact_<n>` behind a row.
fn scan_of_contacts(table: &str, uid: i64, peer: i64, limit: u32) -> String {
    include_str!("../../sql/read/scan_contacts.sql")
        .replace("{columns}", "*")
        .replace("{table}", table)
        .replace("{uid}", &uid.to_string())
        .replace("{peer}", &peer.to_string())
        .replace("{limit}", &limit.to_string())
}

/// How many rows the server reads for an answer.
async fn rows_read(admin: &mut MySqlConnection, query: Query) -> u64 {
    let flush = sqlx::raw_sql("FLUSH STATUS");
    flush.execute(&mut *admin).await.unwrap();
    query.fetch_all(&mut *admin).await.unwrap();
    let status = "SHOW SESSION STATUS WHERE Variable_name IN ('Handler_read_key', 'Handler_read_next', 'Handler_read_prev')";
    let status = sqlx::raw_sql(status).fetch_all(&mut *admin).await.unwrap();
    let values = status.iter().map(|row| row.get::<String, _>("Value"));
    values.map(|value| value.parse::<u64>().unwrap()).sum()
}

#[tokio::test]
async fn pages_and_scans_do_not_sort() {
    let fixture = Fixture::shared().await;
    let (uid, peer) = fill(&fixture).await;
    let deltas: Vec<ContactDelta> = (0..3000)
        .map(|i| {
            ContactDelta::new(
                if i % 3 == 0 { uid } else { user(64 * i + 21) },
                user(peer.get() + i),
            )
        })
        .collect();
    let shard = fixture.shard(TableNumber::of_user(uid));
    fixture
        .store
        .write_user_rows(shard, &fixture.topic, contacts(&deltas), &[])
        .await
        .unwrap();
    let mut admin = fixture.admin().await;
    let table = |stem| fixture.table(stem, TableNumber::of_user(uid));
    for stem in ["chat_msg", "contact"] {
        let analyze = format!("ANALYZE TABLE {}", table(stem));
        sqlx::raw_sql(AssertSqlSafe(analyze))
            .execute(&mut admin)
            .await
            .unwrap();
    }
    let (uid, peer) = (uid.get(), peer.get());
    let time: PrimitiveDateTime = datetime!(2026-11-21 0:00);

    let scan = include_str!("../../sql/read/scan_messages.sql")
        .replace("{columns}", "*")
        .replace("{table}", &table("chat_msg"))
        .replace("{after}", &(uid * 1000).to_string())
        .replace("{limit}", "1000");
    let scan_plan = explain(&mut admin, scan, |query| query).await;
    let contacts = scan_of_contacts(&table("contact"), uid, peer, 1000);
    let contacts = explain(&mut admin, contacts, |query| query).await;
    let page = include_str!("../../sql/read/contact_page.sql")
        .replace("{columns}", "*")
        .replace("{table}", &table("contact"));
    let page = page.replace("{hidden}", &table("hidden"));
    let page = explain(&mut admin, page, |query| {
        query
            .bind(uid)
            .bind(true)
            .bind(time)
            .bind(peer)
            .bind(true)
            .bind(time)
            .bind(true)
            .bind(50_u32)
    })
    .await;
    // `uid` has a thousand rows, and these pages are behind 966 of them.
    let (late, few) = (peer + 2_900, 10_u32);
    let scan = scan_of_contacts(&table("contact"), uid, late, few);
    let scanned = rows_read(&mut admin, sqlx::query(AssertSqlSafe(scan))).await;
    let of_users = include_str!("../../sql/read/contacts_of.sql")
        .replace("{columns}", "*")
        .replace("{table}", &table("contact"))
        .replace("{uid}", &uid.to_string())
        .replace("{peer}", &late.to_string())
        .replace("{uids}", &format!("0, {}", 64 * 2_999 + 21))
        .replace("{limit}", &few.to_string());
    let of_users = rows_read(&mut admin, sqlx::query(AssertSqlSafe(of_users))).await;
    let late_page = include_str!("../../sql/read/contact_page.sql")
        .replace("{columns}", "*")
        .replace("{table}", &table("contact"))
        .replace("{hidden}", &table("hidden"));
    let beginning: PrimitiveDateTime = datetime!(1970-01-01 0:00);
    let late_page = sqlx::query(AssertSqlSafe(late_page))
        .bind(uid)
        .bind(false)
        .bind(beginning)
        .bind(peer + 30)
        .bind(false)
        .bind(beginning)
        .bind(false)
        .bind(few);
    let late_page = rows_read(&mut admin, late_page).await;
    // Those of the page, and one for each further range.
    let most = u64::from(few) + 2;
    assert!(scanned <= most && of_users <= most, "{scanned}, {of_users}");
    // Three for each row: its own, and whether its message is hidden.
    assert!(late_page <= 3 * u64::from(few), "{late_page}");
    let since = include_str!("../../sql/read/contacts_since.sql")
        .replace("{columns}", "*")
        .replace("{table}", &table("contact"))
        .replace("{hidden}", &table("hidden"))
        .replace("{uid}", &uid.to_string())
        .replace("{partition}", "0")
        .replace("{peer}", "0")
        .replace("{since}", &["-1"; 64].join(", "))
        .replace("{limit}", &few.to_string());
    let since_plan = explain(&mut admin, since.clone(), |query| query).await;
    assert_eq!(
        text(&since_plan[0], "key"),
        "PRIMARY",
        "{}",
        show(&since_plan)
    );
    let since = rows_read(&mut admin, sqlx::query(AssertSqlSafe(since))).await;
    // All rows of the user once, and of those returned again and whether their messages are hidden.
    let most = 1_001 + 3 * u64::from(few);
    assert!((1_000..=most).contains(&since), "{since}");
    for (plan, key) in [
        (scan_plan, "PRIMARY"),
        (contacts, "PRIMARY"),
        (page, "inx_2"),
    ] {
        assert_eq!(text(&plan[0], "key"), key, "{}", show(&plan));
        assert!(
            !text(&plan[0], "Extra").contains("filesort"),
            "{}",
            show(&plan)
        );
    }
}

/// Unresolved reads on both device classes of these peers.
async fn insert_unresolved(admin: &mut MySqlConnection, table: &str, uid: UserId, peers: i64) {
    let mut rows = String::new();
    for peer in 1..=peers {
        for device in ["mobile", "pc"] {
            let comma = if rows.is_empty() { "" } else { ", " };
            write!(
                rows,
                "{comma}('contacts', {uid}, {peer}, '{device}', 1, 21, 1)"
            )
            .unwrap();
        }
    }
    let insert = format!("INSERT INTO {table} VALUES {rows}");
    sqlx::raw_sql(AssertSqlSafe(insert))
        .execute(admin)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_page_of_unresolved_reads_costs_the_same_anywhere() {
    let fixture = Fixture::without_schema().await;
    fixture.store.apply_schema(NOW).await.unwrap();
    let mut admin = fixture.admin().await;
    let shard = fixture.shard(table_number(21));
    let table = format!("{}.unresolved_read", fixture.database(shard));
    for (number, peers) in [(1, 3), (2, 1_500), (3, 2)] {
        insert_unresolved(&mut admin, &table, user(64 * number + 21), peers).await;
    }
    let unresolved = async |after, limit| {
        let reads = fixture
            .store
            .unresolved_reads(shard, None, after, limit)
            .await;
        reads.unwrap()
    };
    let all = unresolved(None, 10_000).await;
    assert_eq!(all.len(), 2 * (3 + 1_500 + 2));
    let mut paged = Vec::new();
    loop {
        let page = unresolved(paged.last().copied(), 7).await;
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    assert_eq!(paged, all);

    let analyze = format!("ANALYZE TABLE {table}");
    sqlx::raw_sql(AssertSqlSafe(analyze))
        .execute(&mut admin)
        .await
        .unwrap();
    let partitions: Vec<String> = (0..64).map(|number| number.to_string()).collect();
    let sql = include_str!("../../sql/read/unresolved_reads.sql")
        .replace("{table}", &table)
        .replace("{sink}", "contacts")
        .replace("{partitions}", &partitions.join(", "))
        .replace("{limit}", "10");
    // Behind all but 11 rows of the user with many.
    let late = sql
        .replace("{uid}", &(64 * 2 + 21).to_string())
        .replace("{peer}", "1495")
        .replace("{device}", "mobile");
    let first = sql
        .replace("{uid}", "-1")
        .replace("{peer}", "0")
        .replace("{device}", "");
    for sql in [first, late] {
        let read = rows_read(&mut admin, sqlx::query(AssertSqlSafe(sql.clone()))).await;
        // Those of the page, and one for each further range.
        assert!(read <= 12, "{read} rows for {sql}");
    }
}

#[tokio::test]
async fn changes_find_their_messages_by_the_index() {
    let fixture = Fixture::shared().await;
    let (srcid, destid) = fill(&fixture).await;
    let mut admin = fixture.admin().await;
    let table = fixture.table("chat_msg", table_number(21));
    let keys: Vec<String> = (1..=1000)
        .map(|mid| format!("(srcid = {srcid} AND destid = {destid} AND mid = {mid})"))
        .collect();
    let recall = include_str!("../../sql/write/recall_messages.sql")
        .replace("{table}", &table)
        .replace("{state}", "1")
        .replace("{emptied}", "msg = ''")
        .replace("{keys}", &format!("({})", keys.join(" OR ")));
    let edit = include_str!("../../sql/write/edit_messages.sql")
        .replace("{table}", &table)
        .replace("{cases}", &format!("WHEN {} THEN NULL", keys[0]))
        .replace("{keys}", &format!("({})", keys[..64].join(" OR ")));
    // Either user may have sent the message that the other one reacts to.
    let either = |mid: i64| {
        format!(
            "(((srcid = {srcid} AND destid = {destid} AND mid = {mid}) OR (srcid = {destid} AND destid = {srcid} AND mid = {mid})))"
        )
    };
    let either: Vec<String> = (1..=64).map(either).collect();
    let react = include_str!("../../sql/write/react_to_messages.sql")
        .replace("{table}", &table)
        .replace("{cases}", &format!("WHEN {} THEN '{{}}'", either[0]))
        .replace("{keys}", &format!("({})", either.join(" OR ")));
    let take_back = include_str!("../../sql/write/take_back_reactions.sql")
        .replace("{table}", &table)
        .replace(
            "{cases}",
            &format!("WHEN {} THEN JSON_REMOVE(reactions, '$.\"1\"')", either[0]),
        )
        .replace("{keys}", &format!("({})", either.join(" OR ")));
    for sql in [recall, edit, react, take_back] {
        let plan = explain(&mut admin, sql, |query| query).await;
        assert_eq!(text(&plan[0], "key"), "inx_1", "{}", show(&plan));
        assert_eq!(text(&plan[0], "type"), "range", "{}", show(&plan));
    }

    let changes = fixture.table("msg_change", table_number(21));
    let of_all = include_str!("../../sql/read/changes_of_all.sql").replace("{table}", &changes);
    let plan = explain(&mut admin, of_all, |query| {
        query.bind(1_i64).bind(2_i64).bind(3_i64).bind(50_u32)
    })
    .await;
    assert_eq!(text(&plan[0], "key"), "PRIMARY", "{}", show(&plan));
    let cleared = include_str!("../../sql/read/scan_cleared.sql")
        .replace("{table}", &fixture.table("hidden", table_number(21)))
        .replace("{contacts}", &fixture.table("contact", table_number(21)))
        .replace(
            "{memberships}",
            &fixture.table("membership", table_number(21)),
        )
        .replace("{uid}", "85")
        .replace("{kind}", "0")
        .replace("{peer}", "3")
        .replace("{mid}", "4")
        .replace("{limit}", "1000");
    let plan = explain(&mut admin, cleared, |query| query).await;
    let keys: Vec<String> = plan.iter().map(|row| text(row, "key")).collect();
    assert_eq!(keys, ["PRIMARY"; 3], "{}", show(&plan));
    assert!(!show(&plan).contains("filesort"), "{}", show(&plan));
    let replaced = include_str!("../../sql/write/delete_replaced.sql")
        .replace("{table}", &changes)
        .replace("{from}", "1")
        .replace("{to}", "9")
        .replace(
            "{condition}",
            "((lo = 1 AND hi = 2 AND chg = 3) OR (lo = 1 AND hi = 2 AND chg = 4))",
        );
    let plan = explain(&mut admin, replaced, |query| query).await;
    assert_eq!(text(&plan[0], "key"), "PRIMARY", "{}", show(&plan));
}

/// An account that hides for hours makes others' reads no dearer.
#[tokio::test]
async fn what_others_have_hidden_is_not_gone_through() {
    let fixture = Fixture::shared().await;
    let (me, other) = fixture.users(21);
    let mut changes: Vec<ChangeRow> = (1..=4_000)
        .map(|number| change((other, me), number, 1, Change::Hide))
        .collect();
    changes.push(change((me, other), 4_001, 1, Change::Hide));
    changes.push(change((other, me), 4_002, 2, Change::Recall));
    let of = conversation((me, other));
    let rows = ConversationRows {
        changes,
        ..ConversationRows::default()
    };
    let shard = fixture.shard(of.partition());
    let write = fixture
        .store
        .write_messages(shard, &fixture.topic, &rows, &[]);
    write.await.unwrap();

    let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
    let found = snapshot
        .changes_after(of, me, ChangeSeq::ZERO, 50)
        .await
        .unwrap();
    let found: Vec<i64> = found.iter().map(|row| row.change_seq.get()).collect();
    assert_eq!(found, [4_001, 4_002]);
    let all = snapshot
        .changes_after(of, other, ChangeSeq::ZERO, 5_000)
        .await;
    assert_eq!(all.unwrap().len(), 4_001);

    let mut admin = fixture.admin().await;
    let own = include_str!("../../sql/read/own_changes_after.sql")
        .replace("{table}", &fixture.table("msg_change", of.partition()));
    let query = sqlx::query(AssertSqlSafe(own));
    let query = query.bind(me.get()).bind(other.get()).bind(me.get());
    let query = query.bind(4_000_i64).bind(0_i64).bind(50_u32);
    let read = rows_read(&mut admin, query).await;
    assert!(read < 10, "{read} rows for one");
    let sql = include_str!("../../sql/read/changes_seen_by.sql")
        .replace("{table}", &fixture.table("msg_change", of.partition()))
        .replace(
            "{is_of_editor}",
            "m.srcid = c.uid AND m.destid = IF(c.uid = c.lo, c.hi, c.lo)",
        )
        .replace("{messages}", &fixture.table("chat_msg", of.partition()));
    let (lo, hi) = (me.min(other), me.max(other));
    let query = sqlx::query(AssertSqlSafe(sql));
    let query = query.bind(lo.get()).bind(hi.get()).bind(0_i64).bind(50_u32);
    let query = query.bind(lo.get()).bind(hi.get()).bind(me.get());
    let query = query.bind(0_i64).bind(50_u32).bind(50_u32);
    let read = rows_read(&mut admin, query).await;
    assert!(read < 100, "{read} rows for two");
}
