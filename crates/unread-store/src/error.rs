/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum UnreadError {
    /// Redis could not be reached, did not answer in time, or refused (loading, read-only, out of memory).
    /// The connection cannot be used any more; the outcome of the call is unknown.
    #[error("redis: {said}{hint}", said = said(.0), hint = hint(.0))]
    Transient(#[source] redis::RedisError),
    /// The connection failed in an earlier call; open a new one.
    #[error("this connection to redis failed earlier; a new one is needed")]
    Broken,
    /// A position is not the expected one: another writer has moved it, or Redis has lost its newest writes. Nothing was moved; read the
    /// positions again.
    #[error("the positions in redis are not those that were expected")]
    PositionsMoved,
    /// The slot does not have all its positions (it is empty or was flushed), so its contents cannot be used yet.
    #[error("redis has no positions yet: no projector has initialised it since it was emptied")]
    NotReady,
    /// A key has a value that this crate never writes.
    #[error("{key} in redis is invalid: {detail}; delete the key, and it is rebuilt")]
    Malformed {
        /// The key.
        key: String,
        /// What is wrong.
        detail: String,
    },
    /// The URL cannot be used.
    #[error("redis.url {0}")]
    Url(String),
    /// The files for TLS cannot be used.
    #[error("redis.{0}")]
    Tls(String),
}

const OTHER_NODE: &str = "the slot is on another node of the cluster, or on its way there; where redis.cluster is not set, set it";

const FULL: &str = "the server has as much as its maxmemory, and takes no writes: raise that";

fn is_full(error: &redis::RedisError) -> bool {
    error.code() == Some("OOM") || error.to_string().contains("\"OOM\": command not allowed")
}

/// The text of the server's error. For a transaction, the client would repeat it for each command.
fn said(error: &redis::RedisError) -> String {
    match is_full(error) {
        true => "OOM".to_owned(),
        false => error.to_string(),
    }
}

/// The setting that may be wrong, if the error shows it.
fn hint(error: &redis::RedisError) -> String {
    let setting = match error.code() {
        Some("NOPERM") => {
            "the user of redis.username has no permission for this; docs/SECURITY.md lists the permissions that each service needs"
        }
        // The code of a transaction's error differs from that of its commands.
        _ if is_full(error) => FULL,
        Some("MOVED" | "ASK" | "TRYAGAIN" | "CROSSSLOT") => OTHER_NODE,
        // The client says no more if a node refuses a transaction at its end.
        _ if error.to_string().contains("parsing multi response") => OTHER_NODE,
        _ if error.to_string().contains("cluster support disabled") => {
            "redis.cluster is set, and the server of redis.url is not a node of a cluster"
        }
        Some("WRONGPASS" | "NOAUTH") => {
            "redis.username and redis.password do not match those of the server"
        }
        _ if error.kind() == redis::ErrorKind::AuthenticationFailed => {
            "redis.username and redis.password do not match those of the server"
        }
        _ if error.to_string().contains("certificate") => {
            "no authority of redis.tls_ca has signed the server's certificate, or it is for another name than that in redis.url"
        }
        _ => return String::new(),
    };
    format!(" ({setting})")
}

impl UnreadError {
    /// Whether the same call on a new connection may succeed.
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
