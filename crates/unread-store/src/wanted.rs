use schemas::UserId;

use crate::{Connection, UnreadError};

impl Connection {
    /// Up to `most` of the users whose rebuild is wanted, any of them: a writer that starts goes on with them. Members that are no uid,
    /// which only a hand puts there, are removed.
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn wanted(&self, most: usize) -> Result<Vec<UserId>, UnreadError> {
        let mut cmd = redis::cmd("SRANDMEMBER");
        cmd.arg(self.keys().wanted()).arg(most);
        let members: Vec<Vec<u8>> = self.run_one(cmd).await?;
        let mut uids = Vec::with_capacity(members.len());
        let mut junk = Vec::new();
        for member in members {
            let uid = std::str::from_utf8(&member)
                .ok()
                .and_then(|text| text.parse().ok());
            match uid {
                Some(uid) => uids.push(uid),
                None => junk.push(member),
            }
        }
        if !junk.is_empty() {
            let mut cmd = redis::cmd("SREM");
            cmd.arg(self.keys().wanted()).arg(junk);
            self.run_one::<i64>(cmd).await?;
        }
        Ok(uids)
    }
}
