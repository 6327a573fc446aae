//! Changes to messages and contacts.

use message_store::{
    ChangeRow, ClearedCursors, ContactDelta, ContactRow, FlagsAt, LastMessage, Membership,
    MessageRow, MessageState, StoredChange, UserRows,
};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use schemas::{
    Change, ChangeSeq, ContactFlags, ConversationId, Mid, Reactions, TableNumber, TimestampMs,
    UserId, proto::ChangeKind,
};
use sqlx::{AssertSqlSafe, Row as _};

use crate::support::{
    DAY_MS, Fixture, NOW, contacts, conversation, group, message, mid, rows_of, to_group, user,
};

pub fn change_seq(change_seq: i64) -> ChangeSeq {
    change_seq.try_into().unwrap()
}

pub fn edit(msg: &str) -> Change {
    Change::Edit(msg.to_owned())
}

/// Change `number` of a conversation, to message `of`, by the first user.
pub fn change((by, peer): (UserId, UserId), number: i64, of: i64, change: Change) -> ChangeRow {
    ChangeRow {
        id: 10_000 + number,
        ts: TimestampMs(NOW.0 + number),
        conversation: conversation((by, peer)).into(),
        by,
        mid: mid(of),
        change,
        change_seq: change_seq(number),
    }
}

async fn write(fixture: &Fixture, rows: &[MessageRow], changes: &[ChangeRow]) {
    let conversation = match (rows, changes) {
        ([row, ..], _) => row.conversation(),
        (_, [row, ..]) => row.conversation,
        _ => return,
    };
    let shard = fixture.shard(conversation.partition());
    let rows = rows_of(rows, changes);
    let write = fixture
        .store
        .write_messages(shard, &fixture.topic, &rows, &[]);
    write.await.unwrap();
}

/// Text, state and whether it was edited, of all messages.
async fn messages(
    fixture: &Fixture,
    of: impl Into<ConversationId>,
) -> Vec<(String, MessageState, Option<TimestampMs>)> {
    let of = of.into();
    let shard = fixture.shard(of.partition());
    let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
    let rows = snapshot.page_after(of, Mid::ZERO, 2_000).await.unwrap();
    rows.into_iter()
        .map(|row| (row.msg, row.state, row.edited_ts))
        .collect()
}

fn gone(state: MessageState) -> (String, MessageState, Option<TimestampMs>) {
    (String::new(), state, None)
}

/// Writes messages and their changes, in a batch or one after the other; the conversation that they are in, which is a group if it is to be.
async fn write_rounds(
    fixture: &Fixture,
    users: (UserId, UserId),
    (rows, changes): (&mut [MessageRow], &mut [ChangeRow]),
    at_once: bool,
    in_group: bool,
) -> ConversationId {
    for row in rows.iter_mut() {
        // Ids are those of a partition, and all rounds write to the same.
        row.id += users.0.get() * 100;
    }
    let mut conversation: ConversationId = conversation(users).into();
    if in_group {
        conversation = group(users).into();
        for row in rows.iter_mut() {
            *row = to_group(group(users), row.clone());
        }
        for row in changes.iter_mut() {
            row.conversation = conversation;
        }
    }
    if at_once {
        // The order of a batch is that of the ids.
        changes.reverse();
        write(fixture, rows, changes).await;
    } else {
        write(fixture, rows, &[]).await;
        for one in changes.iter() {
            write(fixture, &[], std::slice::from_ref(one)).await;
        }
    }
    conversation
}

#[tokio::test]
async fn a_message_and_its_changes_may_be_of_one_batch_or_of_several() {
    let fixture = Fixture::shared().await;
    for (at_once, in_group) in [(true, false), (false, false), (true, true), (false, true)] {
        let users = fixture.users(33);
        let (first, second) = users;
        let mut rows: Vec<MessageRow> = (1..=5).map(|number| message(users, number)).collect();
        rows[4] = message((second, first), 5);
        let mut changes = [
            change(users, 1, 1, edit("once")),
            change(users, 2, 1, edit("twice")),
            change(users, 3, 2, edit("a secret")),
            change(users, 4, 2, Change::Recall),
            change(users, 5, 3, Change::Delete),
            change(users, 6, 4, Change::Hide),
            change((second, first), 7, 5, edit("by the other")),
            change((second, first), 8, 4, Change::Clear),
        ];
        let rows = (&mut rows[..], &mut changes[..]);
        let conversation = write_rounds(&fixture, users, rows, at_once, in_group).await;
        let shown = |msg: &str, edited: Option<i64>| {
            let edited = edited.map(|number| TimestampMs(NOW.0 + number));
            (msg.to_owned(), MessageState::Shown, edited)
        };
        assert_eq!(
            messages(&fixture, conversation).await,
            [
                shown("twice", Some(2)),
                gone(MessageState::Recalled),
                gone(MessageState::Deleted),
                shown("text 4", None),
                shown("by the other", Some(7)),
            ]
        );

        let shard = fixture.shard(conversation.partition());
        let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
        let found = snapshot
            .changes_after(conversation, first, change_seq(1), 6)
            .await;
        let found: Vec<_> = found
            .unwrap()
            .into_iter()
            .map(|row| {
                (
                    row.change_seq.get(),
                    row.mid.get(),
                    row.by,
                    row.kind,
                    row.msg,
                )
            })
            .collect();
        use ChangeKind::{Clear, Delete, Edit, Hide, Recall};
        assert_eq!(
            found,
            [
                (2, 1, first, Edit, Some("twice".to_owned())),
                (3, 2, first, Edit, None),
                (4, 2, first, Recall, None),
                (5, 3, first, Delete, None),
                (6, 4, first, Hide, None),
                (7, 5, second, Edit, Some("by the other".to_owned())),
            ]
        );
        let last = snapshot.messages_by_mid(&[(conversation, mid(5))]).await;
        assert_eq!(last.unwrap()[&(conversation, mid(5))].msg, "by the other");
        // What the other user hides and clears is none of one's own.
        for (uid, kinds) in [(first, [Hide, Edit]), (second, [Edit, Clear])] {
            let last = snapshot
                .changes_after(conversation, uid, change_seq(5), 3)
                .await;
            let found: Vec<_> = last.unwrap().iter().map(|row| row.kind).collect();
            assert_eq!(found, kinds);
        }
        let last = snapshot.changes_of_all(conversation, 5, 3).await;
        let found: Vec<_> = last.unwrap().iter().map(|row| row.kind).collect();
        assert_eq!(found, [Hide, Edit, Clear]);
    }
}

/// Some hides and clears have a number, from before rule version 4, and the later ones none.
#[tokio::test]
async fn what_has_no_number_is_read_by_its_author_in_the_order_of_the_log() {
    let fixture = Fixture::shared().await;
    let users @ (first, second) = fixture.users(33);
    let own = |users, number, of, what| ChangeRow {
        change_seq: ChangeSeq::ZERO,
        ..change(users, number, of, what)
    };
    let changes = [
        change(users, 1, 1, Change::Hide),
        change((second, first), 2, 2, edit("numbered")),
        own(users, 3, 2, Change::Hide),
        own((second, first), 4, 3, Change::Hide),
        own(users, 5, 3, Change::Clear),
        change(users, 6, 1, Change::Recall),
    ];
    let of = conversation(users);
    write(&fixture, &[], &changes).await;
    let mut snapshot = fixture.store.snapshot(fixture.shard(of.partition())).await;
    let snapshot = snapshot.as_mut().unwrap();
    let ids = |rows: Vec<StoredChange>| -> Vec<i64> {
        let ids = rows.iter().map(|row| row.id - 10_000);
        ids.collect()
    };
    for (uid, event_offset, limit, found) in [
        (first, 0, 9, vec![3, 5]),
        (first, 0, 1, vec![3]),
        (first, 10_003, 9, vec![5]),
        (first, 10_005, 9, vec![]),
        (second, 0, 9, vec![4]),
    ] {
        let own = snapshot
            .own_changes_after(of, uid, (None, event_offset), limit)
            .await;
        assert_eq!(ids(own.unwrap()), found);
    }
    for (uid, after, found) in [
        (first, (change_seq(0), 10_003), vec![1, 5]),
        (first, (change_seq(1), 0), vec![3, 5]),
        (second, (change_seq(0), 0), vec![4]),
    ] {
        let (change_seq, event_offset) = after;
        let own = snapshot
            .own_changes_after(of, uid, (Some(change_seq), event_offset), 9)
            .await;
        assert_eq!(ids(own.unwrap()), found);
    }
    let numbered = snapshot.changes_after(of, first, ChangeSeq::ZERO, 9).await;
    assert_eq!(ids(numbered.unwrap()), [1, 2, 6]);
    let all = snapshot.changes_of_all(of, i64::MIN, 9).await.unwrap();
    assert!(all.is_sorted_by_key(StoredChange::number));
    assert_eq!(ids(all), [5, 4, 3, 1, 2, 6]);
}

/// As where the log is read again.
#[tokio::test]
async fn an_edit_from_before_brings_no_recalled_text_back() {
    let fixture = Fixture::shared().await;
    let users = fixture.users(34);
    write(&fixture, &[message(users, 1)], &[]).await;
    write(&fixture, &[], &[change(users, 2, 1, Change::Recall)]).await;
    write(&fixture, &[], &[change(users, 1, 1, edit("a secret"))]).await;
    write(&fixture, &[], &[change(users, 3, 1, Change::Delete)]).await;
    let found = messages(&fixture, conversation(users)).await;
    assert_eq!(found, [gone(MessageState::Recalled)]);
}

#[tokio::test]
async fn texts_of_any_size_and_kind_are_edited_many_at_a_time() {
    let fixture = Fixture::shared().await;
    let users = fixture.users(35);
    let texts = [
        "'\\?{table}".to_owned(),
        "\u{1f30a}".repeat(65_535 / 4) + "end",
        "end  ".to_owned(),
    ];
    let rows: Vec<MessageRow> = (1..=150).map(|number| message(users, number)).collect();
    write(&fixture, &rows, &[]).await;
    let text = |number: i64| &texts[number as usize % texts.len()];
    let edits: Vec<ChangeRow> = (1..=150)
        .map(|number| change(users, number, number, edit(text(number))))
        .collect();
    write(&fixture, &[], &edits).await;
    let found = messages(&fixture, conversation(users)).await;
    for ((msg, _, edited_ts), number) in found.iter().zip(1..) {
        assert_eq!(msg, text(number));
        assert_eq!(*edited_ts, Some(TimestampMs(NOW.0 + number)));
    }
    // Rows that are written as they were read.
    let shard = fixture.shard(conversation(users).partition());
    let table = fixture.table("chat_msg", conversation(users).partition());
    let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
    let page = snapshot.page_after(conversation(users), Mid::ZERO, 200);
    let page = page.await.unwrap();
    drop(snapshot);
    let delete = format!("DELETE FROM {table} WHERE srcid = {}", users.0);
    let delete = sqlx::raw_sql(AssertSqlSafe(delete));
    delete.execute(&mut fixture.admin().await).await.unwrap();
    write(&fixture, &page, &[]).await;
    assert_eq!(messages(&fixture, conversation(users)).await, found);
}

#[tokio::test]
async fn changes_go_with_the_months_of_messages_and_are_not_written_again() {
    let fixture = Fixture::without_schema().await;
    let store = &fixture.store;
    store.apply_schema(NOW).await.unwrap();
    let users = fixture.users(36);
    let old = |mut row: ChangeRow| {
        row.ts = TimestampMs(NOW.0 - 40 * DAY_MS);
        row
    };
    let mut dropped = message(users, 1);
    dropped.ts = TimestampMs(NOW.0 - 40 * DAY_MS);
    let changes: Vec<ChangeRow> = (1..=2_500)
        .map(|number| old(change(users, number, 1, edit("old"))))
        .collect();
    write(&fixture, &[dropped, message(users, 2)], &changes).await;
    let recent = change(users, 2_501, 1, Change::Recall);
    write(&fixture, &[], std::slice::from_ref(&recent)).await;
    assert_eq!(store.delete_old_changes().await.unwrap(), 0);

    store.keep_months(0, NOW).await.unwrap();
    assert_eq!(store.delete_old_changes().await.unwrap(), 2_500);
    assert_eq!(store.delete_old_changes().await.unwrap(), 0);
    // One more of a message that is gone; and one that is old, by a writer who knows what is kept.
    let (shard, partition) = (
        fixture.shard(conversation(users).partition()),
        conversation(users).partition(),
    );
    let mut missing = message(users, 3);
    missing.ts = TimestampMs(NOW.0 - 40 * DAY_MS);
    write(&fixture, &[missing], &[]).await;
    let again = [
        old(change(users, 1, 1, edit("old"))),
        change(users, 2_502, 1, Change::Hide),
    ];
    write(&fixture, &[], &again).await;
    let mut snapshot = store.snapshot(shard).await.unwrap();
    let left = snapshot.scan_changes(partition.into(), None, 10).await;
    let left: Vec<i64> = left
        .unwrap()
        .iter()
        .map(|row| row.change_seq.get())
        .collect();
    assert_eq!(left, [2_501, 2_502]);
}

#[tokio::test]
async fn scans_are_paged_in_order() {
    let fixture = Fixture::without_schema().await;
    let store = &fixture.store;
    store.apply_schema(NOW).await.unwrap();
    let (one, two) = (fixture.users(37), fixture.users(37));
    let mut expected = Vec::new();
    for users in [two, one] {
        for number in 1..=3 {
            let row = change(users, number, 1, Change::Hide);
            expected.push((row.conversation, number));
            write(&fixture, &[], &[row]).await;
        }
    }
    expected.sort();
    let partition = conversation(one).partition();
    let mut snapshot = store.snapshot(fixture.shard(partition)).await.unwrap();
    let mut scanned: Vec<(ConversationId, i64)> = Vec::new();
    loop {
        let after = scanned.last().copied();
        let page = snapshot.scan_changes(partition.into(), after, 2).await;
        let page = page.unwrap();
        if page.is_empty() {
            break;
        }
        scanned.extend(page.iter().map(|row| (row.conversation, row.number())));
    }
    assert_eq!(scanned, expected);

    let table = TableNumber::of_user(one.0);
    let mut expected = Vec::new();
    for (uid, peer, mids) in [
        (one.0, user(3), vec![1, 5]),
        (one.0, user(9), vec![2]),
        (user(one.0.get() + 64), user(1), vec![1, 2, 3]),
    ] {
        let mids: Vec<Mid> = mids.into_iter().map(mid).collect();
        let mut row = ContactDelta::new(uid, peer);
        row.hidden.extend(&mids);
        expected.extend(mids.iter().map(|mid| (uid, peer, *mid)));
        // Again, as after a lost offset.
        for _ in 0..2 {
            write_contacts(&fixture, std::slice::from_ref(&row)).await;
        }
    }
    let mut snapshot = store.snapshot(fixture.shard(table)).await.unwrap();
    let mut scanned: Vec<(UserId, UserId, Mid)> = Vec::new();
    loop {
        let after = scanned.last().copied();
        let page = snapshot.scan_hidden(table, after, 2).await.unwrap();
        if page.is_empty() {
            break;
        }
        scanned.extend(page);
    }
    assert_eq!(scanned, expected);
    let of = conversation((one.0, user(3)));
    let some = snapshot.hidden(one.0, of, mid(2)..=mid(5)).await;
    assert_eq!(some.unwrap(), [mid(5)].into());
}

#[tokio::test]
async fn hidden_messages_go_once_they_are_cleared() {
    let fixture = Fixture::without_schema().await;
    let store = &fixture.store;
    store.apply_schema(NOW).await.unwrap();
    let (uid, peer) = fixture.users(44);
    let row = |peer: UserId, mids: std::ops::RangeInclusive<i64>, cleared: i64| {
        let mut row = ContactDelta::new(uid, peer);
        row.hidden.extend(mids.map(mid));
        row.clear_mid = mid(cleared);
        row
    };
    // More than one call looks at.
    let rows = [
        row(peer, 1..=12_000, 11_990),
        row(user(peer.get() + 1), 1..=3, 0),
        row(user(peer.get() + 2), 1..=3, 2),
    ];
    write_contacts(&fixture, &rows).await;
    // In groups whose numbers are those of the peers.
    let membership = |n: i64, cleared: i64| {
        let mut row = Membership::new(uid, (peer.get() + n).try_into().unwrap());
        row.hidden.extend([1, 2, 3].map(mid));
        row.clear_mid = mid(cleared);
        row
    };
    let (one, other) = (membership(0, 0), membership(1, 1));
    let rows = UserRows {
        memberships: vec![&one, &other],
        ..UserRows::default()
    };
    let table = TableNumber::of_user(uid);
    let shard = fixture.shard(table);
    let written = store.write_user_rows(shard, &fixture.topic, rows, &[]);
    written.await.unwrap();

    let left = async || {
        let mut snapshot = store.snapshot(shard).await.unwrap();
        let rows = snapshot.scan_hidden(table, None, 20_000).await.unwrap();
        rows.into_iter()
            .map(|(_, of, mid)| (of.get() - peer.get(), mid.get()))
            .collect::<Vec<_>>()
    };
    let mut cursors = ClearedCursors::default();
    assert_eq!(store.delete_cleared(&mut cursors).await.unwrap(), 10_000);
    assert_eq!(left().await.len(), 2_006);
    assert_eq!(store.delete_cleared(&mut cursors).await.unwrap(), 1_993);
    let kept = (11_991..=12_000).map(|mid| (0, mid));
    let kept: Vec<(i64, i64)> = kept.chain([(1, 1), (1, 2), (1, 3), (2, 3)]).collect();
    assert_eq!(left().await, kept);
    let mut snapshot = store.snapshot(shard).await.unwrap();
    let rows = snapshot.scan_hidden_in_groups(table, None, 9).await;
    let in_groups = rows.unwrap().into_iter();
    let in_groups = in_groups.map(|(_, of, mid)| (of.get() - peer.get(), mid.get()));
    let in_groups: Vec<(i64, i64)> = in_groups.collect();
    assert_eq!(in_groups, [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3)]);
    // From the start again.
    write_contacts(&fixture, &[row(peer, 5..=5, 0)]).await;
    assert_eq!(store.delete_cleared(&mut cursors).await.unwrap(), 1);
    assert_eq!(left().await, kept);
}

async fn write_contacts(fixture: &Fixture, rows: &[ContactDelta]) {
    let shard = fixture.shard(TableNumber::of_user(rows[0].uid));
    let write = fixture
        .store
        .write_user_rows(shard, &fixture.topic, contacts(rows), &[]);
    write.await.unwrap();
}

async fn contact(fixture: &Fixture, uid: UserId, peer: UserId) -> ContactRow {
    let shard = fixture.shard(TableNumber::of_user(uid));
    let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
    snapshot.contact(uid, peer).await.unwrap().unwrap()
}

fn last(srcid: UserId, number: i64) -> LastMessage {
    let text = format!("text {number}");
    LastMessage::new(mid(number), srcid, &text, TimestampMs(NOW.0 + number))
}

fn last_changed(row: &ChangeRow) -> Option<LastMessage> {
    LastMessage::changed(row.mid, row.by, &row.change, row.change_seq, row.ts)
}

#[tokio::test]
async fn a_changed_message_changes_the_preview_and_keeps_its_time() {
    let fixture = Fixture::shared().await;
    let users = fixture.users(38);
    let (uid, peer) = users;
    let changed = |number, of, what| {
        let row = change(users, number, of, what);
        let mut delta = ContactDelta::new(uid, peer);
        delta.last = last_changed(&row);
        delta.change_seq = row.change_seq;
        delta
    };
    let sent = |number| {
        let mut delta = ContactDelta::new(uid, peer);
        delta.last = Some(last(users.0, number));
        delta
    };
    let shown = async || {
        let found = contact(&fixture, uid, peer).await.contact;
        let last = found.last.unwrap();
        let version = (
            last.mid.get(),
            last.change_seq.get(),
            found.change_seq.get(),
        );
        let ts = last.ts.0 - NOW.0;
        (version, last.preview, last.state, ts)
    };
    // As the database merges, so do deltas in memory, in either order.
    let mut one = sent(1);
    one.merge(changed(1, 1, edit("edited")));
    let mut other = changed(1, 1, edit("edited"));
    other.merge(sent(1));
    assert_eq!(one, other);

    write_contacts(&fixture, &[sent(1)]).await;
    let texts = |text: &str| (text.to_owned(), MessageState::Shown);
    for delta in [changed(1, 1, edit("edited")), one] {
        write_contacts(&fixture, &[delta]).await;
        let (version, preview, state, ts) = shown().await;
        assert_eq!((version, ts), ((1, 1, 1), 1));
        assert_eq!((preview, state), texts("edited"));
    }
    write_contacts(&fixture, &[sent(2), changed(2, 1, Change::Recall)][..1]).await;
    write_contacts(&fixture, &[changed(2, 1, Change::Recall)]).await;
    let (version, preview, state, ts) = shown().await;
    assert_eq!((version, ts), ((2, 0, 2), 2));
    assert_eq!((preview, state), texts("text 2"));
    write_contacts(&fixture, &[changed(3, 2, Change::Recall)]).await;
    let recalled = ((2, 3, 3), String::new(), MessageState::Recalled, 2);
    assert_eq!(shown().await, recalled);
    // The log is read again.
    write_contacts(&fixture, &[sent(2)]).await;
    assert_eq!(shown().await, recalled);
    write_contacts(&fixture, &[sent(3)]).await;
    let next = ((3, 0, 3), "text 3".to_owned(), MessageState::Shown, 3);
    assert_eq!(shown().await, next);
}

#[tokio::test]
async fn flags_are_those_of_the_last_event() {
    let fixture = Fixture::shared().await;
    let (uid, peer) = fixture.users(39);
    let flags = |favourite, pinned, muted, blocked| ContactFlags {
        favourite,
        pinned,
        muted,
        blocked,
    };
    let at = |event_offset, set: Option<(i64, ContactFlags)>| {
        let mut delta = ContactDelta::new(uid, peer);
        delta.event_offset = event_offset;
        delta.flags = set.map(|(event_offset, flags)| FlagsAt {
            event_offset,
            flags,
        });
        delta
    };
    let found = async || {
        let found = contact(&fixture, uid, peer).await;
        (found.contact.event_offset, found.flags())
    };
    let first = flags(true, false, true, false);
    let second = flags(false, true, false, true);
    // Offset 0 is the first of a log.
    write_contacts(&fixture, &[at(0, Some((0, first)))]).await;
    assert_eq!(found().await, (0, first));
    write_contacts(&fixture, &[at(4, None)]).await;
    assert_eq!(found().await, (4, first));
    // With what came after it in its batch.
    write_contacts(&fixture, &[at(9, Some((7, second)))]).await;
    assert_eq!(found().await, (9, second));
    // The log is read again, in other batches.
    for (event_offset, set) in [(0, Some((0, first))), (5, None), (8, Some((7, second)))] {
        write_contacts(&fixture, &[at(event_offset, set)]).await;
        assert_eq!(found().await, (9, second));
    }
    write_contacts(&fixture, &[at(10, Some((10, ContactFlags::default())))]).await;
    assert_eq!(found().await, (10, ContactFlags::default()));
    let mut delta = at(3, Some((3, first)));
    delta.merge(at(8, Some((7, second))));
    delta.merge(at(5, Some((5, first))));
    assert_eq!(delta, at(8, Some((7, second))));
}

/// `del_flag` as others read it, and what the row says.
async fn is_deleted(fixture: &Fixture, uid: UserId, peer: UserId) -> (bool, bool) {
    let table = fixture.table("contact", TableNumber::of_user(uid));
    let sql = format!("SELECT del_flag FROM {table} WHERE uid = {uid} AND peer = {peer}");
    let row = sqlx::query(AssertSqlSafe(sql));
    let row = row.fetch_one(&mut fixture.admin().await).await.unwrap();
    let is_listed = contact(fixture, uid, peer).await.is_listed();
    (row.get::<i8, _>("del_flag") != 0, is_listed)
}

#[tokio::test]
async fn a_deleted_contact_comes_back_with_the_next_message() {
    let fixture = Fixture::shared().await;
    let users = fixture.users(40);
    let (uid, peer) = users;
    let row = |newest: Option<i64>, deleted: i64| {
        let mut delta = ContactDelta::new(uid, peer);
        delta.last = newest.map(|number| last(users.0, number));
        delta.deleted_mid = mid(deleted);
        delta
    };
    // Only flags: a row without messages is not in the list.
    let mut muted = row(None, 0);
    muted.flags = Some(FlagsAt {
        event_offset: 1,
        flags: ContactFlags {
            muted: true,
            ..ContactFlags::default()
        },
    });
    write_contacts(&fixture, &[muted]).await;
    assert_eq!(is_deleted(&fixture, uid, peer).await, (false, false));
    for (newest, deleted, expected) in [
        (Some(3), 0, (false, true)),
        (None, 3, (true, false)),
        (Some(4), 0, (false, true)),
        (None, 3, (false, true)),
        // Both in one batch.
        (Some(5), 5, (true, false)),
        (Some(7), 6, (false, true)),
    ] {
        write_contacts(&fixture, &[row(newest, deleted)]).await;
        assert_eq!(is_deleted(&fixture, uid, peer).await, expected);
    }
    assert!(contact(&fixture, uid, peer).await.flags().muted);
}

#[tokio::test]
async fn pinned_contacts_are_first_in_pages_of_any_size() {
    let fixture = Fixture::shared().await;
    let (uid, first_peer) = fixture.users(41);
    let mut expected = Vec::new();
    let mut rows = Vec::new();
    for i in 0..12_i64 {
        let peer = user(first_peer.get() + i);
        let mut delta = ContactDelta::new(uid, peer);
        // Some share a time, and some have no message.
        let number = i % 4;
        delta.last = (number > 0).then(|| last(peer, number));
        let pinned = i % 3 == 0;
        let flags = ContactFlags {
            pinned,
            ..ContactFlags::default()
        };
        delta.flags = (i % 2 == 0 || pinned).then_some(FlagsAt {
            event_offset: 1,
            flags,
        });
        delta.event_offset = 2;
        expected.push((pinned, number, peer));
        rows.push(delta);
    }
    expected.sort();
    expected.reverse();
    write_contacts(&fixture, &rows).await;
    for limit in 1..=13 {
        let shard = fixture.shard(TableNumber::of_user(uid));
        let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
        let mut seen = Vec::new();
        let mut cursor = None;
        loop {
            let page = snapshot.contact_page(uid, cursor, limit).await.unwrap();
            let Some(end) = page.last() else { break };
            cursor = Some(end.cursor());
            seen.extend(page.iter().map(|row| {
                let number = row.contact.last.as_ref().map_or(0, |last| last.mid.get());
                (row.flags().pinned, number, row.contact.peer)
            }));
        }
        assert_eq!(seen, expected, "limit {limit}");
    }
}

#[tokio::test]
async fn the_list_shows_no_message_that_is_hidden_cleared_or_deleted() {
    let fixture = Fixture::shared().await;
    let (uid, first_peer) = fixture.users(42);
    let peer = |i: i64| user(first_peer.get() + i);
    let row = |i: i64| {
        let mut delta = ContactDelta::new(uid, peer(i));
        delta.last = Some(last(peer(i), 5));
        delta
    };
    let mut rows: Vec<ContactDelta> = (0..5).map(row).collect();
    rows[1].hidden.insert(mid(5));
    rows[2].hidden.insert(mid(4));
    rows[3].clear_mid = mid(5);
    let deleted = change((peer(4), uid), 1, 5, Change::Delete);
    rows[4].last = last_changed(&deleted);
    write_contacts(&fixture, &rows).await;
    let shard = fixture.shard(TableNumber::of_user(uid));
    let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
    let page = snapshot.contact_page(uid, None, 10).await.unwrap();
    let mut visible: Vec<i64> = page
        .iter()
        .filter(|row| row.visible_last().is_some())
        .map(|row| row.contact.peer.get() - first_peer.get())
        .collect();
    visible.sort_unstable();
    assert_eq!((page.len(), visible), (5, vec![0, 2]));
    assert!(page.iter().all(ContactRow::is_listed));
}

fn react(emoji: &str) -> Change {
    Change::React(emoji.to_owned())
}

async fn reactions(fixture: &Fixture, of: ConversationId) -> Vec<Reactions> {
    let shard = fixture.shard(of.partition());
    let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
    let rows = snapshot.page_after(of, Mid::ZERO, 10).await.unwrap();
    rows.into_iter().map(|row| row.reactions).collect()
}

#[tokio::test]
async fn the_last_reaction_of_each_user_is_kept_until_the_message_is_recalled() {
    let fixture = Fixture::shared().await;
    for (at_once, in_group) in [(true, false), (false, false), (true, true), (false, true)] {
        let users = fixture.users(33);
        let (first, second) = users;
        let other = (second, first);
        let mut rows: Vec<MessageRow> = (1..=2).map(|number| message(users, number)).collect();
        let mut changes = [
            change(users, 1, 1, react("👍")),
            change(other, 2, 1, react("❤️")),
            change(users, 3, 1, react("🎉")),
            change(other, 4, 2, react("👍")),
            change(users, 5, 2, react("👩🏽\u{200d}🚀")),
            change(users, 6, 2, edit("new")),
            change(other, 7, 2, react("")),
        ];
        let rows = (&mut rows[..], &mut changes[..]);
        let conversation = write_rounds(&fixture, users, rows, at_once, in_group).await;
        let one: Reactions = [(first, "🎉".to_owned()), (second, "❤️".to_owned())].into();
        let two: Reactions = [(first, "👩🏽\u{200d}🚀".to_owned())].into();
        assert_eq!(reactions(&fixture, conversation).await, [one, two.clone()]);
        let mut recall = change(users, 8, 1, Change::Recall);
        let mut late = change(other, 9, 1, react("👍"));
        (recall.conversation, late.conversation) = (conversation, conversation);
        write(&fixture, &[], &[recall]).await;
        write(&fixture, &[], &[late]).await;
        let left = [Reactions::new(), two];
        assert_eq!(reactions(&fixture, conversation).await, left);
    }
}

/// Servers merge JSON in ways of their own: MariaDB's `JSON_MERGE_PATCH` loses members of a patch with a null.
#[tokio::test]
async fn any_mix_of_reactions_in_any_batches_leaves_the_last_of_each_user() {
    let fixture = Fixture::shared().await;
    let users = fixture.users(33);
    let of_group: ConversationId = group(users).into();
    let mut rows = [message(users, 1), message(users, 2)];
    let conversation = write_rounds(&fixture, users, (&mut rows, &mut []), true, true).await;
    assert_eq!(conversation, of_group);
    let mut expected = [Reactions::new(), Reactions::new()];
    let mut random = StdRng::seed_from_u64(7);
    let mut number = 0;
    for _ in 0..300 {
        let mut batch = Vec::new();
        for _ in 0..random.random_range(1..10) {
            number += 1;
            let by = user(users.0.get() + random.random_range(0..7));
            let of = random.random_range(0..2_usize);
            let emoji = ["", "", "👍", "❤️", "🎉"][random.random_range(0..5_usize)];
            let mut one = change((by, users.1), number, of as i64 + 1, react(emoji));
            one.conversation = of_group;
            batch.push(one);
            match emoji {
                "" => drop(expected[of].remove(&by)),
                _ => drop(expected[of].insert(by, emoji.to_owned())),
            }
        }
        write(&fixture, &[], &batch).await;
        assert_eq!(reactions(&fixture, of_group).await, expected, "{batch:?}");
    }
}
