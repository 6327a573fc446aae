//! The pages for people: `/` and `/docs`.

use reqwest::{Response, StatusCode};
use service_runtime::{HttpConfig, middleware, without_calls};

use crate::server::Server;

async fn server() -> Server {
    let router = without_calls("Tidemark & test", "Serves <nothing>.");
    Server::start(middleware(router), HttpConfig::default()).await
}

/// Asserts that `page` is of this type and may load nothing but what this server serves; returns its text.
async fn text_of(page: Response, content_type: &str) -> String {
    assert_eq!(page.status(), StatusCode::OK);
    let headers = page.headers();
    let found = headers["content-type"].to_str().unwrap();
    assert!(found.starts_with(content_type), "{found}");
    let policy = headers["content-security-policy"].to_str().unwrap();
    for directive in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ] {
        assert!(policy.split("; ").any(|one| one == directive), "{policy}");
    }
    page.text().await.unwrap()
}

#[tokio::test]
async fn the_index_names_the_calls_and_links_to_their_description() {
    let page = text_of(server().await.get("/").await, "text/html").await;
    for part in [
        "<title>Tidemark &amp; test</title>",
        "<p>Serves &lt;nothing>.</p>",
        "<code>GET /readyz</code> Say whether the process can do its work",
        "href=\"/docs\"",
        "href=\"/openapi.json\"",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(!page.contains("://"), "{page}");
}

#[tokio::test]
async fn the_documentation_loads_nothing_from_elsewhere() {
    let server = server().await;
    // The client follows the redirect to `/docs/`.
    let page = text_of(server.get("/docs").await, "text/html").await;
    assert!(!page.contains("://"), "{page}");
    for file in [
        "swagger-ui.css",
        "swagger-ui-bundle.js",
        "swagger-initializer.js",
    ] {
        assert!(page.contains(file), "{file} is not in {page}");
        text_of(server.get(&format!("/docs/{file}")).await, "text/").await;
    }
    let start = server
        .get("/docs/swagger-initializer.js")
        .await
        .text()
        .await
        .unwrap();
    assert!(
        start.contains("\"/openapi.json\"") && !start.contains("://"),
        "{start}"
    );
    // Otherwise it shows a badge that a server on the internet makes.
    assert!(start.contains("\"validatorUrl\": \"none\""), "{start}");
}
