//! Clients that write or read at the wrong time, or not at all.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::{
    log::fresh_pair,
    raw_http::RawRequest,
    server::{Server, wait_until},
};

/// So many lines in one piece.
fn acks(count: usize) -> Vec<u8> {
    let (uid, peer) = fresh_pair();
    format!("{{\"read_ack\":{{\"uid\":\"{uid}\",\"peer\":\"{peer}\",\"device\":\"pc\"}}}}\n")
        .repeat(count)
        .into_bytes()
}

/// So many lines that are answered with something longer than themselves.
fn bad_lines(count: usize) -> Vec<u8> {
    b"x\n".repeat(count)
}

/// The smallest budget, so that it is soon used up: 3 MiB for batches.
const SMALL: (&str, &str) = ("ingest.in_flight_bytes", "4194304");

const IMPATIENT: (&str, &str) = ("ingest.stall_ms", "700");

/// Longer than any test runs: what a stall would give back does not come back.
const PATIENT: (&str, &str) = ("ingest.stall_ms", "300000");

/// A batch that takes nearly all of the small budget, if Kafka takes its time.
///
/// It is posted again while those before it keep its place: that is theirs until their last task has ended, which is
/// after their last byte.
async fn a_batch_goes_through(server: &Server) {
    let addr = server.addr();
    wait_until("a batch finds a place", async || {
        let answer = spawn_blocking(move || {
            let mut request = RawRequest::batch(addr);
            request.send(&acks(5_000));
            request.end();
            let answer = request.answer();
            (answer.status == 200).then(|| answer.lines())
        });
        let Some(mut lines) = answer.await.unwrap() else {
            return false;
        };
        let summary = lines.pop();
        let all = Some(json!({"accepted": 5_000, "rejected": 0}));
        assert_eq!(summary, all, "the last line before it: {:?}", lines.last());
        true
    })
    .await;
}

#[tokio::test]
async fn a_client_that_writes_everything_before_it_reads() {
    // 100,000 results are 7 MB on the wire, far more than sockets hold, and 1.6 MB while they wait.
    let server = Server::start(&[SMALL, PATIENT]);
    let addr = server.addr();
    let lines = spawn_blocking(move || {
        let mut request = RawRequest::batch(addr);
        for _ in 0..100 {
            request.send(&acks(1_000));
        }
        request.end();
        request.answer().lines()
    });
    let lines = lines.await.unwrap();
    assert_eq!(lines.len(), 100_001);
    assert!(
        (1..)
            .zip(&lines[..100_000])
            .all(|(n, line)| line["line"] == n)
    );
    assert_eq!(lines[100_000], json!({"accepted": 100_000, "rejected": 0}));
}

#[tokio::test]
async fn a_client_that_never_reads_is_cut_off_and_leaves_no_trace() {
    let server = Server::start(&[SMALL, IMPATIENT, ("ingest.max_batches", "1")]);
    let addr = server.addr();
    // The answers to these would take tens of megabytes.
    let unread = spawn_blocking(move || {
        let mut request = RawRequest::batch(addr);
        for _ in 0..20 {
            request.send(&bad_lines(10_000));
        }
        request.end();
        request.answer()
    });
    let unread = unread.await.unwrap();
    a_batch_goes_through(&server).await;

    // Whoever reads at last is told what happened.
    let lines = spawn_blocking(move || unread.lines()).await.unwrap();
    let [.., problem, summary] = lines.as_slice() else {
        panic!("there are always a problem and a summary");
    };
    assert_eq!(problem["status"], 408, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("not read"));
    assert_eq!(summary["accepted"], 0);
    let rejected = summary["rejected"].as_i64().unwrap();
    assert!((2_000..200_000).contains(&rejected), "{rejected}");
}

#[tokio::test]
async fn a_client_that_stops_writing_gets_its_results_and_a_problem() {
    let server = Server::start(&[SMALL, IMPATIENT]);
    let addr = server.addr();
    let lines = spawn_blocking(move || {
        let mut request = RawRequest::batch(addr);
        request.send(&acks(3));
        request.send(b"{\"read_ack\":");
        request.answer().lines()
    });
    let lines = lines.await.unwrap();
    let of = |line: &Value| (line["line"].clone(), line["status"].clone());
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert_eq!(of(&lines[2]), (json!(3), json!(202)));
    assert_eq!(of(&lines[3]), (json!(4), json!(408)));
    assert_eq!(lines[4], json!({"accepted": 3, "rejected": 1}));
}

/// A slow loris: each byte comes in time, and no line ever ends.
#[tokio::test]
async fn a_line_that_trickles_in_does_not_gain_time() {
    trickle(b" ").await;
}

/// They cost nothing, so they must not keep a place.
#[tokio::test]
async fn blank_lines_do_not_gain_time() {
    trickle(b"\n").await;
}

/// The answer is there; what is still to come of the body must not keep the connection.
#[tokio::test]
async fn the_rest_of_a_refused_post_does_not_hold_its_connection() {
    let server = Server::start(&[]);
    let addr = server.addr();
    let posts = ["/v1/messages", "/v1/events"].map(|path| {
        spawn_blocking(move || {
            let head = format!(
                "POST {path} HTTP/1.1\r\nhost: t\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n"
            );
            let mut request = RawRequest::head(addr, &head);
            assert_eq!(request.answer().status, 415, "{path}");
            let answered = Instant::now();
            while request.try_send(b"x").is_ok() {
                let open = answered.elapsed();
                assert!(open < Duration::from_secs(30), "{path}: still open");
                std::thread::sleep(Duration::from_millis(50));
            }
        })
    });
    for post in posts {
        post.await.unwrap();
    }
}

async fn trickle(bytes: &'static [u8]) {
    let server = Server::start(&[SMALL, IMPATIENT]);
    let addr = server.addr();
    let lines = spawn_blocking(move || {
        let mut request = RawRequest::batch(addr);
        request.send(&acks(1));
        for _ in 0..60 {
            if request.try_send(bytes).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        request.answer().lines()
    });
    let lines = lines.await.unwrap();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!(lines[1]["status"], 408, "{lines:?}");
    let detail = "no complete line arrived for 0.7 s";
    assert_eq!(lines[1]["detail"], detail);
    assert_eq!(lines[2], json!({"accepted": 1, "rejected": 1}));
}

#[tokio::test]
async fn clients_that_hang_up_give_their_room_back() {
    let server = Server::start(&[SMALL, PATIENT]);
    let addr = server.addr();
    for _ in 0..8 {
        spawn_blocking(move || {
            let mut request = RawRequest::batch(addr);
            request.send(&bad_lines(5_000));
            let _ = request.try_send(&acks(1_000));
        })
        .await
        .unwrap();
    }
    a_batch_goes_through(&server).await;
}
