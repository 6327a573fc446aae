//! Clients that send a body only when they are asked to (`Expect: 100-continue`).

use std::net::SocketAddr;

use serde_json::json;
use tokio::task::spawn_blocking;

use crate::{
    callers::Closed,
    log::fresh_pair,
    raw_http::{RawAnswer, RawRequest},
    server::Server,
};

fn expecting(addr: SocketAddr, path: &str, content_type: &str, bytes: usize) -> RawRequest {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: t\r\ncontent-type: {content_type}\r\ncontent-length: {bytes}\r\nexpect: 100-continue\r\n\r\n"
    );
    RawRequest::head(addr, &head)
}

/// The answer to a request with a body that is sent once it is asked for.
async fn answer(
    addr: SocketAddr,
    path: &'static str,
    content_type: &'static str,
    body: String,
) -> RawAnswer {
    let answer = spawn_blocking(move || {
        let mut request = expecting(addr, path, content_type, body.len());
        assert_eq!(request.answer().status, 100, "{path}");
        request.write(body.as_bytes());
        request.answer()
    });
    answer.await.unwrap()
}

#[tokio::test]
async fn a_body_is_asked_for_before_it_is_answered() {
    let server = Server::start(&[]);
    let (srcid, destid) = fresh_pair();
    let message = json!({"srcid": srcid.to_string(), "destid": destid.to_string(), "msg": "hi"});
    let single = answer(
        server.addr(),
        "/v1/messages",
        "application/json",
        message.to_string(),
    );
    assert_eq!(single.await.status, 202);
    let lines = format!("{}\n", json!({ "message": message }));
    let batch = answer(server.addr(), "/v1/events", "application/x-ndjson", lines).await;
    assert_eq!(batch.status, 200);
    let results = spawn_blocking(|| batch.lines()).await.unwrap();
    assert_eq!(results[0]["status"], 202);
    assert_eq!(results[1], json!({"accepted": 1, "rejected": 0}));
}

/// It is not asked for what is refused unseen, so it may go on with another request: not on this connection.
#[tokio::test]
async fn a_refusal_in_place_of_asking_ends_the_connection() {
    let (open, closed) = (Server::start(&[]), Closed::start(&[]));
    for (addr, path, content_type, bytes, status) in [
        (open.addr(), "/v1/events", "text/plain", 10, 415),
        (open.addr(), "/v1/messages", "text/plain", 10, 415),
        (
            open.addr(),
            "/v1/messages",
            "application/json",
            10_000_000,
            413,
        ),
        (
            closed.server.addr(),
            "/v1/events",
            "application/x-ndjson",
            10,
            401,
        ),
    ] {
        let refused = spawn_blocking(move || {
            let request = expecting(addr, path, content_type, bytes);
            request.answer()
        });
        let refused = refused.await.unwrap();
        assert_eq!((refused.status, refused.closes), (status, true), "{path}");
    }
}
