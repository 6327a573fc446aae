use schemas::UserId;

use crate::{Connection, UnreadError};

impl Connection {
    /// Up to `limit` users for whom a rebuild is requested, in no order: a projector that starts continues with them. Members that are
    /// not uids, which only a person can have added, are removed.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn rebuild_requests(&self, limit: usize) -> Result<Vec<UserId>, UnreadError> {
        let mut cmd = redis::cmd("SRANDMEMBER");
        cmd.arg(self.keys().rebuild_requests()).arg(limit);
        let members: Vec<Vec<u8>> = self.run_one(cmd).await?;
        let mut uids = Vec::with_capacity(members.len());
        let mut invalid = Vec::new();
        for member in members {
            let uid = std::str::from_utf8(&member)
                .ok()
                .and_then(|text| text.parse().ok());
            match uid {
                Some(uid) => uids.push(uid),
                None => invalid.push(member),
            }
        }
        if !invalid.is_empty() {
            let mut cmd = redis::cmd("SREM");
            cmd.arg(self.keys().rebuild_requests()).arg(invalid);
            self.run_one::<i64>(cmd).await?;
        }
        Ok(uids)
    }
}
