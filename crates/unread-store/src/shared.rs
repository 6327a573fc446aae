use std::time::Duration;

use redis::RedisError;
use tokio::{sync::Mutex, time::Instant};

use crate::{Connection, Node, UnreadError};

/// How long callers get the error of a failed attempt, instead of one attempt each.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// A connection for many readers, which is replaced after it failed. Writers own a [`Connection`] instead, since they must notice
/// the failure.
#[derive(Debug)]
pub struct SharedConnection {
    node: Node,
    current: Mutex<Current>,
}

#[derive(Debug)]
enum Current {
    None,
    Connected(Connection),
    Failed { at: Instant, error: RedisError },
}

impl SharedConnection {
    /// Connects on first use.
    #[must_use]
    pub fn new(node: Node) -> Self {
        Self {
            node,
            current: Mutex::new(Current::None),
        }
    }

    /// The current connection, or a new one.
    ///
    /// # Errors
    /// [`UnreadError::Transient`] if connecting fails, or failed less than a tenth of a second ago.
    pub async fn get(&self) -> Result<Connection, UnreadError> {
        // Held while connecting, so that a hundred waiting readers open one connection.
        let mut current = self.current.lock().await;
        match &*current {
            Current::Connected(connection) if !connection.has_failed() => {
                return Ok(connection.clone());
            }
            Current::Failed { at, error } if at.elapsed() < RETRY_PAUSE => {
                return Err(UnreadError::Transient(error.clone()));
            }
            _ => {}
        }
        match self.node.connect().await {
            Ok(connection) => {
                *current = Current::Connected(connection.clone());
                Ok(connection)
            }
            Err(error) => {
                if let UnreadError::Transient(error) = &error {
                    *current = Current::Failed {
                        at: Instant::now(),
                        error: error.clone(),
                    };
                }
                Err(error)
            }
        }
    }
}
