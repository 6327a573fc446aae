//! Ways that use up places: of bodies, batches, connections and waiting calls.

use std::{iter, time::Duration};

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{interval, sleep, timeout},
};

use super::account::{Account, Stage};

/// How long an attacker keeps a connection, unless the service ends it.
const KEPT: Duration = Duration::from_secs(10);
/// How many calls of an account run at a time.
const AT_ONCE: usize = 16;
/// The pause between two calls, so that all together make 50 a second.
const PAUSE: Duration = Duration::from_millis(320);

/// Fails if an attack is refused for its content: such an attack costs nothing, and shows nothing.
fn expect_taken(status: u16) -> Result<()> {
    ensure!(
        ![400, 401, 403, 404, 415].contains(&status),
        "the attack is answered {status}"
    );
    Ok(())
}

/// Writes to a port, then waits until the service ends the connection or [`KEPT`] is over; repeats this.
async fn keep_saying(port: u16, text: String) -> Result<()> {
    loop {
        let saying = async {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
            stream.write_all(text.as_bytes()).await?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await?;
            std::io::Result::Ok(answer)
        };
        // However it ends, it begins again, but not faster than any client could.
        if let Ok(Ok(answer)) = timeout(KEPT, saying).await {
            let status = answer
                .strip_prefix(b"HTTP/1.1 ")
                .and_then(|rest| rest.get(..3));
            let status = status.and_then(|digits| str::from_utf8(digits).ok()?.parse().ok());
            status.map_or(Ok(()), expect_taken)?;
        }
        sleep(Duration::from_millis(50)).await;
    }
}

fn post(account: &Account, path: &str, headers: &str, begun: &str) -> String {
    let token = &account.token;
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n{headers}\r\n\r\n{begun}"
    )
}

async fn all(texts: impl Iterator<Item = (u16, String)>) -> Result<()> {
    let _: Vec<()> = try_join_all(texts.map(|(port, text)| keep_saying(port, text))).await?;
    Ok(())
}

pub(super) async fn bodies(stage: Stage, accounts: Vec<Account>) -> Result<()> {
    let headers = "content-type: application/json\r\ncontent-length: 262144";
    let texts = accounts.iter().cycle().take(126);
    all(texts.map(|account| (stage.ingest, post(account, "/v1/messages", headers, "{")))).await
}

pub(super) async fn batches(stage: Stage, accounts: Vec<Account>) -> Result<()> {
    let headers = "content-type: application/x-ndjson\r\ntransfer-encoding: chunked";
    let texts = accounts
        .iter()
        .flat_map(|account| iter::repeat_n(account, 8));
    all(texts.map(|account| (stage.ingest, post(account, "/v1/events", headers, "")))).await
}

pub(super) async fn silent_connections(stage: Stage) -> Result<()> {
    let ports = [stage.gateway, stage.query]
        .into_iter()
        .cycle()
        .take(4_300 * 2);
    all(ports.map(|port| (port, String::new()))).await
}

/// Makes several calls of an account at once, and repeats them when they are answered, as often as `auth.user_limits` allows.
pub(super) async fn call_at_once(account: &Account, port: u16, path: &str) -> Result<()> {
    let call = async || {
        loop {
            if let Ok((status, _)) = account.get_at(port, path).await {
                expect_taken(status)?;
            }
            sleep(PAUSE).await;
        }
    };
    let ended: Result<Vec<()>> = try_join_all((0..AT_ONCE).map(|_| call())).await;
    ended.map(drop)
}

pub(super) async fn waits(stage: Stage, accounts: Vec<Account>) -> Result<()> {
    let calls = accounts.iter().map(async |account| {
        let path = format!(
            "/v1/users/{}/unread?device=pc&after=0:999999999999&timeout_ms=20000",
            account.uid
        );
        call_at_once(account, stage.query, &path).await
    });
    try_join_all(calls).await?;
    Ok(())
}

/// Each call is abandoned before its answer comes.
pub(super) async fn presence(stage: Stage, accounts: Vec<Account>) -> Result<()> {
    let uids: Vec<String> = (1..=100).map(|uid: u32| uid.to_string()).collect();
    let path = format!("/v1/presence?uid={}", uids.join(","));
    let calls = accounts.iter().map(async |account| {
        let (status, answer) = account.get_at(stage.gateway, &path).await?;
        ensure!(status == 200, "{status}: {answer}");
        let mut tick = interval(Duration::from_millis(20));
        loop {
            tick.tick().await;
            let called = account.get_at(stage.gateway, &path);
            let _ = timeout(Duration::from_millis(5), called).await;
        }
    });
    let ended: Result<Vec<()>> = try_join_all(calls).await;
    ended.map(drop)
}
