//! Ways through the gateway's sockets.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use client::device::{Device, Update};
use futures::{
    SinkExt as _, StreamExt as _,
    future::{try_join, try_join_all},
};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{ClientRequestBuilder, Message},
};

use super::{
    account::{Account, Stage},
    log_ways::{change_members, group_of, groups_of, write_to_group},
};
use crate::{TestEnv, new_users};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// How many groups each of the accounts makes, with both as members: as many as its rate allows at once.
const GROUPS: usize = 150;
/// How many connections a user may have at a gateway.
const CONNECTIONS: usize = 8;
/// The pause after a connection that the gateway did not take.
const PAUSE: Duration = Duration::from_millis(100);
/// How many devices say hello at a time while MySQL is silent.
const STRANGERS: usize = 16;
/// Two seconds (PROTOCOL W3), and some more on a busy machine.
const HELLO_ANSWERED: Duration = Duration::from_secs(3);
/// How many devices are connected when a gateway is killed.
const MEMBERS: usize = 100;
/// At most one in this many returning devices has to sync.
const ONE_IN: usize = 10;

/// Says hello as a device, as soon as the gateway takes the connection.
async fn say_hello(stage: &Stage, account: &Account, device: &str) -> Socket {
    loop {
        let greeted = async {
            let mut socket = connect(stage, account).await?;
            socket.send(hello(device, None)).await?;
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

fn hello(device: &str, since: Option<&str>) -> Message {
    let device = json!({ "id": device, "class": "pc" });
    frame(&json!({ "type": "hello", "device": device, "since": since }))
}

/// The token of a user who has just synced.
async fn token(account: &Account) -> Result<String> {
    let path = format!("/v1/users/{}/sync", account.uid);
    let (status, sync) = account.get(&path).await?;
    let token = sync["next"].as_str().map(str::to_owned);
    token.with_context(|| format!("a sync is answered {status}: {sync}"))
}

/// Says hello, then resumes with the token of a sync as long as the gateway allows it; then begins again.
async fn resume(stage: &Stage, account: &Account, device: &str) -> Result<()> {
    let token = token(account).await?;
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
        // The answer is awaited, so that the gateway knows the device.
        if let Some(Ok(Message::Text(answer))) = socket.next().await {
            let answer: Value = serde_json::from_str(&answer)?;
            let is_known = ["welcome", "sync_required"]
                .map(Value::from)
                .contains(&answer["type"]);
            ensure!(is_known, "{answer}");
        }
    }
    Ok(())
}

/// A device of an account that is connected and receives events.
async fn connected(account: &Account) -> Result<Device> {
    let mut device = account.device("member")?;
    while device.next().await? != Update::Connected {}
    Ok(device)
}

async fn all_connected(accounts: &[Account]) -> Result<Vec<Device>> {
    try_join_all(accounts.iter().map(connected)).await
}

/// Fails if the device loses its stream because of events in its groups.
async fn stays(mut device: Device) -> Result<()> {
    loop {
        match device.next().await? {
            Update::Disconnected(why) => bail!("a member was closed: {why}"),
            Update::Synced => bail!("a member had to sync"),
            _ => {}
        }
    }
}

pub(super) async fn group_changes(_: Stage, accounts: Vec<Account>) -> Result<()> {
    let (account, members) = accounts.split_first().context("an account has a group")?;
    let uids: Vec<i64> = members.iter().map(|member| member.uid).collect();
    let gid = group_of(account, "changes", &uids).await?;
    let devices = all_connected(members).await?;
    let staying = try_join_all(devices.into_iter().map(stays));
    let named: [i64; 100] = new_users();
    let changing = change_members(account, &gid, &named, true);
    try_join(staying, changing).await?;
    Ok(())
}

/// Devices of users whom the gateway does not know say hello, one after the other, and are answered in time.
async fn strangers(stage: &Stage, since: &str) -> Result<()> {
    loop {
        let account = Account::new(stage)?;
        let mut socket = connect(stage, &account).await?;
        socket.send(hello("stranger", Some(since))).await?;
        let answer = timeout(HELLO_ANSWERED, socket.next()).await;
        let answer = answer.context("a hello is not answered while MySQL is silent")?;
        let answer = answer.context("a hello ends the connection")??;
        let answer: Value = serde_json::from_slice(&answer.into_data())?;
        ensure!(answer["type"] == "sync_required", "{answer}");
    }
}

pub(super) async fn hello_without_mysql(
    env: &TestEnv,
    stage: Stage,
    length: Duration,
) -> Result<()> {
    let since = token(&Account::new(&stage)?).await?;
    env.signal("mariadb", Signal::STOP)?;
    let all = try_join_all((0..STRANGERS).map(|_| strangers(&stage, &since)));
    let failed = timeout(length, all).await;
    env.signal("mariadb", Signal::CONT)?;
    failed.map_or(Ok(()), |failed| failed.map(drop))
}

/// Waits until a device has come back. Returns whether it had to sync.
async fn syncs_afterwards(mut device: Device) -> Result<bool> {
    let (mut is_gone, mut has_synced) = (false, false);
    loop {
        match device.next().await? {
            Update::Disconnected(_) => is_gone = true,
            Update::Synced => has_synced = true,
            Update::Connected if is_gone => return Ok(has_synced),
            _ => {}
        }
    }
}

pub(super) async fn gateway_restart(env: &TestEnv, stage: Stage, length: Duration) -> Result<()> {
    let members = (0..MEMBERS).map(|_| Account::new(&stage));
    let members = members.collect::<Result<Vec<_>>>()?;
    let uids: Vec<i64> = members.iter().map(|member| member.uid).collect();
    let writer = &members[0];
    let gid = group_of(writer, "busy", &uids[1..]).await?;
    let devices = all_connected(&members).await?;
    let restart = async {
        sleep(length / 4).await;
        env.end("gateway", Signal::KILL).await?;
        env.start_services(&["gateway"]).await
    };
    let coming_back = async {
        let all = try_join_all(devices.into_iter().map(syncs_afterwards));
        timeout(length, all)
            .await
            .context("not all devices come back")?
    };
    let ((), back) = tokio::select! {
        all = try_join(restart, coming_back) => all?,
        written = write_to_group(writer, &gid) => bail!("nothing is written any more: {written:?}"),
    };
    let synced = back.into_iter().filter(|synced| *synced).count();
    println!("  {synced} of {MEMBERS} devices synced after the restart");
    ensure!(
        synced * ONE_IN <= MEMBERS,
        "{synced} of {MEMBERS} had to sync"
    );
    Ok(())
}
