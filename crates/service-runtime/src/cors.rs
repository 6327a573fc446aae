//! The pages of other sites that may call (CORS). Browsers ask the service for this; other programs do not.

use std::time::Duration;

use axum::{
    Router,
    http::{HeaderName, HeaderValue, Method, Uri, header},
};
use tower_http::cors::{AllowOrigin, CorsLayer};

/// The header with the id of a single command.
pub const IDEMPOTENCY_KEY: &str = "Idempotency-Key";

/// How long a browser may reuse an answer.
const MAX_AGE: Duration = Duration::from_secs(600);

/// Lets pages of these sites call the routes that `router` has by then, with a bearer token but without cookies. With no sites the responses have no
/// CORS headers.
pub fn allow_origins(router: Router, origins: &[String]) -> Router {
    if origins.is_empty() {
        return router;
    }
    let origins = origins
        .iter()
        .filter_map(|origin| HeaderValue::try_from(origin).ok());
    router.layer(
        CorsLayer::new()
            .allow_origin(AllowOrigin::list(origins))
            .allow_methods([Method::GET, Method::POST, Method::PUT])
            .allow_headers([
                header::AUTHORIZATION,
                header::CONTENT_TYPE,
                HeaderName::try_from(IDEMPOTENCY_KEY).expect("it is a header's name"),
            ])
            .expose_headers([header::RETRY_AFTER])
            .max_age(MAX_AGE),
    )
}

/// A browser sends scheme, host and port with nothing after them, in lower case.
pub(crate) fn is_origin(text: &str, _context: &()) -> garde::Result {
    let uri: Option<Uri> = text.parse().ok();
    let origin = uri.as_ref().and_then(|uri| {
        let scheme = uri
            .scheme_str()
            .filter(|one| ["http", "https"].contains(one))?;
        Some(format!("{scheme}://{}", uri.authority()?))
    });
    if origin.as_deref() == Some(text) && text == text.to_lowercase() && !text.contains('@') {
        return Ok(());
    }
    let problem =
        format!("has {text:?}, which is no origin; must be like https://chat.example.org");
    Err(garde::Error::new(problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        for right in [
            "http://127.0.0.1:7308",
            "https://chat.example.org",
            "http://[::1]:7308",
        ] {
            assert!(is_origin(right, &()).is_ok(), "{right}");
        }
        for wrong in [
            "*",
            "null",
            "chat.example.org",
            "https://chat.example.org/",
            "https://Chat.example.org",
            "https://u:p@chat.example.org",
            "ftp://chat.example.org",
            "",
        ] {
            assert!(is_origin(wrong, &()).is_err(), "{wrong}");
        }
    }
}
