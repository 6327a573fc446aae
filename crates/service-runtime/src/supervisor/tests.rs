use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{anyhow, bail};
use tokio::sync::Notify;

use super::*;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(50);

/// A worker that stops when asked to.
async fn polite(shutdown: Shutdown) -> anyhow::Result<()> {
    shutdown.soft().cancelled().await;
    Ok(())
}

/// A supervisor with one polite worker, so that a stop has something to wait for.
fn supervisor(deadline: Duration) -> Supervisor {
    let supervisor = Supervisor::new("test", deadline);
    supervisor.spawn("polite", polite(supervisor.shutdown()));
    supervisor
}

async fn never() {
    pending::<()>().await;
}

#[tokio::test]
async fn a_stop_waits_for_tasks_and_threads() {
    let supervisor = supervisor(LONG);
    let finished = Arc::new(AtomicBool::new(false));
    let (shutdown, flag) = (supervisor.shutdown(), finished.clone());
    let handle = tokio::runtime::Handle::current();
    supervisor
        .spawn_thread("poller", move || {
            handle.block_on(shutdown.soft().cancelled());
            flag.store(true, Ordering::SeqCst);
            Ok(())
        })
        .unwrap();
    let mut stops = 0;
    supervisor
        .run(async || {
            stops += 1;
            if stops > 1 {
                never().await;
            }
        })
        .await
        .unwrap();
    assert!(finished.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_worker_that_fails_stops_the_others() {
    let supervisor = supervisor(LONG);
    supervisor.spawn("writer", async {
        Err(anyhow!("disk full").context("cannot write"))
    });
    let failed = supervisor.run(never).await.unwrap_err();
    assert_eq!(
        failed.to_string(),
        "worker writer failed: cannot write: disk full"
    );
}

#[tokio::test]
async fn a_worker_that_just_ends_is_a_failure() {
    let supervisor = supervisor(LONG);
    supervisor.spawn("reader", async { Ok(()) });
    let failed = supervisor.run(never).await.unwrap_err();
    assert!(matches!(failed, WorkerFailed::Ended { worker } if worker == "reader"));
}

#[tokio::test]
async fn a_panic_is_a_failure_in_a_task_and_in_a_thread() {
    let in_task = supervisor(LONG);
    in_task.spawn("task", async { panic!("lost {}", "it") });
    let failed = in_task.run(never).await.unwrap_err();
    assert_eq!(failed.to_string(), "worker task panicked: lost it");

    let in_thread = supervisor(LONG);
    in_thread
        .spawn_thread("thread", || panic!("lost it"))
        .unwrap();
    let failed = in_thread.run(never).await.unwrap_err();
    assert_eq!(failed.to_string(), "worker thread panicked: lost it");
}

#[tokio::test]
async fn a_failure_while_stopping_counts() {
    let supervisor = supervisor(LONG);
    let shutdown = supervisor.shutdown();
    supervisor.spawn("flusher", async move {
        shutdown.soft().cancelled().await;
        bail!("cannot flush")
    });
    supervisor.shutdown().begin();
    let failed = supervisor.run(never).await.unwrap_err();
    assert_eq!(failed.to_string(), "worker flusher failed: cannot flush");
}

#[tokio::test]
async fn at_the_deadline_the_hard_stage_begins() {
    let supervisor = supervisor(SHORT);
    let shutdown = supervisor.shutdown();
    supervisor.spawn("slow", async move {
        shutdown.hard().cancelled().await;
        Ok(())
    });
    supervisor.shutdown().begin();
    let start = Instant::now();
    supervisor.run(never).await.unwrap();
    assert!(start.elapsed() >= SHORT);
}

#[tokio::test]
async fn what_ignores_both_stages_is_named_and_left_behind() {
    let supervisor = supervisor(SHORT);
    supervisor.spawn("deaf", pending());
    supervisor.shutdown().begin();
    let failed = supervisor.run(never).await.unwrap_err();
    assert!(matches!(failed, WorkerFailed::Stuck { workers, .. } if workers == ["deaf"]));
}

#[tokio::test]
async fn a_second_stop_ends_the_wait() {
    let supervisor = supervisor(LONG);
    let shutdown = supervisor.shutdown();
    supervisor.spawn("slow", pending());
    let stop = Notify::new();
    stop.notify_one();
    let again = async {
        shutdown.soft().cancelled().await;
        stop.notify_one();
        pending::<()>().await;
    };
    let failed = tokio::select! {
        ended = supervisor.run(async || stop.notified().await) => ended.unwrap_err(),
        () = again => unreachable!(),
    };
    assert!(
        matches!(failed, WorkerFailed::Aborted { workers } if workers.contains(&"slow".to_owned()))
    );
    assert!(shutdown.hard().is_cancelled());
}

#[tokio::test]
async fn a_supervisor_may_run_as_a_task() {
    let supervisor = supervisor(LONG);
    let shutdown = supervisor.shutdown();
    let running = tokio::spawn(supervisor.run(never));
    shutdown.begin();
    running.await.unwrap().unwrap();
}
