//! What is counted of callers. No label has a user's name.

use crate::{refusal::Refusal, source_status::KEYS_CURRENT};

const REFUSED: &str = "tidemark_auth_refused_total";
const LIMITED: &str = "tidemark_auth_rate_limited_total";

pub(crate) fn describe() {
    metrics::describe_counter! { REFUSED, "Requests that were not let in, by reason" }
    metrics::describe_counter! { LIMITED, "Requests and events above the rate of their caller" }
    metrics::describe_gauge! { KEYS_CURRENT, "1 where the keys in use are what their source said last, 0 where it cannot be read" }
}

pub(crate) fn refused(refusal: Refusal) {
    metrics::counter!(REFUSED, "reason" => refusal.label()).increment(1);
}

pub(crate) fn limited(of: &'static str) {
    metrics::counter!(LIMITED, "of" => of).increment(1);
}
