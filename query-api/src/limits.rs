//! Limits of every call: the length of its URI, the number of calls (of all callers and of one user), how many are processed, and how long it may
//! take.

use std::{sync::Arc, time::Duration};

use access::{Caller, CallerQuota, QuotaPermit};
use axum::{
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
};
use problem::Problem;
use tokio::{sync::Semaphore, time::timeout};
use utoipa_axum::router::OpenApiRouter;

use crate::{call_slot::CallSlot, config::QueryApiConfig, parameters::TimeoutMs};

/// The maximum length of path and query. 64 positions of `after=` and a cursor need less than half of it.
const MAX_URI_BYTES: usize = 4_096;

/// Added to the maximum of `timeout_ms`; calls end at their own deadline, unless there is a bug.
const GRACE: Duration = Duration::from_secs(5);

const RETRY_AFTER_S: u64 = 1;

/// Puts the limits around `calls`. They have to run after [`access::Access::guard`], which identifies the caller.
pub(crate) fn apply<S: Clone + Send + Sync + 'static>(
    calls: OpenApiRouter<S>,
    config: &QueryApiConfig,
) -> OpenApiRouter<S> {
    calls.route_layer(from_fn_with_state(Arc::new(Limits::new(config)), enforce))
}

struct Limits {
    /// The calls under way, also those that wait.
    calls: Arc<CallerQuota>,
    /// The slots of the calls that are being processed.
    slots: Arc<Semaphore>,
}

impl Limits {
    fn new(config: &QueryApiConfig) -> Self {
        let all = config.max_requests + config.max_waiting;
        Self {
            calls: CallerQuota::new(all, config.max_requests_of_user),
            slots: Arc::new(Semaphore::new(config.max_requests)),
        }
    }

    fn try_take(&self, caller: &Caller) -> Option<(QuotaPermit, Arc<CallSlot>)> {
        let permit = self.calls.try_acquire(caller, 1)?;
        Some((permit, CallSlot::try_take(&self.slots)?))
    }
}

async fn enforce(
    State(limits): State<Arc<Limits>>,
    caller: Caller,
    mut request: Request,
    next: Next,
) -> Response {
    if let Err(problem) = check_length(&request) {
        return problem.into_response();
    }
    let Some((_permit, slot)) = limits.try_take(&caller) else {
        return Problem::too_many_requests(RETRY_AFTER_S).into_response();
    };
    request.extensions_mut().insert(slot);
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
