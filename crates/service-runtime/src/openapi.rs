//! The description of a process's own calls: `/openapi.json` for programs, `/docs` and `/` for people.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::http::{HeaderValue, header};
use axum::middleware::map_response;
use axum::response::{Html, Response};
use axum::{Json, Router, routing::get};
use utoipa::{
    OpenApi,
    openapi::{InfoBuilder, OpenApi as Description, OpenApiBuilder},
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_swagger_ui::{Config, SwaggerUi};

use crate::probes;

/// What the pages may load: this server's own files, and images embedded in a stylesheet.
const CONTENT_SECURITY_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
);

#[derive(OpenApi)]
#[openapi(
    paths(probes::livez, probes::readyz, probes::render),
    tags((name = "probes", description = "For whoever runs and watches the process"))
)]
struct Probes;

/// The calls of `api`. Their description, with that of the probes, is at `/openapi.json` and, as a page, at `/docs`; `/` is a page that names them.
pub fn described<S: Clone + Send + Sync + 'static>(api: OpenApiRouter<S>, state: S) -> Router {
    let (router, mut description) = api.split_for_parts();
    description.merge(Probes::openapi());
    let pages = pages(&description);
    let description = Arc::new(description);
    router
        .route(
            "/openapi.json",
            get(async move || Json(Arc::clone(&description))),
        )
        .with_state(state)
        .merge(pages)
}

/// The probes only: for a service that has no API. `title` names the service, `purpose` says what it does.
pub fn without_calls(title: &str, purpose: &str) -> Router {
    let info = InfoBuilder::new()
        .title(title)
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(purpose))
        .build();
    let description: Description = OpenApiBuilder::new().info(info).build();
    described(OpenApiRouter::with_openapi(description), ())
}

/// `/` and `/docs`.
fn pages(description: &Description) -> Router {
    let index = Html(index_page(description));
    // Without a validator, which would be a server on the internet.
    let config = Config::from("/openapi.json")
        .validator_url("none")
        .use_base_layout();
    Router::from(SwaggerUi::new("/docs").config(config))
        .route("/", get(async move || index.clone()))
        .layer(map_response(async |mut response: Response| {
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY);
            response
        }))
}

fn index_page(description: &Description) -> String {
    let info = &description.info;
    let title = escaped(&info.title);
    let purpose = escaped(info.description.as_deref().unwrap_or_default());
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{title}</title></head>\n<body>\n<h1>{title}</h1>\n\
         <p>{purpose}</p>\n<ul>\n"
    );
    for (call, summary) in calls(description) {
        let (call, summary) = (escaped(&call), escaped(&summary));
        writeln!(page, "<li><code>{call}</code> {summary}</li>").expect("a String takes all of it");
    }
    page.push_str(
        "</ul>\n<p><a href=\"/docs\">/docs</a> documents the calls and lets you try them.\n\
         <a href=\"/openapi.json\">/openapi.json</a> is their OpenAPI description.</p>\n</body>\n</html>\n",
    );
    page
}

/// Every call as `GET /path`, with its summary; those of the probes last.
fn calls(description: &Description) -> Vec<(String, String)> {
    let paths = serde_json::to_value(&description.paths).expect("a description is JSON");
    let paths = paths.as_object().into_iter().flatten();
    let mut calls: Vec<(String, String)> = paths
        .flat_map(|(path, operations)| {
            let operations = operations.as_object().into_iter().flatten();
            operations.map(move |(method, operation)| {
                let summary = operation["summary"].as_str().unwrap_or_default();
                let method = method.to_ascii_uppercase();
                (format!("{method} {path}"), summary.to_owned())
            })
        })
        .collect();
    calls.sort_by_key(|(call, _)| !call.contains(" /v1/"));
    calls
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probes_are_described() {
        let description = serde_json::to_value(Probes::openapi()).unwrap();
        for path in ["/livez", "/readyz", "/metrics"] {
            assert!(description["paths"][path]["get"].is_object(), "{path}");
        }
        let readiness = &description["components"]["schemas"]["Readiness"];
        assert_eq!(readiness["properties"]["ready"]["type"], "boolean");
    }
}
