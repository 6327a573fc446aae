use std::{collections::BTreeMap, time::Duration};

use schemas::DeviceClass;
use tokio::time::Instant;
use unread_rebuild::UnreadRebuildError;
use unread_store::UnreadView;

use crate::test_env::{TestEnv, row, soon, users};

#[tokio::test(flavor = "multi_thread")]
async fn counts_come_from_the_rows_when_redis_is_away() {
    let mut env = TestEnv::new().await;
    let [alice, bob, carol] = users();
    env.append(alice, bob).await;
    env.redis.kill();

    let rebuilder = env.rebuilder();
    let hasty = Instant::now() + Duration::from_millis(200);
    assert_eq!(
        rebuilder.contact_counts(alice, hasty).await,
        Err(UnreadRebuildError::TimedOut)
    );
    let waiting = tokio::spawn({
        let rebuilder = rebuilder.clone();
        async move { rebuilder.contact_counts(alice, soon()).await }
    });
    env.contacts_catch_up(&[
        row(alice, bob, 3, Some(0), Some(3)),
        row(alice, carol, 2, None, Some(0)),
    ])
    .await;
    let counts = waiting.await.unwrap().unwrap();
    let pc = UnreadView::Complete {
        counts: BTreeMap::from([(bob, 3)]),
        unknown: vec![carol],
    };
    let mobile = UnreadView::Complete {
        counts: BTreeMap::from([(carol, 2)]),
        unknown: vec![],
    };
    assert_eq!(counts.unread(DeviceClass::Pc), pc);
    assert_eq!(counts.unread(DeviceClass::Mobile), mobile);

    let outcome = rebuilder.rebuild(&[alice], soon()).await;
    assert!(
        matches!(outcome, Err(UnreadRebuildError::Transient(_))),
        "{outcome:?}"
    );
}
