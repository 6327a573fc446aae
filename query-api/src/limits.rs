//! Limits of every call: the length of its URI, the number of concurrent calls of all callers and of one user, the time it may take.

use std::{sync::Arc, time::Duration};

use access::{Caller, CallerQuota, QuotaPermit};
use axum::{
    extract::{Query, Request, State},
    http::Uri,
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
    let places = Arc::new(Places::new(config));
    calls.route_layer(from_fn_with_state(places, enforce))
}

/// The places of calls. Those that may wait keep theirs for long: half of the places, in total and of each user, are never theirs.
struct Places {
    all: Arc<CallerQuota>,
    waiting: Arc<CallerQuota>,
}

impl Places {
    fn new(config: &QueryApiConfig) -> Self {
        let (total, of_user) = (config.max_requests, config.max_requests_of_user);
        Self {
            all: CallerQuota::new(total, of_user),
            waiting: CallerQuota::new(total.div_ceil(2), of_user.div_ceil(2)),
        }
    }

    /// The permits of a call; `None` where there is no place for it.
    fn try_acquire(&self, caller: &Caller, uri: &Uri) -> Option<Vec<QuotaPermit>> {
        let waiting = may_wait(uri).then_some(&self.waiting);
        let quotas = waiting.into_iter().chain([&self.all]);
        quotas.map(|quota| quota.try_acquire(caller, 1)).collect()
    }
}

/// For `after=` or `since=`, or for a reader of the log. What cannot be parsed is refused at once, so it does not matter which place it takes.
fn may_wait(uri: &Uri) -> bool {
    uri.path().starts_with("/v1/inbound/")
        || Query::<Vec<(String, String)>>::try_from_uri(uri).is_ok_and(|Query(parameters)| {
            parameters
                .iter()
                .any(|(name, _)| name == "after" || name == "since")
        })
}

async fn enforce(
    State(places): State<Arc<Places>>,
    caller: Caller,
    request: Request,
    next: Next,
) -> Response {
    if let Err(problem) = check_length(&request) {
        return problem.into_response();
    }
    let Some(_permits) = places.try_acquire(&caller, request.uri()) else {
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
