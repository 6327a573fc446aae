use tokio::sync::Mutex;

use crate::{Connection, Node, UnreadError};

/// A connection for many readers, made anew after it failed. Writers own a [`Connection`] instead: they must notice.
#[derive(Debug)]
pub struct SharedConnection {
    node: Node,
    current: Mutex<Option<Connection>>,
}

impl SharedConnection {
    /// Connects on first use.
    #[must_use]
    pub fn new(node: Node) -> Self {
        Self {
            node,
            current: Mutex::new(None),
        }
    }

    /// The current connection, or a new one. One call of [`Connection`] never spans two connections.
    ///
    /// # Errors
    /// [`UnreadError::Transient`] if none can be made; the next call tries again.
    pub async fn get(&self) -> Result<Connection, UnreadError> {
        // Held while connecting, so that a hundred waiting readers make one connection.
        let mut current = self.current.lock().await;
        if let Some(connection) = current.as_ref().filter(|c| !c.has_failed()) {
            return Ok(connection.clone());
        }
        let connection = self.node.connect().await?;
        *current = Some(connection.clone());
        Ok(connection)
    }
}
