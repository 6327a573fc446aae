//! Calls of query-api about profiles.

use api::{ProfileItem, ProfileItems, Profiles};
use schemas::UserId;

use crate::{Client, ClientError, Query, ReadOptions};

impl Client {
    /// Reads a user's profile; `None` if none was set.
    ///
    /// # Errors
    /// The call was refused, or not answered in time.
    pub async fn profile(
        &self,
        user: UserId,
        options: &ReadOptions,
    ) -> Result<Option<ProfileItem>, ClientError> {
        Ok(self.profiles(&[user], options).await?.remove(&user))
    }

    /// Reads the profiles of up to 100 users; those who have set none are left out.
    ///
    /// # Errors
    /// As [`Client::profile`].
    pub async fn profiles(
        &self,
        users: &[UserId],
        options: &ReadOptions,
    ) -> Result<ProfileItems, ClientError> {
        let uids: Vec<String> = users.iter().map(UserId::to_string).collect();
        let query = Query::of("/v1/profiles").with("uid", [uids.join(",")]);
        let found: Profiles = self.ask(query, options).await?;
        Ok(found.profiles)
    }
}
