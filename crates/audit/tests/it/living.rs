//! The audit of a system that does not stand still.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use audit::{Options, Sources};
use schemas::DeviceClass;

use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_on_meanwhile_is_no_difference() {
    let mut world = World::with_story().await;
    let sources = Sources {
        kafka: world.kafka.clone(),
        messages: world.sources.messages.clone(),
        unread: world.sources.unread.clone(),
    };
    let options = Options {
        pause: Duration::from_millis(20),
        ..Options::default()
    };
    let done = AtomicBool::new(false);
    let talk = async {
        let mut mid = 7;
        while !done.load(Ordering::Relaxed) {
            world.story.send(1001, 1000, "go on").await;
            world.story.send(40, 7, "go on").await;
            mid += 1;
            world.story.read(1000, 1001, DeviceClass::Pc, mid).await;
            world.catch_up().await;
        }
        mid
    };
    let look = async {
        for _ in 0..5 {
            let report = audit::run(&sources, &options, |_| {}).await.unwrap();
            assert_eq!(report.differences(), 0, "{report}");
        }
        done.store(true, Ordering::Relaxed);
    };
    let (mid, ()) = tokio::join!(talk, look);
    assert!(mid > 20, "it was quiet: {mid}");
    world.assert_sound().await;
}
