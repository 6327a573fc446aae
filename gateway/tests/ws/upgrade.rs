//! How a WebSocket begins, and how a device ends it.

use futures::StreamExt as _;
use problem::{PROBLEM_JSON, Problem};
use reqwest::StatusCode;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_tungstenite::tungstenite::{
    Error, Message,
    http::{HeaderMap, HeaderValue, Request},
    protocol::{CloseFrame, frame::coding::CloseCode},
};

use crate::{
    deployment::{Deployment, token},
    device::Device,
    gateway::Gateway,
};

/// The problem with which an upgrade is refused, and the headers.
pub async fn refused(request: Request<()>) -> (Problem, HeaderMap) {
    let response = match Device::connect(request).await {
        Err(Error::Http(response)) => response,
        other => panic!("{:?}", other.err()),
    };
    let (parts, body) = response.into_parts();
    assert_eq!(parts.headers["content-type"], PROBLEM_JSON);
    let problem = serde_json::from_slice(&body.unwrap()).unwrap();
    (problem, parts.headers)
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_upgrade_and_for_another_version_the_answer_says_which() {
    let gateway = Gateway::start().await;
    let [me, _] = Deployment::users(36);
    let url = format!("http://{}/v1/connect?uid={me}", gateway.addr);
    let answer = reqwest::get(url).await.unwrap();
    assert_eq!(answer.status(), StatusCode::UPGRADE_REQUIRED);
    assert_eq!(answer.headers()["content-type"], PROBLEM_JSON);
    assert_eq!(answer.headers()["upgrade"], "websocket");
    assert_eq!(answer.headers()["sec-websocket-version"], "13");
    let problem: Problem = answer.json().await.unwrap();
    assert!(problem.detail.contains("Upgrade: websocket"), "{problem}");

    let mut request = gateway.request(me);
    let version = HeaderValue::from_static("8");
    request
        .headers_mut()
        .insert("sec-websocket-version", version);
    let (problem, headers) = refused(request).await;
    assert_eq!(problem.status, 426);
    assert_eq!(headers["sec-websocket-version"], "13");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_subprotocol_is_refused_with_the_one_that_there_is() {
    let gateway = Gateway::start().await;
    let [me, _] = Deployment::users(36);
    for offered in [
        "tidemark.v2.json",
        "graphql-ws, bearer.a",
        "Tidemark.V1.JSON",
    ] {
        let mut request = gateway.request(me);
        let offered = HeaderValue::from_static(offered);
        request
            .headers_mut()
            .insert("sec-websocket-protocol", offered);
        let (problem, _) = refused(request).await;
        assert_eq!(problem.status, 400);
        assert_eq!(problem.errors[0].field, "Sec-WebSocket-Protocol");
        assert!(problem.detail.contains("tidemark.v1.json"), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_credentials_are_refused() {
    let gateway = Gateway::start().await;
    let [me, _] = Deployment::users(36);
    let one = "tidemark.v1.json, bearer.a";
    let two = "tidemark.v1.json, bearer.a, bearer.b";
    for (offered, header) in [(one, None), (one, Some("Bearer b")), (two, None)] {
        let mut request = gateway.request(me);
        let headers = request.headers_mut();
        headers.insert("sec-websocket-protocol", HeaderValue::from_static(offered));
        if let Some(header) = header {
            headers.insert("authorization", HeaderValue::from_static(header));
        }
        if (offered, header) == (one, None) {
            assert!(Device::connect(request).await.is_ok());
            continue;
        }
        let (problem, _) = refused(request).await;
        assert_eq!(problem.status, 400);
        for name in ["Sec-WebSocket-Protocol", "bearer.<token>", "Authorization"] {
            assert!(problem.detail.contains(name), "{problem}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_closes_is_answered_with_its_code() {
    let gateway = Gateway::start().await;
    let [me, _] = Deployment::users(36);
    let before_hello = gateway.connect(me).await;
    let with_a_stream = gateway.stream(me, "a", &token(36, 0)).await;
    for mut device in [before_hello, with_a_stream] {
        let bye = CloseFrame {
            code: CloseCode::Normal,
            reason: "bye".into(),
        };
        device.send_raw(Message::Close(Some(bye))).await.unwrap();
        match device.next().await {
            Ok(Message::Close(Some(close))) => assert_eq!(close.code, CloseCode::Normal),
            other => panic!("no close but {other:?}"),
        }
        // No error: the gateway has ended the connection, too.
        assert!(device.socket.next().await.is_none());
    }
}

/// As a proxy may pass it on.
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_may_be_on_any_line_of_connection() {
    let gateway = Gateway::start().await;
    let [me, _] = Deployment::users(36);
    let mut stream = TcpStream::connect(gateway.addr).await.unwrap();
    let request = format!(
        "GET /v1/connect?uid={me} HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: none.of.these\r\nSec-WebSocket-Protocol: tidemark.v1.json\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = [0; 1_024];
    let count = stream.read(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..count]).to_lowercase();
    assert!(answer.starts_with("http/1.1 101"), "{answer}");
    assert!(
        answer.contains("sec-websocket-protocol: tidemark.v1.json"),
        "{answer}"
    );
}
