//! Profiles: the one of the latest event holds.

use message_store::UserRows;
use schemas::{Profile, StoredProfile, TableNumber, TimestampMs, UserId};

use crate::support::{Fixture, NOW};

fn profile(uid: UserId, nick: &str, event_offset: i64) -> StoredProfile {
    let is_long = nick == "long";
    StoredProfile {
        profile: Profile {
            uid,
            nick: nick.to_owned(),
            avatar: (event_offset % 2 == 0).then(|| format!("https://a/{event_offset}.png")),
            extra: is_long.then(|| format!("{{\"a\":\"{}\"}}", "\u{1f30a}".repeat(1_000))),
        },
        ts: TimestampMs(NOW.0 + event_offset),
        event_offset,
    }
}

async fn write(fixture: &Fixture, profiles: &[StoredProfile]) {
    let shard = fixture.shard(TableNumber::of_user(profiles[0].profile.uid));
    let rows = UserRows {
        profiles: profiles.iter().collect(),
        ..UserRows::default()
    };
    let write = fixture
        .store
        .write_user_rows(shard, &fixture.topic, rows, &[]);
    write.await.unwrap();
}

async fn read(fixture: &Fixture, uids: &[UserId]) -> Vec<StoredProfile> {
    let shard = fixture.shard(TableNumber::of_user(uids[0]));
    let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
    snapshot.profiles(uids).await.unwrap()
}

#[tokio::test]
async fn a_row_changes_only_where_its_event_is_later() {
    let fixture = Fixture::shared().await;
    let (uid, _) = fixture.users(7);
    assert_eq!(read(&fixture, &[uid]).await, []);
    // Offset 0 is the first of a log.
    for at in [profile(uid, "first", 0), profile(uid, "long", 9)] {
        write(&fixture, std::slice::from_ref(&at)).await;
        assert_eq!(read(&fixture, &[uid]).await, [at]);
    }
    // The log is read again.
    for event_offset in [0, 4, 9] {
        write(&fixture, &[profile(uid, "again", event_offset)]).await;
        assert_eq!(read(&fixture, &[uid]).await, [profile(uid, "long", 9)]);
    }
    let last = profile(uid, "last", 11);
    write(&fixture, std::slice::from_ref(&last)).await;
    assert_eq!(read(&fixture, &[uid]).await, [last]);
}

#[tokio::test]
async fn profiles_of_several_tables_come_with_one_statement_and_page_by_page() {
    let fixture = Fixture::shared().await;
    let (first, _) = fixture.users(0);
    // Every second user of 16 tables, three times round.
    let uid = |i: i64| UserId::try_from(first.get() + i % 16 + 64 * (i / 16)).unwrap();
    let uids: Vec<UserId> = (0..48).map(uid).collect();
    let shard = fixture.shard(TableNumber::of_user(first));
    let in_shard = |uid: &UserId| fixture.shard(TableNumber::of_user(*uid)) == shard;
    let uids: Vec<UserId> = uids.into_iter().filter(in_shard).collect();
    let stored = uids.iter().step_by(2);
    let stored: Vec<StoredProfile> = stored.map(|uid| profile(*uid, "one", 3)).collect();
    write(&fixture, &stored).await;
    let mut found = read(&fixture, &uids).await;
    found.sort_by_key(|row| row.profile.uid);
    let mut expected = stored.clone();
    expected.sort_by_key(|row| row.profile.uid);
    assert_eq!(found, expected);

    let table = TableNumber::of_user(first);
    let in_table = |row: &&StoredProfile| TableNumber::of_user(row.profile.uid) == table;
    let wanted: Vec<StoredProfile> = expected.iter().filter(in_table).cloned().collect();
    let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
    let mut after = UserId::try_from(first.get() - 1).ok();
    for row in wanted {
        let page = snapshot.scan_profiles(table, after, 1).await.unwrap();
        after = Some(row.profile.uid);
        assert_eq!(page, [row]);
    }
}
