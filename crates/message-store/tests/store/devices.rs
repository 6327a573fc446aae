//! Devices: of two rows the one that was seen last holds, in whatever order they are written, and what was not seen for long goes.

use message_store::{DeviceRow, ShadowState, Shadows, Sink};
use schemas::{DeviceClass, DeviceId, TableNumber, TimestampMs, UserId};

use crate::support::{DAY_MS, Fixture, NOW};

fn device(uid: UserId, id: &str, token: &str, age_ms: i64) -> DeviceRow {
    DeviceRow {
        uid,
        device: DeviceId::try_from(id.to_owned()).unwrap(),
        class: DeviceClass::Mobile,
        name: format!("\u{1f30a} {token:.60}"),
        token: token.to_owned(),
        seen_at: TimestampMs(NOW.0 - age_ms),
    }
}

async fn write(fixture: &Fixture, devices: &[DeviceRow]) {
    let shard = fixture.shard(TableNumber::of_user(devices[0].uid));
    fixture.store.write_devices(shard, devices).await.unwrap();
}

async fn read(fixture: &Fixture, uid: UserId, limit: u32) -> Vec<DeviceRow> {
    let shard = fixture.shard(TableNumber::of_user(uid));
    let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
    snapshot.devices(uid, limit).await.unwrap()
}

#[tokio::test]
async fn a_write_that_is_not_later_changes_nothing() {
    let fixture = Fixture::shared().await;
    let (uid, other) = fixture.users(7);
    let first = device(uid, "phone-1", "first", 500);
    write(&fixture, std::slice::from_ref(&first)).await;
    for age_ms in [500, 501] {
        let mut late = device(uid, "phone-1", "late", age_ms);
        late.class = DeviceClass::Pc;
        write(&fixture, &[late]).await;
        assert_eq!(read(&fixture, uid, 9).await, std::slice::from_ref(&first));
    }
    let second = device(uid, "phone-1", "second", 499);
    let pc = device(uid, "PC.1", &"x".repeat(1_024), 200);
    write(&fixture, &[second.clone(), pc.clone()]).await;
    assert_eq!(read(&fixture, uid, 9).await, [pc.clone(), second]);
    assert_eq!(read(&fixture, uid, 1).await, [pc]);
    assert_eq!(read(&fixture, other, 9).await, []);
}

#[tokio::test]
async fn one_device_of_many_is_read() {
    let fixture = Fixture::shared().await;
    let (uid, other) = fixture.users(7);
    let rows: Vec<DeviceRow> = (0..200)
        .map(|n| device(uid, &format!("d{n}"), &format!("t{n}"), n))
        .collect();
    write(&fixture, &rows).await;
    let shard = fixture.shard(TableNumber::of_user(uid));
    let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
    let oldest = &rows[199];
    let found = snapshot.device(uid, &oldest.device).await.unwrap();
    assert_eq!(found.as_ref(), Some(oldest));
    let unknown = DeviceId::try_from("D199".to_owned()).unwrap();
    for (uid, id) in [(other, &oldest.device), (uid, &unknown)] {
        assert_eq!(snapshot.device(uid, id).await.unwrap(), None);
    }
}

#[tokio::test]
async fn what_was_not_seen_since_goes() {
    let fixture = Fixture::without_schema().await;
    fixture.store.apply_schema(NOW).await.unwrap();
    let mut kept = Vec::new();
    for n in 0..64 {
        let (uid, _) = fixture.users(n);
        let id = |i: usize| format!("d{i}");
        // One statement deletes a thousand.
        let old: Vec<DeviceRow> = (0..if n == 5 { 1_100 } else { 3 })
            .map(|i| device(uid, &id(i), "old", 30 * DAY_MS + 1))
            .collect();
        write(&fixture, &old).await;
        kept.push(device(uid, "kept", "kept", 30 * DAY_MS));
        write(&fixture, &kept[kept.len() - 1..]).await;
    }
    let time = TimestampMs(NOW.0 - 30 * DAY_MS);
    let deleted = fixture.store.delete_devices_unseen_since(time).await;
    assert_eq!(deleted.unwrap(), 1_100 + 63 * 3);
    for row in kept {
        assert_eq!(read(&fixture, row.uid, 99).await, [row]);
    }
}

#[tokio::test]
async fn of_many_devices_of_a_user_the_newest_stay() {
    let fixture = Fixture::without_schema().await;
    fixture.store.apply_schema(NOW).await.unwrap();
    for n in [7, 8] {
        let (many, few) = fixture.users(n);
        let of = |uid, count: i64| -> Vec<DeviceRow> {
            let rows = (0..count).map(|age| device(uid, &format!("d{age}"), "t", age));
            rows.collect()
        };
        let (of_many, of_few) = (of(many, 400), of(few, 100));
        write(&fixture, &of_many).await;
        write(&fixture, &of_few).await;
        let deleted = fixture.store.delete_devices_beyond(100).await;
        assert_eq!(deleted.unwrap(), 300);
        assert_eq!(read(&fixture, many, 999).await, of_many[..100]);
        assert_eq!(read(&fixture, few, 999).await, of_few);
    }
}

/// Shadow tables are those of sinks only: the other tables come with the new database.
#[tokio::test]
async fn a_database_that_a_rebuild_makes_takes_devices() {
    let fixture = Fixture::without_schema().await;
    let (uid, _) = fixture.users(7);
    for shadows in Shadows::of(fixture.store.layout(), Sink::Contacts, None) {
        let found = fixture.store.recover_shadows(&shadows, &fixture.topic);
        assert_eq!(found.await.unwrap(), ShadowState::LiveMissing);
    }
    let phone = device(uid, "phone-1", "token", 0);
    write(&fixture, std::slice::from_ref(&phone)).await;
    assert_eq!(read(&fixture, uid, 9).await, [phone]);
    let report = fixture.store.apply_schema(NOW).await.unwrap();
    assert_eq!(report.migrations, 0);
}
