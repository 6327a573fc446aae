use std::time::Duration;

use redis::RedisError;
use tokio::{sync::Mutex, time::Instant};

use crate::{Connection, Node, UnreadError};

/// For so long after a failed attempt nobody makes another: whoever waited for it gets its error, and not one attempt each.
const PAUSE: Duration = Duration::from_millis(100);

/// A connection for many readers, made anew after it failed. Writers own a [`Connection`] instead: they must notice.
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

    /// The current connection, or a new one. One call of [`Connection`] never spans two connections.
    ///
    /// # Errors
    /// [`UnreadError::Transient`] if none can be made, or none could be a tenth of a second ago.
    pub async fn get(&self) -> Result<Connection, UnreadError> {
        // Held while connecting, so that a hundred waiting readers make one connection.
        let mut current = self.current.lock().await;
        match &*current {
            Current::Connected(connection) if !connection.has_failed() => {
                return Ok(connection.clone());
            }
            Current::Failed { at, error } if at.elapsed() < PAUSE => {
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
