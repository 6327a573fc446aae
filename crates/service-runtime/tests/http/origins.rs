//! Pages of other sites: browsers let them call where `http.allowed_origins` says so.

use axum::{Router, routing::post};
use reqwest::{Client, Method, Response, StatusCode};
use service_runtime::HttpConfig;

use crate::server::Server;

const OURS: &str = "http://127.0.0.1:7308";
const OTHER: &str = "http://evil.example";

async fn server(allowed: &[&str]) -> Server {
    // What a guard in front of a call answers, whoever asks.
    let router = Router::new().route("/call", post(async || StatusCode::UNAUTHORIZED));
    let allowed_origins = allowed.iter().map(|origin| (*origin).to_owned()).collect();
    let http = HttpConfig {
        allowed_origins,
        ..HttpConfig::default()
    };
    Server::start(router, http).await
}

/// What a browser sends for a page of `origin`: the question before a call, or the call.
async fn send(server: &Server, method: Method, origin: &str) -> Response {
    let request = Client::new()
        .request(method, format!("http://{}/call", server.addr))
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "authorization");
    request.send().await.unwrap()
}

fn allowed(response: &Response) -> Option<&str> {
    let header = response.headers().get("access-control-allow-origin")?;
    header.to_str().ok()
}

#[tokio::test]
async fn a_page_of_an_allowed_site_calls_and_reads_what_it_is_answered() {
    let server = server(&[OURS]).await;
    let asked = send(&server, Method::OPTIONS, OURS).await;
    assert_eq!(asked.status(), StatusCode::OK);
    assert_eq!(allowed(&asked), Some(OURS));
    let headers = &asked.headers()["access-control-allow-headers"];
    for name in ["authorization", "idempotency-key"] {
        assert!(headers.to_str().unwrap().contains(name), "{headers:?}");
    }
    let refused = send(&server, Method::POST, OURS).await;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(allowed(&refused), Some(OURS));
    assert!(
        !refused
            .headers()
            .contains_key("access-control-allow-credentials")
    );
}

#[tokio::test]
async fn a_page_of_another_site_does_not() {
    let server = server(&[OURS]).await;
    for method in [Method::OPTIONS, Method::POST] {
        assert_eq!(allowed(&send(&server, method, OTHER).await), None);
    }
}

#[tokio::test]
async fn where_no_site_is_allowed_nothing_is_said() {
    let server = server(&[]).await;
    let asked = send(&server, Method::OPTIONS, OURS).await;
    assert_eq!(asked.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(allowed(&asked), None);
}
