use api::{InboundOutcome, Outcome};
use schemas::InboundPosition;

use crate::{Client, ClientError};

impl Client {
    /// Says what became of an accepted send, read-ack or change.
    ///
    /// # Errors
    /// There is no such record, the caller may not see it, or there was no answer in time.
    pub async fn outcome(&self, position: InboundPosition) -> Result<Outcome, ClientError> {
        let path = format!("/v1/inbound/{}/{}", position.partition, position.offset);
        let found: InboundOutcome = self.get(&path).await?;
        Ok(found.outcome)
    }
}
