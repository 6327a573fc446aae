/// Why Redis did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum UnreadError {
    /// Redis could not be reached, did not answer in time, or refused (loading, read-only, out of memory).
    /// The connection is of no more use; what was sent may or may not have been done.
    #[error("redis: {0}{hint}", hint = hint(.0))]
    Transient(#[source] redis::RedisError),
    /// The connection failed earlier: take a new one.
    #[error("this connection to redis failed earlier; a new one is needed")]
    Broken,
    /// A watermark is not what was remembered: another writer or another past. Nothing was moved; read the watermarks again.
    #[error("the watermarks in redis are not those that were remembered")]
    MarksMoved,
    /// The node does not have all its watermarks (empty, flushed), so what is in it means nothing yet.
    #[error("redis has no watermarks yet: no projector has initialised it since it was emptied")]
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
    /// The files for TLS cannot be used.
    #[error("redis.{0}")]
    Tls(String),
}

/// Which setting may be wrong, where the error tells.
fn hint(error: &redis::RedisError) -> String {
    let setting = match error.code() {
        Some("NOPERM") => {
            "the user of redis.username may not do this; docs/SECURITY.md has the rules that each service needs"
        }
        Some("WRONGPASS" | "NOAUTH") => {
            "redis.username and redis.password are not what the server knows"
        }
        _ if error.kind() == redis::ErrorKind::AuthenticationFailed => {
            "redis.username and redis.password are not what the server knows"
        }
        _ if error.to_string().contains("certificate") => {
            "no authority of redis.tls_ca has signed the server's certificate, or it is for another name than that in redis.url"
        }
        _ => return String::new(),
    };
    format!(" ({setting})")
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
