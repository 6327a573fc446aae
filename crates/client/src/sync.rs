//! What is new for a device, and the devices of a user.

use api::{DeviceItem, Devices, SyncAnswer};
use schemas::{SyncToken, UserId};

use crate::{Client, ClientError, Query, ReadOptions};

impl Client {
    /// Asks what has changed for a user since a token; everything without one. Up to `limit` rows, at most 1,000; 200 if absent.
    ///
    /// # Errors
    /// The call was refused, or not answered in time.
    pub async fn sync(
        &self,
        user: UserId,
        since: Option<&SyncToken>,
        limit: Option<u16>,
    ) -> Result<SyncAnswer, ClientError> {
        let query = Query::of(format!("/v1/users/{user}/sync"))
            .with("since", since)
            .with("limit", limit);
        self.ask(query, &ReadOptions::default()).await
    }

    /// Lists the devices of a user, the one seen last first.
    ///
    /// # Errors
    /// The call was refused, or not answered in time.
    pub async fn devices(&self, user: UserId) -> Result<Vec<DeviceItem>, ClientError> {
        let path = format!("/v1/users/{user}/devices");
        let devices: Devices = self.get(&path).await?;
        Ok(devices.items)
    }
}
