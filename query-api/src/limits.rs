//! Limits of every call: the length of its URI, the number of concurrent calls of all callers and of one user, the time it may take.

use std::{sync::Arc, time::Duration};

use access::{Caller, CallerQuota};
use axum::{
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
};
use problem::Problem;
use tokio::time::timeout;
use utoipa_axum::router::OpenApiRouter;

use crate::{config::QueryApiConfig, parameters::TimeoutMs};

/// The maximum length of path and query. 64 positions of `after=` and a cursor need less than half of it.
const MAX_URI_BYTES: usize = 4_096;

/// Added to the maximum of `timeout_ms`; calls end at their own deadline, unless there is a bug.
const GRACE: Duration = Duration::from_secs(5);

const RETRY_AFTER_S: u64 = 1;

/// Puts the limits around `calls`. They have to run behind [`access::Access::guard`], which identifies the caller.
pub(crate) fn apply<S: Clone + Send + Sync + 'static>(
    calls: OpenApiRouter<S>,
    config: &QueryApiConfig,
) -> OpenApiRouter<S> {
    let quota = CallerQuota::new(config.max_requests, config.max_requests_of_user);
    calls.route_layer(from_fn_with_state(quota, enforce))
}

async fn enforce(
    State(quota): State<Arc<CallerQuota>>,
    caller: Caller,
    request: Request,
    next: Next,
) -> Response {
    if let Err(problem) = check_length(&request) {
        return problem.into_response();
    }
    let Some(_permit) = quota.try_acquire(&caller, 1) else {
        return Problem::too_many_requests(RETRY_AFTER_S).into_response();
    };
    match timeout(TimeoutMs::MAX.duration() + GRACE, next.run(request)).await {
        Ok(response) => response,
        Err(_elapsed) => Problem::timeout("the call took too long").into_response(),
    }
}

fn check_length(request: &Request) -> Result<(), Problem> {
    let uri = request.uri();
    let bytes = uri.path().len() + uri.query().map_or(0, str::len);
    if bytes <= MAX_URI_BYTES {
        return Ok(());
    }
    let wrong = format!("has {bytes} bytes");
    let right = format!("{MAX_URI_BYTES} bytes at most");
    Err(Problem::invalid_field("path and query", wrong, right))
}
