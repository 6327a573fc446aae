//! The problems that an append can end with.

use problem::{Problem, ProblemKind};
use schemas::kind::Retry;

use crate::{fair_pool::Full, post::RetryId};

/// Seconds after which a failed append may be retried.
const RETRY_AFTER_S: u64 = 1;

/// 503: the record may be on the log or not, and a repeat with the same id is the same command. Below rule version 4 only the id of a message is recognised,
/// so a repeat of another command may also cover what came meanwhile.
pub fn unknown_outcome(retry: Retry, id: RetryId) -> Problem {
    let mut problem = Problem::unknown_outcome(retry.advice(), id.client_msg_id);
    problem.command_id = id.command_id;
    problem.with_retry_after_s(RETRY_AFTER_S)
}

/// 503: the record is certainly not on the log.
pub fn not_appended() -> Problem {
    Problem::unavailable(
        "the log does not take this record at present; nothing was done",
        RETRY_AFTER_S,
    )
}

/// 503: the process stops.
pub fn stopping() -> Problem {
    Problem::unavailable(
        "the service is stopping; nothing was done from here on",
        RETRY_AFTER_S,
    )
}

/// 429: there is no space for the request, or its space was taken away.
pub fn over_capacity(full: Full) -> Problem {
    let detail = match full {
        Full::Own => return Problem::own_share_in_use(RETRY_AFTER_S),
        Full::Server => return Problem::too_many_requests(RETRY_AFTER_S),
        Full::TakenAway => {
            "its place was needed for another caller: this one held more, or had made no progress for a second; nothing was done from here on, try again later"
        }
    };
    Problem::new(ProblemKind::TooManyRequests, detail).with_retry_after_s(RETRY_AFTER_S)
}
