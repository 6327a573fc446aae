use std::time::Duration;

use access::{
    Access, Algorithm, AuthConfig, Caller, LimitConfig,
    test_issuer::{SECRET, SigningKey, claims},
};
use axum::{
    body::{Body, to_bytes},
    http::{Request, StatusCode, header},
    response::Response,
};
use problem::{Problem, ProblemKind};
use service_runtime::{BindError, ListenerPolicy as _, Supervisor, described};
use tower::ServiceExt as _;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::test_env::{Files, auth, issuer};

#[utoipa::path(post, path = "/who", responses((status = 200, body = String)))]
async fn who(caller: Caller) -> String {
    format!("{caller:?}")
}

fn access(config: &AuthConfig) -> (Access, Supervisor) {
    let supervisor = Supervisor::new("test", Duration::from_secs(1));
    (Access::start(config, &supervisor).unwrap(), supervisor)
}

fn of_hs256(files: &Files) -> AuthConfig {
    let mut issuer = issuer(&[Algorithm::Hs256]);
    issuer.secret_file = Some(files.write("secret", SECRET));
    auth([issuer])
}

async fn ask(access: &Access, path: &str, token: Option<&str>, body: Body) -> Response {
    let calls = access.guard(OpenApiRouter::new().routes(routes!(who)));
    let mut request = Request::post(path);
    if path == "/openapi.json" {
        request = Request::get(path);
    }
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(body).unwrap();
    described(calls, ()).oneshot(request).await.unwrap()
}

async fn text(response: Response) -> String {
    let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

async fn kind(response: Response) -> ProblemKind {
    let problem: Problem = serde_json::from_str(&text(response).await).unwrap();
    problem.kind
}

#[tokio::test]
async fn strangers_are_told_why_and_users_are_let_in() {
    let files = Files::new();
    let (access, _supervisor) = access(&of_hs256(&files));
    let token = SigningKey::hs256(SECRET.as_bytes()).token(&claims(7));
    let welcome = ask(&access, "/who", Some(&token), Body::empty()).await;
    assert_eq!(text(welcome).await, "User(u7)");

    let nameless = ask(&access, "/who", None, Body::empty()).await;
    assert_eq!(nameless.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(
        nameless.headers()[header::WWW_AUTHENTICATE],
        "Bearer realm=\"tidemark\""
    );
    assert_eq!(kind(nameless).await, ProblemKind::Unauthenticated);

    let forged = SigningKey::hs256(b"another secret of 32 bytes or so").token(&claims(7));
    let refused = ask(&access, "/who", Some(&forged), Body::empty()).await;
    let challenge = refused.headers()[header::WWW_AUTHENTICATE]
        .to_str()
        .unwrap();
    assert!(challenge.contains("error=\"invalid_token\""), "{challenge}");
    assert!(challenge.contains("signature is not valid"), "{challenge}");
    assert!(!challenge.contains(&forged));
}

#[tokio::test]
async fn a_stranger_is_answered_before_the_body_comes() {
    let files = Files::new();
    let (access, _supervisor) = access(&of_hs256(&files));
    let endless = Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let refused = ask(&access, "/who", None, endless).await;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
}

/// A user has two requests at once, and another one each second.
fn of_two_requests(files: &Files) -> AuthConfig {
    let user_limits = LimitConfig {
        requests_per_s: 1,
        requests_burst: 2,
        ..LimitConfig::default()
    };
    AuthConfig {
        user_limits,
        ..of_hs256(files)
    }
}

#[tokio::test]
async fn more_requests_than_allowed_are_told_when_to_come_back() {
    let files = Files::new();
    let (access, _supervisor) = access(&of_two_requests(&files));
    let key = SigningKey::hs256(SECRET.as_bytes());
    let (token, other) = (key.token(&claims(7)), key.token(&claims(8)));
    for _ in 0..2 {
        let answer = ask(&access, "/who", Some(&token), Body::empty()).await;
        assert_eq!(answer.status(), StatusCode::OK);
    }
    let refused = ask(&access, "/who", Some(&token), Body::empty()).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
    assert_eq!(kind(refused).await, ProblemKind::RateLimited);
    let answer = ask(&access, "/who", Some(&other), Body::empty()).await;
    assert_eq!(answer.status(), StatusCode::OK);
}

#[tokio::test]
async fn ten_users_that_a_call_asks_about_are_as_much_as_a_request() {
    let files = Files::new();
    let (access, _supervisor) = access(&of_two_requests(&files));
    let caller = Caller::User(7.try_into().unwrap());
    for users in [10, 11, 10, 11, 10] {
        access.charge_users(&caller, users).unwrap();
    }
    let refused = access.charge_users(&caller, 11).unwrap_err();
    assert_eq!(refused.kind, ProblemKind::RateLimited);
}

#[tokio::test]
async fn the_description_is_open_and_names_scheme_and_refusals() {
    let files = Files::new();
    let (access, _supervisor) = access(&of_hs256(&files));
    let document = ask(&access, "/openapi.json", None, Body::empty()).await;
    assert_eq!(document.status(), StatusCode::OK);
    let document: serde_json::Value = serde_json::from_str(&text(document).await).unwrap();
    let scheme = &document["components"]["securitySchemes"]["bearer"];
    assert_eq!(
        (&scheme["type"], &scheme["scheme"]),
        (&"http".into(), &"bearer".into())
    );
    let call = &document["paths"]["/who"]["post"];
    assert_eq!(call["security"], serde_json::json!([{ "bearer": [] }]));
    for status in ["200", "401", "403", "429"] {
        assert!(call["responses"][status].is_object(), "{status}");
    }
    assert!(document["paths"]["/livez"]["get"]["security"].is_null());
}

#[tokio::test]
async fn metrics_are_the_operators() {
    let files = Files::new();
    let metrics = || axum::Router::new().route("/metrics", axum::routing::get(async || "x 1"));
    let ask = async |access: &Access, token: Option<&str>| {
        let mut request = Request::get("/metrics");
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let router = access.guard_metrics(metrics());
        let answer = router.oneshot(request.body(Body::empty()).unwrap()).await;
        answer.unwrap().status()
    };
    let (closed, _supervisor) = access(&of_hs256(&files));
    let token = SigningKey::hs256(SECRET.as_bytes()).token(&claims(7));
    assert_eq!(ask(&closed, None).await, StatusCode::UNAUTHORIZED);
    assert_eq!(ask(&closed, Some(&token)).await, StatusCode::FORBIDDEN);
    let (open, _supervisor) = access(&AuthConfig::default());
    assert_eq!(ask(&open, None).await, StatusCode::OK);
}

#[tokio::test]
async fn without_authentication_only_loopback_is_listened_on() {
    let files = Files::new();
    let (anywhere, here) = (
        "0.0.0.0:7301".parse().unwrap(),
        "[::1]:7301".parse().unwrap(),
    );
    let (open, _supervisor) = access(&AuthConfig::default());
    assert!(open.may_listen("ingest.listen", here).is_ok());
    let refused = open.may_listen("ingest.listen", anywhere).unwrap_err();
    assert!(matches!(refused, BindError::NotLoopback { .. }));
    let words = refused.to_string();
    for word in [
        "ingest.listen",
        "0.0.0.0:7301",
        "127.0.0.1:7301",
        "[auth]",
        "auth.allow_anyone",
    ] {
        assert!(words.contains(word), "{words}");
    }
    let told = AuthConfig {
        allow_anyone: true,
        ..AuthConfig::default()
    };
    for config in [told, of_hs256(&files)] {
        let (access, _supervisor) = access(&config);
        assert!(access.may_listen("ingest.listen", anywhere).is_ok());
    }
}
