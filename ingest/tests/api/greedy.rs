//! Accounts that hold as much as they can, beside one that wants little.

use std::net::SocketAddr;

use access::Scope;
use serde_json::json;
use tokio::task::spawn_blocking;

use crate::{
    callers::{Closed, message},
    log::fresh_pair,
    raw_http::{RawAnswer, RawRequest},
    server::wait_until,
};

/// The smallest budget: 1 MiB for single posts, of which users hold 768 KiB and one 384 KiB; 3 MiB for batches, 768 KiB and 384 KiB.
const SMALL: (&str, &str) = ("ingest.in_flight_bytes", "4194304");

const FEW_BATCHES: [(&str, &str); 2] = [
    ("ingest.max_batches", "16"),
    ("ingest.max_batches_of_user", "4"),
];

/// Longer than any test runs: nothing comes back because of it.
const PATIENT: (&str, &str) = ("ingest.stall_ms", "300000");

fn head(token: &str, path: &str, content_type: &str, framing: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {token}\r\ncontent-type: {content_type}\r\n{framing}\r\n\r\n"
    )
}

/// Posts of so many accounts, `each` of them, which declare so many bytes and send fewer; they stay open.
async fn unfinished_posts(
    closed: &Closed,
    (accounts, each): (usize, usize),
    (declared, sent): (usize, usize),
) -> Vec<RawRequest> {
    let framing = format!("content-length: {declared}");
    let heads: Vec<String> = (0..accounts)
        .map(|_| closed.parties.token(fresh_pair().0))
        .map(|token| head(&token, "/v1/messages", "application/json", &framing))
        .collect();
    let addr = closed.server.addr();
    let opened = spawn_blocking(move || {
        let post = |head: &String| {
            let mut request = RawRequest::head(addr, head);
            request.write(&vec![b' '; sent]);
            request
        };
        heads
            .iter()
            .flat_map(|head| std::iter::repeat_with(|| post(head)).take(each))
            .collect()
    });
    opened.await.unwrap()
}

fn batch(addr: SocketAddr, token: &str) -> RawRequest {
    let framing = "transfer-encoding: chunked";
    RawRequest::head(
        addr,
        &head(token, "/v1/events", "application/x-ndjson", framing),
    )
}

/// So many batches of so many accounts, each with a line if there is one.
async fn open_batches(
    closed: &Closed,
    (accounts, each): (usize, usize),
    line: Option<&'static [u8]>,
) -> Vec<(RawRequest, RawAnswer)> {
    let tokens: Vec<String> = (0..accounts)
        .map(|_| closed.parties.token(fresh_pair().0))
        .collect();
    let addr = closed.server.addr();
    let opened = spawn_blocking(move || {
        let open = |token: &String| {
            let mut request = batch(addr, token);
            if let Some(line) = line {
                request.send(line);
            }
            let answer = request.answer();
            // The last one may find that nobody holds more.
            assert!([200, 429].contains(&answer.status), "{}", answer.status);
            (request, answer)
        };
        tokens
            .iter()
            .flat_map(|token| std::iter::repeat_with(|| open(token)).take(each))
            .collect()
    });
    opened.await.unwrap()
}

#[tokio::test]
async fn bodies_that_are_declared_and_do_not_come_take_nothing() {
    let closed = Closed::start(&[]);
    // With what each takes besides, 128 of these would be all there is.
    let _open = unfinished_posts(&closed, (10, 13), (127 * 1024 + 512, 1)).await;
    let (me, peer) = fresh_pair();
    let token = closed.parties.token(me);
    for _ in 0..40 {
        assert_eq!(closed.send(&token, me, peer).await, 202);
    }
}

#[tokio::test]
async fn bodies_that_do_not_end_yield_to_whoever_holds_less() {
    let closed = Closed::start(&[SMALL, ("ingest.max_msg_bytes", "65535")]);
    let mut open = Vec::new();
    for _ in 0..3 {
        // More than there is, and again: those of before have yielded or not.
        open.extend(unfinished_posts(&closed, (4, 1), (250_000, 200_000)).await);
        let (me, peer) = fresh_pair();
        let token = closed.parties.token(me);
        let mut long = message(me, peer);
        long["msg"] = json!("x".repeat(60_000));
        let posted = closed.post(&token, "/v1/messages", &long).await;
        assert_eq!(posted.status(), 202);
        assert_eq!(closed.send(&token, me, peer).await, 202);
    }
}

#[tokio::test]
async fn who_holds_his_own_share_is_told_so() {
    let closed = Closed::start(&[FEW_BATCHES[0], FEW_BATCHES[1], PATIENT]);
    let token = closed.parties.token(fresh_pair().0);
    let addr = closed.server.addr();
    let refused = spawn_blocking(move || {
        let mut batches: Vec<RawRequest> = (0..4).map(|_| batch(addr, &token)).collect();
        loop {
            // What goes on does not yield to what is one's own.
            batches.iter_mut().for_each(|open| open.send(b"x\n"));
            let answer = batch(addr, &token).answer();
            if answer.status == 429 {
                return answer.problem();
            }
        }
    });
    let refused = refused.await.unwrap();
    assert_eq!(refused["type"], "/problems/too-many-requests");
    assert_eq!(refused["retry_after_s"], 1);
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.starts_with("this caller has"), "{detail}");
}

#[tokio::test]
async fn batches_without_a_line_or_with_one_yield() {
    for line in [None, Some(b"x\n".as_slice())] {
        let closed = Closed::start(&[FEW_BATCHES[0], FEW_BATCHES[1], PATIENT]);
        let open = open_batches(&closed, (4, 4), line).await;
        for _ in 0..3 {
            let (me, peer) = fresh_pair();
            let lines = [json!({ "message": message(me, peer) })];
            let results = closed.post_lines(&closed.parties.token(me), &lines).await;
            assert_eq!(results[0]["status"], 202, "{results:?}");
        }
        let (me, peer) = fresh_pair();
        let lines = [json!({ "message": message(me, peer) })];
        let key = closed.parties.service(&[Scope::SendAny]);
        wait_until("the key is known", async || {
            closed.send(&key, me, peer).await == 202
        })
        .await;
        let results = closed.post_lines(&key, &lines).await;
        assert_eq!(results[0]["status"], 202, "{results:?}");
        // The first was of an account that held more than whoever came.
        let (_request, first) = open.into_iter().next().unwrap();
        let ended = spawn_blocking(|| first.lines()).await.unwrap();
        let [.., problem, summary] = ended.as_slice() else {
            panic!("there are always a problem and a summary");
        };
        let number = if line.is_some() { 2 } else { 1 };
        assert_eq!(
            (&problem["line"], &problem["status"]),
            (&json!(number), &json!(429))
        );
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.starts_with("its place was needed"), "{detail}");
        assert_eq!(summary["accepted"], 0);
    }
}

/// Whoever does not read keeps what the results take; others are not held up by that.
#[tokio::test]
async fn results_that_are_not_read_yield() {
    let closed = Closed::start(&[
        SMALL,
        PATIENT,
        ("auth.user_limits.events_per_s", "100000"),
        ("auth.user_limits.events_burst", "1000000"),
    ]);
    let tokens: Vec<String> = (0..3)
        .map(|_| closed.parties.token(fresh_pair().0))
        .collect();
    let addr = closed.server.addr();
    let unread: Vec<_> = tokens
        .into_iter()
        .map(|token| {
            spawn_blocking(move || {
                let mut request = batch(addr, &token);
                request.send_until_nothing_is_read(&b"x\n".repeat(5_000));
                request
            })
        })
        .collect();
    let mut open = Vec::new();
    for one in unread {
        open.push(one.await.unwrap());
    }
    let (me, peer) = fresh_pair();
    let token = closed.parties.token(me);
    let mut long = message(me, peer);
    long["msg"] = json!("x".repeat(16_000));
    let lines = vec![json!({ "message": long }); 40];
    for _ in 0..3 {
        let results = closed.post_lines(&token, &lines).await;
        let summary = results.last().unwrap();
        assert_eq!(*summary, json!({ "accepted": 40, "rejected": 0 }));
    }
}

/// What is stored and sent on is bytes; an event of the rate is as many of them as a message has.
#[tokio::test]
async fn what_is_large_counts_as_several_events() {
    let closed = Closed::start(&[
        ("auth.user_limits.events_per_s", "1"),
        ("auth.user_limits.events_burst", "20"),
    ]);
    let long = |me: i64, peer: i64| {
        let mut long = message(me, peer);
        long["msg"] = json!("x".repeat(16_000));
        long
    };
    let (me, peer) = fresh_pair();
    let token = closed.parties.token(me);
    let mut accepted = 0;
    for _ in 0..20 {
        let posted = closed.post(&token, "/v1/messages", &long(me, peer)).await;
        accepted += usize::from(posted.status() == 202);
    }
    // Sixteen events each, and what comes back meanwhile.
    assert!((2..15).contains(&accepted), "{accepted}");

    let (me, peer) = fresh_pair();
    let lines = vec![json!({ "message": long(me, peer) }); 20];
    let results = closed.post_lines(&closed.parties.token(me), &lines).await;
    let [.., refused, summary] = results.as_slice() else {
        panic!("there are always a problem and a summary");
    };
    assert_eq!(refused["type"], "/problems/rate-limited");
    let accepted = summary["accepted"].as_u64().unwrap();
    assert!((2..15).contains(&accepted), "{accepted}");
}
