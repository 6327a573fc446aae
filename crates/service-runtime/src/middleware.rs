//! The layers around every HTTP call.

use std::any::Any;
use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderName, Method};
use axum::middleware::{Next, from_fn, map_request};
use axum::response::{IntoResponse as _, Response};
use problem::Problem;
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer};
use tower_http::trace::TraceLayer;
use tracing::{Span, info_span};

use crate::list_headers;
use crate::metrics::{HTTP_DURATION, HTTP_REQUESTS};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Adds the request id, the trace span, lists of headers in one line each, the metrics of rate, errors and duration, and an answer for panics. Limits
/// on bodies and time are the service's own. Apply it last, once: it covers the routes and fallbacks that `router` has by then.
pub fn middleware(router: Router) -> Router {
    router.layer(
        ServiceBuilder::new()
            .layer(SetRequestIdLayer::new(REQUEST_ID, MakeRequestUuid))
            .layer(
                TraceLayer::new_for_http()
                    .make_span_with(request_span)
                    // The handler that responds with a 5xx logs the cause; a full queue or a failing readiness check is not an error.
                    .on_failure(()),
            )
            .layer(PropagateRequestIdLayer::new(REQUEST_ID))
            .layer(from_fn(record))
            .layer(map_request(list_headers::join))
            .layer(CatchPanicLayer::custom(answer_panic)),
    )
}

fn request_span<B>(request: &axum::http::Request<B>) -> Span {
    let id = request
        .headers()
        .get(REQUEST_ID)
        .and_then(|id| id.to_str().ok())
        .unwrap_or_default();
    info_span!("http", method = %request.method(), path = request.uri().path(), request_id = id)
}

fn answer_panic(_panic: Box<dyn Any + Send>) -> Response {
    // The panic hook has written its message and place.
    tracing::error!("the handler panicked");
    Problem::internal().into_response()
}

/// Counts by the route's pattern, never by the path itself: there are as many paths as users.
async fn record(request: Request, next: Next) -> Response {
    let method = method_label(request.method());
    let path = match request.extensions().get::<MatchedPath>() {
        Some(pattern) => pattern.as_str().to_owned(),
        None => "unmatched".to_owned(),
    };
    let start = Instant::now();
    let response = next.run(request).await;
    let status = response.status().as_str().to_owned();
    metrics::histogram!(HTTP_DURATION, "method" => method, "path" => path.clone())
        .record(start.elapsed());
    metrics::counter!(HTTP_REQUESTS, "method" => method, "path" => path, "status" => status)
        .increment(1);
    response
}

/// A caller may invent methods, which must not become labels.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "OTHER",
    }
}
