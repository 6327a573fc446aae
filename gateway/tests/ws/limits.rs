//! Devices that do what they must not: each has a code and a reason.

use std::time::Duration;

use futures::StreamExt as _;
use gateway::{Config, GatewayConfig};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::tungstenite::{
    Message,
    http::HeaderValue,
    protocol::frame::{
        Frame,
        coding::{Data, OpCode},
    },
};

use crate::{
    deployment::{Deployment, PATIENCE, group_message, member, message, token},
    device::Device,
    gateway::Gateway,
    upgrade::refused,
};

/// Between some messages and the next.
const PACE: Duration = Duration::from_millis(50);

async fn gateway(change: impl FnOnce(&mut GatewayConfig)) -> Gateway {
    Gateway::start_with(|config: &mut Config| change(&mut config.gateway)).await
}

async fn stream(gateway: &Gateway) -> Device {
    let [me, _] = Deployment::users(30);
    gateway.stream(me, "a", &token(30, 0)).await
}

/// Sends without end, until the gateway closes.
async fn flood(device: &mut Device, message: Message) -> u16 {
    for _ in 0..1_000 {
        // It may have closed already.
        if device.send_raw(message.clone()).await.is_err() {
            break;
        }
    }
    device.closed().await.0
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_frame_is_answered_and_the_eleventh_ends_the_connection() {
    let gateway = gateway(|_| ()).await;
    let mut device = stream(&gateway).await;
    for text in [
        "",
        "no json",
        "[1]",
        "{}",
        r#"{"type":"dance"}"#,
        r#"{"type":"hello"}"#,
    ] {
        device.send_raw(Message::text(text)).await.unwrap();
        let answer = device.content().await;
        assert_eq!(answer["type"], "error", "{text}: {answer}");
        assert!(!answer["detail"].as_str().unwrap().is_empty());
    }
    assert_eq!(flood(&mut device, Message::text("no json")).await, 4100);
    assert!(
        device.reason.contains("the frame is not valid JSON"),
        "{}",
        device.reason
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_binary_frame_and_one_that_is_too_large_end_the_connection() {
    let gateway = gateway(|_| ()).await;
    let mut device = stream(&gateway).await;
    device.send_raw(Message::binary("{}")).await.unwrap();
    assert_eq!(device.closed().await.0, 4104);
    let mut device = stream(&gateway).await;
    let large = Message::text("x".repeat(10_000_000));
    // It is not taken as a whole.
    let _ = device.send_raw(large).await;
    assert_eq!(device.closed().await.0, 4103);
    assert!(
        device.reason.ends_with("the limit is 262144 bytes"),
        "{}",
        device.reason
    );
    let mut device = stream(&gateway).await;
    let no_utf8 = Frame::message(vec![0xff], OpCode::Data(Data::Text), true);
    device.send_raw(Message::Frame(no_utf8)).await.unwrap();
    assert_eq!(device.closed().await.0, 4100);
    assert!(device.reason.contains("UTF-8"), "{}", device.reason);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_breaks_the_rules_of_websocket_ends_the_connection() {
    let gateway = gateway(|_| ()).await;
    let [me, _] = Deployment::users(30);
    let mut reserved = Frame::message("{}", OpCode::Data(Data::Text), true);
    reserved.header_mut().rsv1 = true;
    let rest = Frame::message("{}", OpCode::Data(Data::Continue), true);
    let unknown = Frame::message("{}", OpCode::Data(Data::Reserved(3)), true);
    let ping = Frame::ping(vec![0; 126]);
    for frame in [reserved, rest, unknown, ping] {
        for mut device in [gateway.connect(me).await, stream(&gateway).await] {
            device
                .send_raw(Message::Frame(frame.clone()))
                .await
                .unwrap();
            assert_eq!(device.closed().await.0, 1002, "{frame}");
            assert!(
                device.reason.starts_with("protocol error: "),
                "{}",
                device.reason
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_frame_is_hello_and_comes_in_time() {
    let gateway = gateway(|config| config.answer_seconds = 1).await;
    let [me, _] = Deployment::users(31);
    let hello =
        |id: &str| json!({"type": "hello", "device": {"id": id, "class": "pc"}}).to_string();
    for (message, code) in [
        (Some(Message::text(r#"{"type":"pong"}"#)), 4100),
        (Some(Message::text("no json")), 4100),
        (Some(Message::text(hello("a b"))), 4100),
        (Some(Message::binary("x")), 4104),
        (None, 4002),
    ] {
        let mut device = gateway.connect(me).await;
        if let Some(message) = message.clone() {
            device.send_raw(message).await.unwrap();
        }
        assert_eq!(device.closed().await.0, code, "{message:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_answer_a_ping_is_gone_with_a_stream_and_without() {
    let gateway = gateway(|config| (config.ping_seconds, config.answer_seconds) = (1, 1)).await;
    let mut device = stream(&gateway).await;
    let (code, frames) = device.closed().await;
    assert_eq!((code, &frames[0]["type"]), (4002, &json!("ping")));
    assert!(frames[0]["token"].is_string());
    let [me, _] = Deployment::users(32);
    let mut device = gateway.connect(me).await;
    device.hello("a", Some(None)).await;
    let (code, frames) = device.closed().await;
    assert_eq!((code, &frames[1]), (4002, &json!({"type": "ping"})));
    // Who answers stays.
    let mut device = stream(&gateway).await;
    for _ in 0..3 {
        assert_eq!(device.frame().await["type"], "ping");
        device.send(&json!({"type": "pong"})).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_to_sync_and_does_not_resume_comes_back_later() {
    let gateway = gateway(|config| (config.ping_seconds, config.answer_seconds) = (1, 1)).await;
    let [me, _] = Deployment::users(35);
    let mut device = gateway.connect(me).await;
    device.hello("a", Some(None)).await;
    let begun = Instant::now();
    let close = loop {
        match device.next().await {
            Ok(Message::Close(Some(close))) => break close,
            Ok(Message::Text(_)) => assert!(begun.elapsed() < PATIENCE, "it stays"),
            other => panic!("no close but {other:?}"),
        }
        // The gateway may have closed already.
        let _ = device.send_raw(Message::text(r#"{"type":"pong"}"#)).await;
    };
    assert_eq!(u16::from(close.code), 4002);
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_and_bytes_of_a_user_and_of_all_are_limited() {
    let pong = || Message::text(r#"{"type":"pong"}"#);
    let of_user = gateway(|config| config.user_frames_per_s = 1).await;
    assert_eq!(flood(&mut stream(&of_user).await, pong()).await, 4003);
    // Also frames of WebSocket itself, and what comes before the hello.
    let ping = Message::Ping("x".into());
    assert_eq!(flood(&mut stream(&of_user).await, ping.clone()).await, 4003);
    let [me, _] = Deployment::users(30);
    assert_eq!(flood(&mut of_user.connect(me).await, ping).await, 4003);
    let of_all = gateway(|config| config.frames_per_s = 1).await;
    assert_eq!(flood(&mut stream(&of_all).await, pong()).await, 4004);
    let long = || Message::text(format!(r#"{{"type":"pong"{}}}"#, " ".repeat(5_000)));
    let of_user = gateway(|config| config.user_bytes_per_s = 1_024).await;
    assert_eq!(flood(&mut stream(&of_user).await, long()).await, 4003);
    let of_all = gateway(|config| config.bytes_per_s = 1_024).await;
    assert_eq!(flood(&mut stream(&of_all).await, long()).await, 4004);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_never_reads_is_closed() {
    let gateway = gateway(|config| {
        (config.answer_seconds, config.ping_seconds) = (1, 600);
        config.queue_bytes = 1 << 18;
        config.max_connections = 1;
    })
    .await;
    let log = gateway.deployment;
    let [me, other] = Deployment::users(33);
    let gid = 33 + 64 * me.get();
    let mut device = gateway.stream(me, "a", &token(33, 0)).await;
    log.emit(member(gid, me, true)).await;
    let text = "x".repeat(60_000);
    let deadline = Instant::now() + PATIENCE;
    for mid in 1.. {
        log.emit(group_message(gid, other, &text, mid)).await;
        if Device::connect(gateway.request(me)).await.is_ok() {
            break;
        }
        assert!(Instant::now() < deadline, "it is not closed");
        // More than the queue takes would become heads, which fit into what the kernel keeps.
        sleep(PACE).await;
    }
    log.emit(message([other, me], "end", 1)).await;
    let reading = async {
        while let Some(Ok(Message::Text(text))) = device.socket.next().await {
            assert!(!text.contains("\"end\""), "it goes on");
        }
    };
    // What was on its way arrives, and nothing behind it.
    timeout(PATIENCE, reading).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_counted_and_pages_of_other_sites_refused() {
    let gateway = gateway(|config| config.max_connections = 1).await;
    let [me, _] = Deployment::users(34);
    let mut page = gateway.request(me);
    let site = HeaderValue::from_static("http://elsewhere.example");
    page.headers_mut().insert("origin", site);
    let (problem, _) = refused(page).await;
    assert_eq!(problem.status, 403);
    assert!(problem.detail.starts_with("Origin is "), "{problem}");
    let device = gateway.stream(me, "a", &token(34, 0)).await;
    assert_eq!(refused(gateway.request(me)).await.0.status, 503);
    drop(device);
    let deadline = Instant::now() + PATIENCE;
    while Device::connect(gateway.request(me)).await.is_err() {
        assert!(Instant::now() < deadline, "its place is not free");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resume_before_its_time_is_told_the_rest_of_the_pause_and_then_closed() {
    let gateway = gateway(|_| ()).await;
    let [me, _] = Deployment::users(37);
    let mut device = gateway.connect(me).await;
    device.hello("a", Some(None)).await;
    device.must_sync().await;
    // It is ahead of the log, so the device has to sync again, and with a pause.
    let resume = json!({"type": "resume", "since": token(37, 1 << 40)});
    let mut pauses = Vec::new();
    for _ in 0..4 {
        device.send(&resume).await;
        pauses.push(device.frame().await["after_ms"].as_u64().unwrap());
    }
    assert!(
        pauses[0] >= 500 && pauses.is_sorted_by(|a, b| a >= b),
        "{pauses:?}"
    );
    device.send(&resume).await;
    assert_eq!(device.closed().await.0, 4003);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_frame_that_is_too_large_is_told_so() {
    let gateway = gateway(|_| ()).await;
    let [me, _] = Deployment::users(38);
    for _ in 0..5 {
        let mut device = gateway.connect(me).await;
        let _ = device.send_raw(Message::text("x".repeat(300_000))).await;
        assert_eq!(device.closed().await.0, 4103);
    }
}

/// Also those of connections that begin again and again.
#[tokio::test(flavor = "multi_thread")]
async fn hellos_of_a_user_are_limited() {
    let gateway = gateway(|config| config.user_frames_per_s = 1).await;
    let [me, _] = Deployment::users(39);
    for _ in 0..2 {
        gateway.stream(me, "a", &token(39, 0)).await;
    }
    let mut device = gateway.connect(me).await;
    device.hello("a", Some(Some(&token(39, 0)))).await;
    assert_eq!(device.closed().await.0, 4003);
}
