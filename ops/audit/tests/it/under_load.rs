//! The audit of a system that is running.

use std::{
    sync::atomic::{AtomicBool, AtomicI64, Ordering},
    time::Duration,
};

use audit::{Options, Sources};
use schemas::{Change, ContactFlags, DeviceClass};

use crate::test_env::TestEnv;

/// Changes the newest message and an earlier one.
async fn change_what_was_said(env: &mut TestEnv, mid: i64) {
    let edit = |msg: &str| Change::Edit(msg.to_owned());
    let story = &mut env.story;
    story.change(1001, 1000, mid, edit("go on, please")).await;
    story.change(1001, 1000, mid, Change::Recall).await;
    story.change(1000, 1001, 8, edit(&mid.to_string())).await;
    story.change(1000, 1001, mid, Change::Hide).await;
    story.contact(7, 40, None).await;
    for _ in 0..2 {
        let toggle = |flags: &mut ContactFlags| flags.muted = !flags.muted;
        story.contact(1000, 1001, Some(toggle)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_on_meanwhile_is_no_difference() {
    let mut env = TestEnv::with_changes().await;
    let sources = Sources {
        kafka: env.kafka.clone(),
        messages: env.sources.messages.clone(),
        unread: env.sources.unread.clone(),
    };
    let options = Options {
        pause: Duration::from_millis(20),
        ..Options::default()
    };
    let (done, said) = (AtomicBool::new(false), AtomicI64::new(8));
    let talk = async {
        while !done.load(Ordering::Relaxed) {
            env.story.send(1001, 1000, "go on").await;
            env.story.send(40, 7, "go on").await;
            let mid = said.fetch_add(1, Ordering::Relaxed) + 1;
            env.story.read(1000, 1001, DeviceClass::Pc, mid).await;
            change_what_was_said(&mut env, mid).await;
            env.catch_up().await;
        }
    };
    let look = async {
        let mut audits = 0;
        // Several audits, with enough traffic meanwhile, however fast this machine does either.
        while audits < 5 || said.load(Ordering::Relaxed) <= 20 {
            audits += 1;
            let report = audit::run(&sources, &options, |_| {}).await.unwrap();
            assert_eq!(report.differences(), 0, "{report}");
        }
        done.store(true, Ordering::Relaxed);
    };
    tokio::join!(talk, look);
    env.assert_sound().await;
}
