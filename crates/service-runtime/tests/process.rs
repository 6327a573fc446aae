//! A whole process: wired, listening, stopped by a real signal. One test only, since a signal reaches the whole test program.
// The lint lets tests unwrap, but does not see that the helpers beside them are tests, too.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use service_runtime::{
    BindError, ConfigSource, Process, Readiness, WorkerFailed, exit_code, run_service,
};
use tokio::sync::oneshot;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(20);

fn any_port() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

fn terminate_this_process() {
    let pid = std::process::id().to_string();
    let sent = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    assert!(sent.success());
}

async fn run(wire: impl AsyncFnOnce(&Process) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let running = run_service("test", "0.0.0", ConfigSource::default(), wire);
    timeout(PATIENCE, running).await.expect("the process ends")
}

#[tokio::test]
async fn a_process_serves_until_it_is_told_to_stop_or_a_worker_dies() {
    serves_until_a_signal().await;
    dies_with_its_worker().await;
    refuses_a_taken_port().await;
    stops_while_starting().await;
}

async fn serves_until_a_signal() {
    let (listening, listens) = oneshot::channel();
    let client = tokio::spawn(async move {
        let addr: SocketAddr = listens.await.unwrap();
        let hello = reqwest::get(format!("http://{addr}/hello")).await.unwrap();
        assert_eq!(hello.text().await.unwrap(), "hello");
        let nowhere = reqwest::get(format!("http://{addr}/nowhere"))
            .await
            .unwrap();
        assert_eq!(
            nowhere.headers()["content-type"],
            "application/problem+json"
        );
        wait_until_ready(addr).await;
        terminate_this_process();
    });
    let ended = run(async |process| {
        let api = Router::new().route("/hello", get(async || "hello"));
        let addr = process.listen("test.bind", any_port(), api).await?;
        listening.send(addr).unwrap();
        Ok(())
    });
    ended.await.unwrap();
    client.await.unwrap();
}

async fn wait_until_ready(addr: SocketAddr) {
    let url = format!("http://{addr}/readyz");
    loop {
        let readiness: Readiness = reqwest::get(&url).await.unwrap().json().await.unwrap();
        if readiness.ready {
            assert_eq!(readiness.checks[0].name, "process");
            return;
        }
    }
}

async fn dies_with_its_worker() {
    let error = run(async |process| {
        process
            .listen("test.bind", any_port(), Router::new())
            .await?;
        process
            .supervisor()
            .spawn("doomed", async { anyhow::bail!("no luck") });
        Ok(())
    });
    let error = error.await.unwrap_err();
    assert!(error.is::<WorkerFailed>());
    assert_eq!(error.to_string(), "worker doomed failed: no luck");
    assert_eq!(exit_code(&error), 1);
}

async fn refuses_a_taken_port() {
    let error = run(async |process| {
        let addr = process
            .listen("test.bind", any_port(), Router::new())
            .await?;
        process.listen("other.bind", addr, Router::new()).await?;
        Ok(())
    });
    let error = error.await.unwrap_err();
    assert!(error.is::<BindError>());
    assert_eq!(exit_code(&error), 3);
}

async fn stops_while_starting() {
    run(async |_process| {
        terminate_this_process();
        std::future::pending().await
    })
    .await
    .unwrap();
}
