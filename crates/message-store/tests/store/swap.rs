//! Tables that take the place of live ones.

use std::{fs, path::Path, time::Duration};

use message_store::{Fence, MessageRow, ShadowState, Shadows, Shard, Sink, StoreError};
use schemas::{Change, LogPosition, Partition, PartitionMap, UserId};
use sqlx::AssertSqlSafe;

use crate::{
    changes::change,
    support::{Fixture, NOW, conversation, message, mids, resume, rows_of, step},
};

const LONG_WAIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Databases of its own, with live rows 1 to `live` and shadow rows 1 to `built` of one conversation.
struct Scene {
    fixture: Fixture,
    users: (UserId, UserId),
    n: Partition,
    shard: Shard,
    shadows: Shadows,
}

impl Scene {
    async fn new(live: i64, built: i64) -> Self {
        let fixture = Fixture::without_schema().await;
        fixture.store.apply_schema(NOW).await.unwrap();
        let users = fixture.users(5);
        let n = conversation(users).partition();
        let scene = Self {
            shard: fixture.shard(n),
            shadows: Shadows::of(fixture.store.layout(), Sink::Messages, Some(n.into())).remove(0),
            fixture,
            users,
            n,
        };
        scene.write(&scene.fixture.store, 0, live).await.unwrap();
        assert_eq!(scene.find().await, ShadowState::Absent);
        let store = &scene.fixture.store;
        store.create_shadows(&scene.shadows, NOW).await.unwrap();
        let shadow = store.shadow(Sink::Messages);
        scene.write(&shadow, 0, built).await.unwrap();
        scene
    }

    async fn find(&self) -> ShadowState {
        let Fixture { store, topic, .. } = &self.fixture;
        store.recover_shadows(&self.shadows, topic).await.unwrap()
    }

    /// Moves a table from offset `from` to `to`, with a row for each.
    async fn write(
        &self,
        store: &message_store::MessageStore,
        from: i64,
        to: i64,
    ) -> Result<(), StoreError> {
        let rows: Vec<MessageRow> = (from + 1..=to).map(|i| message(self.users, i)).collect();
        let at = |next| {
            if next == 0 {
                LogPosition::default()
            } else {
                resume(next)
            }
        };
        let moves = [step(self.n, at(from), at(to))];
        let topic = &self.fixture.topic;
        store
            .write_messages(self.shard, topic, &rows_of(&rows, &[]), &moves)
            .await
    }

    async fn fence(&self) -> Fence {
        let Fixture { store, topic, .. } = &self.fixture;
        Fence::acquire(store, &self.shadows, topic).await.unwrap()
    }

    fn built(&self, next: i64) -> PartitionMap<LogPosition> {
        [(self.n, resume(next))].into()
    }

    async fn seen(&self) -> Vec<i64> {
        let mut snapshot = self.fixture.store.snapshot(self.shard).await.unwrap();
        let conversation = conversation(self.users);
        let rows = snapshot
            .page_after(conversation, crate::support::mid(0), 100)
            .await;
        mids(&rows.unwrap())
    }

    async fn live(&self) -> LogPosition {
        self.fixture.resume(Sink::Messages, self.n).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_server_left_of_a_table_is_in_nobodys_way() {
    let scene = Scene::new(2, 1).await;
    let Scene { fixture, n, .. } = &scene;
    let store = &fixture.store;
    let mut admin = fixture.admin().await;
    let table = format!("{}.chat_msg_{n}_new", fixture.database(scene.shard));
    let flush = sqlx::raw_sql(AssertSqlSafe(format!("FLUSH TABLES {table}")));
    flush.execute(&mut admin).await.unwrap();
    let data_dir = sqlx::query_scalar("SELECT @@datadir");
    let data_dir: String = data_dir.fetch_one(&mut admin).await.unwrap();
    let files = Path::new(&data_dir).join(table.replace('.', "/"));
    if !files.with_extension("frm").exists() {
        eprintln!("not shown: the server keeps its files elsewhere, in a container");
        return;
    }
    for of_the_table in ["frm", "par"] {
        fs::remove_file(files.with_extension(of_the_table)).unwrap();
    }
    store.create_shadows(&scene.shadows, NOW).await.unwrap();
    let shadow = store.shadow(Sink::Messages);
    scene.write(&shadow, 1, 2).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_waits_behind_the_fence_and_finds_itself_moved() {
    let scene = Scene::new(2, 4).await;
    let mut fence = scene.fence().await;
    assert_eq!(fence.live_positions()[scene.n], resume(2));
    let (writing, held) = tokio::join!(scene.write(&scene.fixture.store, 2, 3), async {
        fence.wait_for_snapshots(LONG_WAIT_TIMEOUT).await.unwrap();
        fence.keep_alive().await.unwrap();
        assert_eq!(scene.seen().await, [1, 2]);
        fence.swap(&scene.built(4)).await.unwrap()
    });
    assert!(
        matches!(writing, Err(StoreError::Moved { .. })),
        "{writing:?}"
    );
    assert!(held < LONG_WAIT_TIMEOUT);
    assert_eq!(
        (scene.seen().await, scene.live().await),
        (vec![1, 2, 3, 4], resume(4))
    );
    scene.write(&scene.fixture.store, 4, 5).await.unwrap();
    scene
        .fixture
        .store
        .drop_replaced(&scene.shadows)
        .await
        .unwrap();
    assert_eq!(scene.find().await, ShadowState::Absent);
    assert_eq!(
        (scene.seen().await.len(), scene.live().await),
        (5, resume(5))
    );
}

/// It would see the new table as it was when the snapshot was opened: emptier than the old one.
#[tokio::test]
async fn snapshots_from_before_are_waited_for() {
    let scene = Scene::new(3, 1).await;
    let snapshot = scene.fixture.store.snapshot(scene.shard).await.unwrap();
    let shadow = scene.fixture.store.shadow(Sink::Messages);
    scene.write(&shadow, 1, 3).await.unwrap();
    let mut fence = scene.fence().await;
    let late = fence.wait_for_snapshots(Duration::from_millis(500)).await;
    assert!(late.unwrap_err().is_transient());
    drop(snapshot);
    fence.wait_for_snapshots(LONG_WAIT_TIMEOUT).await.unwrap();
    fence.swap(&scene.built(3)).await.unwrap();
    assert_eq!(scene.seen().await, [1, 2, 3]);
}

#[tokio::test]
async fn tables_of_an_older_schema_are_never_switched_in() {
    let scene = Scene::new(3, 3).await;
    let database = scene.fixture.database(scene.shard);
    let newer = format!("INSERT INTO {database}.schema_version (version, name) VALUES (99, 'x')");
    let mut admin = scene.fixture.admin().await;
    let noted = sqlx::raw_sql(AssertSqlSafe(newer))
        .execute(&mut admin)
        .await;
    noted.unwrap();
    let Fixture { store, topic, .. } = &scene.fixture;
    let refused = Fence::acquire(store, &scene.shadows, topic).await;
    let refused = refused.unwrap_err();
    assert!(matches!(refused, StoreError::Fatal(_)), "{refused}");
    assert!(
        refused.to_string().contains("schema version 99"),
        "{refused}"
    );
}

#[tokio::test]
async fn less_than_there_is_is_never_switched_in() {
    let scene = Scene::new(3, 2).await;
    let fence = scene.fence().await;
    let refused = fence.swap(&scene.built(2)).await;
    assert!(matches!(refused, Err(StoreError::Fatal(_))), "{refused:?}");
    assert_eq!(
        (scene.find().await, scene.seen().await.len()),
        (ShadowState::Unfinished, 3)
    );
}

/// A process that was stopped behind the fence until the server lifted it, and then renamed: the live table went on meanwhile, and
/// what it took in is not in the new one.
#[tokio::test]
async fn a_switch_without_its_end_is_settled_by_the_next_run() {
    let scene = Scene::new(5, 3).await;
    let mut admin = scene.fixture.admin().await;
    let kinds = [
        "chat_msg",
        "msg_change",
        "group_msg",
        "group",
        "group_member",
    ];
    let renames = kinds.map(|kind| {
        let live = scene.fixture.table(kind, scene.n);
        format!("{live} TO {live}_old, {live}_new TO {live}")
    });
    let rename = format!("RENAME TABLE {}", renames.join(", "));
    sqlx::raw_sql(AssertSqlSafe(rename))
        .execute(&mut admin)
        .await
        .unwrap();
    assert_eq!(scene.live().await, resume(5));

    assert_eq!(scene.find().await, ShadowState::Absent);
    assert_eq!(
        (scene.seen().await.len(), scene.live().await),
        (3, resume(3))
    );
    scene.write(&scene.fixture.store, 3, 6).await.unwrap();
    assert_eq!(scene.seen().await, [1, 2, 3, 4, 5, 6]);
}

/// What is swapped together is built together: an earlier version of this program made no shadow of `msg_change_<n>`.
#[tokio::test]
async fn shadow_tables_of_one_kind_only_are_dropped() {
    let scene = Scene::new(2, 1).await;
    assert_eq!(scene.find().await, ShadowState::Unfinished);
    let changes = scene.fixture.table("msg_change", scene.n);
    let drop = format!("DROP TABLE {changes}_new");
    sqlx::raw_sql(AssertSqlSafe(drop))
        .execute(&mut scene.fixture.admin().await)
        .await
        .unwrap();
    assert_eq!(scene.find().await, ShadowState::Absent);
}

#[tokio::test]
async fn the_tables_of_a_sink_are_swapped_together() {
    let scene = Scene::new(1, 1).await;
    let Fixture { store, topic, .. } = &scene.fixture;
    let shadow = store.shadow(Sink::Messages);
    let recall = |id| message_store::ChangeRow {
        id,
        ..change(scene.users, id, 1, Change::Recall)
    };
    for (store, id) in [(store, 2), (&shadow, 3)] {
        let moves = [step(scene.n, resume(1), resume(3))];
        let rows = rows_of(&[], &[recall(id)]);
        let write = store.write_messages(scene.shard, topic, &rows, &moves);
        write.await.unwrap();
    }
    scene.fence().await.swap(&scene.built(3)).await.unwrap();
    store.drop_replaced(&scene.shadows).await.unwrap();
    let mut snapshot = store.snapshot(scene.shard).await.unwrap();
    let found = snapshot.scan_changes(scene.n.into(), None, 10).await;
    let found: Vec<i64> = found.unwrap().iter().map(|row| row.id).collect();
    assert_eq!(found, [3]);
}
