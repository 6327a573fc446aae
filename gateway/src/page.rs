//! The small chat at `/`: files that are in the program, and what they have to know of this stack.

use std::future::ready;

use axum::{
    Json, Router,
    http::{HeaderName, HeaderValue, Uri, header},
    middleware::map_response,
    response::Response,
    routing::get,
};
use garde::Validate;
use serde::{Deserialize, Serialize};

/// Where the page reaches the other services, whose `http.allowed_origins` has to name the gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct PageConfig {
    /// Ingest, as browsers reach it: `http://127.0.0.1:7301`.
    #[garde(custom(is_base))]
    pub ingest_url: String,
    /// query-api, as browsers reach it: `http://127.0.0.1:7302`.
    #[garde(custom(is_base))]
    pub query_url: String,
}

/// What the page is told.
#[derive(Clone, Serialize)]
struct Settings {
    ingest: String,
    query: String,
    /// Callers have tokens; if not, the page lets one choose a user.
    authenticates: bool,
    max_msg_bytes: usize,
}

/// Path, type and text of each file.
const FILES: [(&str, &str, &str); 4] = [
    (
        "/",
        "text/html; charset=utf-8",
        include_str!("../page/index.html"),
    ),
    (
        "/page/chat.css",
        "text/css; charset=utf-8",
        include_str!("../page/chat.css"),
    ),
    (
        "/page/icon.svg",
        "image/svg+xml",
        include_str!("../page/icon.svg"),
    ),
    (
        "/page/chat.js",
        "text/javascript; charset=utf-8",
        include_str!("../page/dist/chat.js"),
    ),
];

/// `/` and what it loads. Needs no token: nothing of any user is in it.
pub(crate) fn routes(page: &PageConfig, authenticates: bool, max_msg_bytes: usize) -> Router {
    let settings = Settings {
        ingest: page.ingest_url.trim_end_matches('/').to_owned(),
        query: page.query_url.trim_end_matches('/').to_owned(),
        authenticates,
        max_msg_bytes,
    };
    let mut routes = Router::new().route(
        "/page/settings.json",
        get(async move || Json(settings.clone())),
    );
    for (path, kind, text) in FILES {
        let file = ([(header::CONTENT_TYPE, kind)], text);
        routes = routes.route(path, get(async move || file));
    }
    let headers = headers(page);
    routes.layer(map_response(move |mut response: Response| {
        response.headers_mut().extend(headers.clone());
        ready(response)
    }))
}

/// The page runs its own script only and talks to this stack only, and no other page may frame it.
fn headers(config: &PageConfig) -> [(HeaderName, HeaderValue); 4] {
    let services = [&config.ingest_url, &config.query_url].map(|url| origin(url));
    let [ingest, query] = services.map(Option::unwrap_or_default);
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self' {ingest} {query}; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    );
    // An origin has visible ASCII only.
    let policy =
        HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"));
    [
        (header::CONTENT_SECURITY_POLICY, policy),
        (
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ),
        (
            header::REFERRER_POLICY,
            HeaderValue::from_static("no-referrer"),
        ),
        // The next version of this program has other files under the same names.
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ]
}

/// Scheme, host and port of a URL, if nothing in them could end a directive of the policy.
fn origin(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let scheme = uri
        .scheme_str()
        .filter(|one| ["http", "https"].contains(one))?;
    let authority = uri.authority()?.as_str();
    let is_plain = |one: u8| one.is_ascii_alphanumeric() || b".:-[]".contains(&one);
    let is_base = uri.query().is_none() && authority.bytes().all(is_plain);
    is_base.then(|| format!("{scheme}://{authority}"))
}

fn is_base(url: &str, _context: &()) -> garde::Result {
    match origin(url) {
        Some(_) => Ok(()),
        None => Err(garde::Error::new("must be like http://127.0.0.1:7301")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_names_origins_and_nothing_else() {
        assert_eq!(
            origin("https://chat.example.org/im/").as_deref(),
            Some("https://chat.example.org")
        );
        assert_eq!(
            origin("http://[::1]:7301").as_deref(),
            Some("http://[::1]:7301")
        );
        for wrong in [
            "",
            "chat.example.org",
            "ftp://a",
            "http://a/?b",
            "http://u:p@a",
            "http://a;script-src",
            "http://*",
        ] {
            assert_eq!(origin(wrong), None, "{wrong}");
        }
    }
}
