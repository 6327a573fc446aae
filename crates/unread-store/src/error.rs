/// Why Redis did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum UnreadError {
    /// Redis could not be reached, did not answer in time, or refused (loading, read-only, out of memory).
    /// The connection is of no more use; what was sent may or may not have been done.
    #[error("redis: {0}")]
    Transient(#[source] redis::RedisError),
    /// The connection failed earlier: take a new one.
    #[error("this connection to redis failed earlier; a new one is needed")]
    Broken,
    /// A mark is not what was remembered: another writer or another past. Nothing was moved; read the marks again.
    #[error("the marks in redis are not those that were remembered")]
    MarksMoved,
    /// The node does not have all its marks (empty, flushed), so what is in it means nothing yet.
    #[error("redis has no marks yet: no projector has initialised it since it was emptied")]
    NotReady,
    /// A key holds what this crate never writes.
    #[error("{key} in redis holds what is not ours: {detail}; delete the key, and it is made anew")]
    Malformed {
        /// The key.
        key: String,
        /// What was wrong.
        detail: String,
    },
    /// The URL cannot be used.
    #[error("redis.url {0}")]
    Url(String),
}

impl UnreadError {
    /// Whether the same call on a new connection may succeed without anybody's help.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Transient(_) | Self::Broken)
    }

    pub(crate) fn malformed(key: &str, detail: impl ToString) -> Self {
        Self::Malformed {
            key: key.to_owned(),
            detail: detail.to_string(),
        }
    }
}
