//! What holds for every call.

use serde_json::Value;

use crate::{
    chat::{Chat, fresh_user},
    deployment::{Deployment, PATIENCE},
    service::Service,
};

async fn service() -> Service {
    Service::start(&Deployment::shared().await.config).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_description_lists_every_call_with_its_answers() {
    let document = service().await.ok("/openapi.json").await;
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    let paths = document["paths"].as_object().unwrap();
    let mut names: Vec<&str> = paths.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "/livez",
            "/metrics",
            "/readyz",
            "/v1/groups/{gid}",
            "/v1/groups/{gid}/changes",
            "/v1/groups/{gid}/members",
            "/v1/groups/{gid}/messages",
            "/v1/inbound/{partition}/{offset}",
            "/v1/profiles",
            "/v1/users/{uid}/conversations",
            "/v1/users/{uid}/conversations/{peer}/changes",
            "/v1/users/{uid}/conversations/{peer}/messages",
            "/v1/users/{uid}/devices",
            "/v1/users/{uid}/groups",
            "/v1/users/{uid}/profile",
            "/v1/users/{uid}/sync",
            "/v1/users/{uid}/unread",
        ]
    );
    let calls = paths.iter().filter(|(path, _)| path.starts_with("/v1/"));
    for (path, calls) in calls {
        let call = &calls["get"];
        for status in ["200", "400", "429", "503", "504"] {
            assert!(call["responses"][status].is_object(), "{path} {status}");
        }
        let names: Vec<&str> = call["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .map(name)
            .collect();
        assert!(names.contains(&"timeout_ms"), "{path} {names:?}");
        // A sync has a token of its own, and devices are not of the log.
        let without = [
            "/v1/inbound",
            "/v1/users/{uid}/sync",
            "/v1/users/{uid}/devices",
        ];
        let takes_after = !without.iter().any(|call| path.starts_with(call));
        assert_eq!(names.contains(&"after"), takes_after, "{path}");
        // Every reference leads somewhere.
        for reference in references(call) {
            let pointer = reference.trim_start_matches('#');
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_names_the_calls_and_the_documentation_is_served() {
    let addr = service().await.addr;
    let get = async |path: &str| {
        let page = reqwest::get(format!("http://{addr}{path}")).await.unwrap();
        assert_eq!(page.status(), 200, "{path}");
        assert!(
            page.headers().contains_key("content-security-policy"),
            "{path}"
        );
        page.text().await.unwrap()
    };
    assert!(
        get("/")
            .await
            .contains("<code>GET /v1/users/{uid}/unread</code>")
    );
    assert!(get("/docs").await.contains("swagger-ui-bundle.js"));
}

fn name(parameter: &Value) -> &str {
    parameter["name"].as_str().unwrap()
}

fn references(value: &Value) -> Vec<&str> {
    match value {
        Value::Object(members) => members
            .iter()
            .flat_map(|(key, value)| match value {
                Value::String(reference) if key == "$ref" => vec![reference.as_str()],
                other => references(other),
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => vec![],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_route_takes_is_a_problem() {
    let service = service().await;
    assert_eq!(service.get("/v1/users/1000").await.status, 404);
    assert_eq!(service.get("/v1/users/1000/unread/x").await.status, 404);
    assert_eq!(service.post("/v1/users/1000/unread").await.status, 405);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_query_is_refused() {
    let service = service().await;
    let path = format!("{}?after={}", Chat::new().path(), "1".repeat(5_000));
    let answer = service.get(&path).await;
    assert_eq!(answer.field(), "path and query");
}

#[tokio::test(flavor = "multi_thread")]
async fn more_calls_than_allowed_are_turned_away_at_once() {
    let mut config = Deployment::shared().await.config.clone();
    config.query_api.max_requests = 1;
    let service = Service::start(&config).await;
    let list = format!("/v1/users/{}/conversations", fresh_user());
    let turned_away = loop {
        let (one, other) = tokio::join!(service.get(&list), service.get(&list));
        if let Some(answer) = [one, other].into_iter().find(|one| one.status == 429) {
            break answer;
        }
    };
    assert_eq!(turned_away.retry_after.as_deref(), Some("1"));
    assert_eq!(service.get(&list).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_ready_once_mysql_and_kafka_answer_with_or_without_redis() {
    let mut config = Deployment::shared().await.config.clone();
    config.redis.url = "redis://127.0.0.1:1".to_owned();
    let service = Service::start(&config).await;
    let ready = async {
        while !service.health.readiness().ready {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ready).await.unwrap();

    config.mysql.servers[0].port = 1;
    config.mysql.connect_timeout_ms = 300;
    let service = Service::start(&config).await;
    let closed = async {
        loop {
            let gates = service.health.readiness().checks;
            let mysql = gates.iter().find(|g| g.name == "query_api.mysql").unwrap();
            if mysql.reason.as_deref() != Some("starting") {
                return mysql.ready;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    assert!(!tokio::time::timeout(PATIENCE, closed).await.unwrap());
}
