use message_store::ReadRow;
use schemas::{Mid, PerDevice};

use crate::support::{Fixture, conversation, mid};

#[tokio::test]
async fn positions_only_rise_in_any_order() {
    let fixture = Fixture::shared().await;
    let users = fixture.users(8);
    let conversation = conversation(users);
    let shard = fixture.shard(conversation.partition());
    let row = |uid, pc, mobile| ReadRow {
        uid,
        conversation,
        mids: PerDevice {
            pc: mid(pc),
            mobile: mid(mobile),
        },
    };
    let write = async |rows: &[ReadRow]| {
        fixture
            .store
            .write_reads(shard, &fixture.topic, rows, &[])
            .await
            .unwrap();
    };
    write(&[row(users.0, 5, 0), row(users.1, 1, 1)]).await;
    write(&[row(users.0, 3, 7)]).await;
    write(&[row(users.0, 5, 7), row(users.0, 6, 2)]).await;

    let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
    let found = snapshot.read_mids(conversation, users.0).await.unwrap();
    assert_eq!((found.pc, found.mobile), (mid(6), mid(7)));
    let stranger = crate::support::user(i64::MAX - 5);
    assert_eq!(
        snapshot.read_mids(conversation, stranger).await.unwrap(),
        PerDevice::<Mid>::default()
    );

    let partition = conversation.partition();
    let mut mine = Vec::new();
    let mut after = 0;
    loop {
        let rows = snapshot
            .scan_reads(partition.into(), after, 1)
            .await
            .unwrap();
        let Some(last) = rows.last() else { break };
        assert!(last.id > after);
        after = last.id;
        mine.extend(
            rows.into_iter()
                .map(|stored| stored.row)
                .filter(|row| row.conversation == conversation),
        );
    }
    mine.sort_by_key(|row| row.uid);
    assert_eq!(mine, [row(users.0, 6, 7), row(users.1, 1, 1)]);
}
