//! Authentication of requests, before their bodies are read.

use std::time::Duration;

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::header,
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
};
use futures::StreamExt as _;
use time::OffsetDateTime;
use tokio::time::{Instant, timeout_at};
use utoipa_axum::router::OpenApiRouter;

use crate::{access::Access, caller::Caller, description, metrics};

/// How much of a refused request is still read after the response, and how long. A client that is still writing would see its connection
/// reset instead of the response.
const DRAIN_BYTES: usize = 1024 * 1024;
const DRAIN_TIME: Duration = Duration::from_secs(2);

impl Access {
    /// Requires authentication for `calls` and describes it in their OpenAPI document. Handlers can extract the
    /// [`Caller`], and `Extension<Access>` to charge more to it.
    pub fn guard<S: Clone + Send + Sync + 'static>(
        &self,
        calls: OpenApiRouter<S>,
    ) -> OpenApiRouter<S> {
        let mut calls = calls.route_layer(from_fn_with_state(self.clone(), authenticate));
        description::add_access(calls.get_openapi_mut());
        calls
    }
}

/// Requires the scope `admin` for `router`.
pub(crate) fn for_operators(access: Access, router: Router) -> Router {
    router
        .route_layer(axum::middleware::from_fn(require_operator))
        .route_layer(from_fn_with_state(access, authenticate))
}

async fn authenticate(State(access): State<Access>, mut request: Request, next: Next) -> Response {
    let awaits_continue = awaits_continue(&request);
    let refused = match access
        .caller_of(request.headers(), OffsetDateTime::now_utc())
        .await
    {
        Ok((caller, until)) => match access.charge_request(&caller) {
            Ok(()) => {
                request.extensions_mut().insert(caller);
                request.extensions_mut().insert(until);
                request.extensions_mut().insert(access);
                return next.run(request).await;
            }
            Err(problem) => problem.into_response(),
        },
        Err(refusal) => {
            metrics::refused(refusal);
            tracing::debug!(reason = refusal.label(), "a request was refused");
            refusal.into_response()
        }
    };
    // A client that waits for 100 Continue does not get it: the server closes the connection, since it would take the next request for the body.
    if !awaits_continue {
        tokio::spawn(drain(request.into_body()));
    }
    refused
}

fn awaits_continue(request: &Request) -> bool {
    let expectation = request.headers().get(header::EXPECT);
    expectation.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

async fn require_operator(caller: Caller, request: Request, next: Next) -> Response {
    match caller.may_administer() {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

async fn drain(body: Body) {
    let deadline = Instant::now() + DRAIN_TIME;
    let mut chunks = body.into_data_stream();
    let mut seen = 0;
    while let Ok(Some(Ok(chunk))) = timeout_at(deadline, chunks.next()).await {
        seen += chunk.len();
        if seen > DRAIN_BYTES {
            return;
        }
    }
}
