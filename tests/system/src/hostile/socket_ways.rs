//! Ways over the gateway's sockets.

use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::{SinkExt as _, StreamExt as _, future::try_join_all};
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::sleep};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{ClientRequestBuilder, Message},
};

use super::{
    account::{Account, Stage},
    log_ways::groups_of,
};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// How many groups each of the accounts makes, with both as members: what its rate lets it make at once.
const GROUPS: usize = 150;
/// What a user may connect at a gateway.
const CONNECTIONS: usize = 8;
/// After a connection that the gateway did not take.
const PAUSE: Duration = Duration::from_millis(100);

/// Says hello as a device, as soon as the gateway takes the connection.
async fn say_hello(stage: &Stage, account: &Account, device: &str) -> Socket {
    loop {
        let greeted = async {
            let mut socket = connect(stage, account).await?;
            socket.send(hello(device)).await?;
            anyhow::Ok(socket)
        };
        match greeted.await {
            Ok(socket) => return socket,
            Err(_) => sleep(PAUSE).await,
        }
    }
}

async fn connect(stage: &Stage, account: &Account) -> Result<Socket> {
    let uri = format!("ws://127.0.0.1:{}/v1/connect", stage.gateway).parse()?;
    let request = ClientRequestBuilder::new(uri)
        .with_sub_protocol("tidemark.v1.json")
        .with_header("authorization", format!("Bearer {}", account.token));
    Ok(connect_async(request).await?.0)
}

fn frame(frame: &Value) -> Message {
    Message::text(frame.to_string())
}

fn hello(device: &str) -> Message {
    let device = json!({ "id": device, "class": "pc" });
    frame(&json!({ "type": "hello", "device": device, "since": null }))
}

/// Says hello, then resumes with what a sync returned as long as the gateway lets it; and begins again.
async fn resume(stage: &Stage, account: &Account, device: &str) -> Result<()> {
    let path = format!("/v1/users/{}/sync", account.uid);
    let (status, sync) = account.get(&path).await?;
    let token = sync["next"].as_str();
    let token = token.with_context(|| format!("a sync is answered {status}: {sync}"))?;
    loop {
        let mut socket = say_hello(stage, account, device).await;
        while let Some(Ok(said)) = socket.next().await {
            let said: Value = serde_json::from_slice(&said.into_data()).unwrap_or_default();
            let resume = json!({ "type": "resume", "since": token });
            if said["type"] != "ping" && socket.send(frame(&resume)).await.is_err() {
                break;
            }
        }
    }
}

pub(super) async fn resumes(stage: Stage, accounts: Vec<Account>) -> Result<()> {
    let uids: Vec<i64> = accounts.iter().map(|account| account.uid).collect();
    try_join_all(
        accounts
            .iter()
            .map(|account| groups_of(account, GROUPS, &uids)),
    )
    .await?;
    let attacks = accounts.iter().flat_map(|account| {
        let stage = &stage;
        (0..CONNECTIONS)
            .map(async move |number| resume(stage, account, &format!("device-{number}")).await)
    });
    try_join_all(attacks).await?;
    Ok(())
}

pub(super) async fn devices(stage: Stage, accounts: Vec<Account>) -> Result<()> {
    let account = accounts.first().context("an account connects")?;
    for number in 0_u64.. {
        let mut socket = say_hello(&stage, account, &format!("{number}")).await;
        // The answer is awaited, so that the device is one that the gateway knows.
        let _ = socket.next().await;
    }
    Ok(())
}
