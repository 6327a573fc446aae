use serde_json::json;
use tokio::task::spawn_blocking;

use crate::{log::fresh_pair, raw_http::RawRequest, server::Server};

#[tokio::test]
async fn a_batch_is_ended_in_good_order() {
    let server = Server::start(&[]);
    let (uid, peer) = fresh_pair();
    spawn_blocking(move || {
        let mut request = RawRequest::batch(server.addr());
        let mut answer = request.answer();
        let line = json!({"read_ack": {"uid": uid, "peer": peer, "device": "pc"}});
        request.send(format!("{line}\n").as_bytes());
        assert_eq!(answer.line().unwrap()["status"], 202);

        server.begin_stop();
        let problem = answer.line().unwrap();
        assert_eq!(
            (&problem["line"], &problem["status"]),
            (&json!(2), &json!(503))
        );
        assert_eq!(
            answer.line().unwrap(),
            json!({"accepted": 1, "rejected": 1})
        );
        request.end();
        server.join().unwrap();
    })
    .await
    .unwrap();
}
