use message_store::{ContactDelta, ContactRow, LastMessage, MessageState, PREVIEW_CHARS, ReadUpTo};
use proptest::{prelude::*, strategy::ValueTree as _, test_runner::TestRunner};
use schemas::{ChangeSeq, PerDevice, TableNumber, TimestampMs, UserId};

use crate::support::{Fixture, NOW, contacts, conversation, mid, ordinal, user};

async fn write(fixture: &Fixture, deltas: &[ContactDelta]) {
    let shard = fixture.shard(TableNumber::of_user(deltas[0].uid));
    fixture
        .store
        .write_user_rows(shard, &fixture.topic, contacts(deltas), &[])
        .await
        .unwrap();
}

/// In pages of two.
async fn contacts_of(fixture: &Fixture, uids: &[UserId]) -> Vec<ContactRow> {
    let mut uids = uids.to_vec();
    uids.sort_by_key(|uid| (TableNumber::of_user(*uid), *uid));
    let mut contacts = Vec::new();
    for uids in uids.chunk_by(|a, b| TableNumber::of_user(*a) == TableNumber::of_user(*b)) {
        let table = TableNumber::of_user(uids[0]);
        let snapshot = fixture.store.snapshot(fixture.shard(table));
        let mut snapshot = snapshot.await.unwrap();
        let mut after = None;
        loop {
            let page = snapshot.contacts_of(table, uids, after, 2).await.unwrap();
            let Some(ContactRow { contact, .. }) = page.last() else {
                break;
            };
            after = Some((contact.uid, contact.peer));
            contacts.extend(page);
        }
    }
    contacts.sort_by_key(|row| (row.contact.uid, row.contact.peer));
    contacts
}

fn last(number: i64, srcid: UserId) -> Option<LastMessage> {
    Some(LastMessage {
        mid: mid(number),
        ts: TimestampMs(NOW.0 + number),
        srcid,
        preview: format!("it's {number}\\"),
        change_seq: ChangeSeq::ZERO,
        state: MessageState::Shown,
    })
}

/// News as a log could tell it: what belongs to a mid is a function of the mid, but may be unknown.
fn any_delta(uid: UserId, peer: UserId) -> impl Strategy<Value = ContactDelta> {
    let read = || {
        (0..6_i64, any::<bool>()).prop_map(|(number, known)| ReadUpTo {
            mid: mid(number),
            ordinal: (known || number == 0).then(|| ordinal(number / 2)),
        })
    };
    let change = (0..4_i64, 0..20_i64, 0..4_i64, 0..4_i64, 0..4_i64);
    (0..8_i64, 0..5_i64, 0..5_i64, read(), read(), change).prop_map(
        move |(
            newest,
            peer_ordinal,
            own_ordinal,
            pc,
            mobile,
            (number, event_offset, deleted, cleared, hidden),
        )| {
            let change_seq = ChangeSeq::try_from(number).unwrap();
            ContactDelta {
                last: last(newest, peer)
                    .filter(|_| newest > 0)
                    .map(|last| LastMessage {
                        preview: format!("{} {number}", last.preview),
                        change_seq,
                        state: [MessageState::Shown, MessageState::Recalled]
                            [usize::from(number > 2)],
                        ..last
                    }),
                peer_ordinal: ordinal(peer_ordinal),
                own_ordinal: ordinal(own_ordinal),
                read: PerDevice { pc, mobile },
                change_seq,
                own_pos: event_offset.max(0),
                event_offset,
                deleted_mid: mid(deleted),
                clear_mid: mid(cleared),
                hidden: (1..=hidden).map(mid).collect(),
                ..ContactDelta::new(uid, peer)
            }
        },
    )
}

#[tokio::test]
async fn any_order_ends_at_the_maxima() {
    let fixture = Fixture::shared().await;
    let mut runner = TestRunner::deterministic();
    for _ in 0..25 {
        let (uid, peer) = fixture.users(9);
        let news = proptest::collection::vec(any_delta(uid, peer), 1..12);
        let news = news.new_tree(&mut runner).unwrap().current();
        let mut expected = ContactDelta::new(uid, peer);
        for delta in &news {
            expected.merge(delta.clone());
        }
        // Some as one statement, some one by one; then all again backwards.
        let (together, single) = news.split_at(news.len() / 2);
        if !together.is_empty() {
            write(&fixture, together).await;
        }
        for delta in single.iter().chain(news.iter().rev()) {
            write(&fixture, std::slice::from_ref(delta)).await;
        }
        let shard = fixture.shard(TableNumber::of_user(uid));
        let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
        let hidden = snapshot
            .hidden(uid, conversation((uid, peer)), mid(0)..=mid(9))
            .await
            .unwrap();
        assert_eq!(hidden, std::mem::take(&mut expected.hidden));
        let found = contacts_of(&fixture, &[uid]).await;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].contact, expected, "{news:#?}");
    }
}

#[tokio::test]
async fn a_later_message_brings_its_preview_and_an_earlier_one_nothing() {
    let fixture = Fixture::shared().await;
    let (uid, peer) = fixture.users(10);
    let mut delta = ContactDelta::new(uid, peer);
    for number in [2, 3, 1] {
        delta.last = last(number, peer);
        write(&fixture, std::slice::from_ref(&delta)).await;
    }
    assert_eq!(
        contacts_of(&fixture, &[uid]).await[0].contact.last,
        last(3, peer)
    );

    delta.last = last(4, uid);
    let exact = "\u{1f30a}".repeat(PREVIEW_CHARS);
    delta.last.as_mut().unwrap().preview.clone_from(&exact);
    write(&fixture, std::slice::from_ref(&delta)).await;
    let found = contacts_of(&fixture, &[uid])
        .await
        .remove(0)
        .contact
        .last
        .unwrap();
    assert_eq!((found.preview, found.srcid), (exact, uid));
}

#[tokio::test]
async fn what_was_not_known_of_a_position_is_filled_in_and_not_forgotten() {
    let fixture = Fixture::shared().await;
    let (uid, peer) = fixture.users(11);
    let position = async |number: i64, n: Option<i64>| {
        let mut delta = ContactDelta::new(uid, peer);
        delta.read.pc = ReadUpTo {
            mid: mid(number),
            ordinal: n.map(ordinal),
        };
        write(&fixture, &[delta]).await;
        let found = contacts_of(&fixture, &[uid]).await[0].contact.read.pc;
        (found.mid.get(), found.ordinal.map(schemas::Ordinal::get))
    };
    assert_eq!(position(5, Some(2)).await, (5, Some(2)));
    assert_eq!(position(7, None).await, (7, None));
    assert_eq!(position(5, Some(2)).await, (7, None));
    assert_eq!(position(7, Some(3)).await, (7, Some(3)));
    assert_eq!(position(7, None).await, (7, Some(3)));
    assert_eq!(position(0, Some(0)).await, (7, Some(3)));
}

#[tokio::test]
async fn the_list_is_paged_newest_first() {
    let fixture = Fixture::shared().await;
    let (uid, first_peer) = fixture.users(12);
    // Three share a time, and one has no message.
    let times = [5, 9, 5, 1, 5, 0];
    let deltas: Vec<ContactDelta> = times
        .iter()
        .zip(0..)
        .map(|(time, i)| {
            let peer = user(first_peer.get() + i);
            let mut delta = ContactDelta::new(uid, peer);
            delta.last = last(1, peer).filter(|_| *time > 0).map(|last| LastMessage {
                ts: TimestampMs(NOW.0 + time),
                ..last
            });
            delta
        })
        .collect();
    write(&fixture, &deltas).await;
    for limit in 1..=7 {
        let shard = fixture.shard(TableNumber::of_user(uid));
        let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
        let mut seen = Vec::new();
        let mut cursor = None;
        loop {
            let page = snapshot.contact_page(uid, cursor, limit).await.unwrap();
            let Some(end) = page.last() else { break };
            assert!(page.len() <= limit as usize);
            cursor = Some(end.cursor());
            seen.extend(
                page.iter()
                    .map(|row| row.contact.peer.get() - first_peer.get()),
            );
        }
        assert_eq!(seen, [1, 4, 2, 0, 3, 5], "limit {limit}");
    }
}

#[tokio::test]
async fn many_users_are_read_at_once_and_tables_scanned() {
    let fixture = Fixture::shared().await;
    let shard = fixture.store.layout().shards().next().unwrap();
    let (first, _) = fixture.users(0);
    // Two users in the same table and one in the next.
    let uids = [first, user(first.get() + 64), user(first.get() + 1)];
    let mut deltas = Vec::new();
    for uid in uids {
        for peer in [uid, user(7), user(i64::MAX)] {
            deltas.push(ContactDelta::new(uid, peer));
        }
    }
    fixture
        .store
        .write_user_rows(shard, &fixture.topic, contacts(&deltas), &[])
        .await
        .unwrap();
    deltas.sort_by_key(|delta| (delta.uid, delta.peer));
    let found: Vec<ContactDelta> = contacts_of(&fixture, &uids)
        .await
        .into_iter()
        .map(|row| row.contact)
        .collect();
    assert_eq!(found, deltas);

    let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
    let one = snapshot.contact(first, user(7)).await.unwrap().unwrap();
    assert_eq!(one.contact, ContactDelta::new(first, user(7)));
    assert!(snapshot.contact(first, user(8)).await.unwrap().is_none());

    let partition = TableNumber::of_user(first);
    let mut scanned = Vec::new();
    let mut after = None;
    loop {
        let rows = snapshot.scan_contacts(partition, after, 2).await.unwrap();
        let Some(end) = rows.last() else { break };
        after = Some((end.contact.uid, end.contact.peer));
        scanned.extend(rows.into_iter().map(|row| row.contact));
    }
    assert!(scanned.is_sorted_by_key(|contact| (contact.uid, contact.peer)));
    scanned.retain(|contact| uids.contains(&contact.uid));
    deltas.retain(|delta| TableNumber::of_user(delta.uid) == partition);
    assert_eq!(scanned, deltas);
}
