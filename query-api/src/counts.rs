use std::{collections::BTreeMap, sync::Arc};

use schemas::UserId;
use serde_json::value::{RawValue, to_raw_value};

use crate::{after::Watermarks, error::QueryError};

/// The result of reading a user's unread counts in Redis.
#[derive(Clone)]
pub(crate) enum RedisRead {
    /// The counts, and the watermarks of Redis.
    Complete(Counts, Watermarks),
    /// The user has more peers than one call to Redis reads.
    Large,
    /// The user has to be rebuilt first.
    Absent,
    /// Redis failed; the reason.
    Failed(String),
}

/// A user's unread messages on one class of device, as in the answer. A clone costs little.
#[derive(Clone)]
pub(crate) struct Counts {
    /// How many, by sender.
    pub(crate) by_sender: Arc<RawValue>,
    pub(crate) total: i64,
    pub(crate) unknown: Arc<[UserId]>,
}

impl Counts {
    /// # Errors
    /// [`QueryError::Defect`] if they cannot be encoded as JSON.
    pub(crate) fn new(
        by_sender: &BTreeMap<UserId, i64>,
        unknown: Vec<UserId>,
    ) -> Result<Self, QueryError> {
        let json = to_raw_value(by_sender).map_err(|e| QueryError::Defect(e.to_string()))?;
        Ok(Self {
            by_sender: json.into(),
            total: by_sender.values().sum(),
            unknown: unknown.into(),
        })
    }
}
