use schemas::UserId;

use crate::{Connection, UnreadError};

impl Connection {
    /// Users whose rebuild is wanted: a writer that starts goes on with them.
    ///
    /// # Errors
    /// [`UnreadError::Transient`], [`UnreadError::Malformed`].
    pub async fn wanted(&self) -> Result<Vec<UserId>, UnreadError> {
        let key = self.keys().wanted();
        let mut cmd = redis::cmd("SMEMBERS");
        cmd.arg(&key);
        let uids: Vec<String> = self.run_one(cmd).await?;
        uids.iter()
            .map(|uid| uid.parse().map_err(|e| UnreadError::malformed(&key, e)))
            .collect()
    }
}
