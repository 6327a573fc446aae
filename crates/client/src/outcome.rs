use std::time::Instant;

use api::{InboundOutcome, Outcome};
use backon::BackoffBuilder as _;
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

    /// The same, asked again while it is pending; [`Outcome::Pending`] only if time is up.
    ///
    /// # Errors
    /// As [`Client::outcome`].
    pub async fn final_outcome(&self, position: InboundPosition) -> Result<Outcome, ClientError> {
        let began = Instant::now();
        let mut pauses = self.retry.pauses().build();
        loop {
            let outcome = self.outcome(position).await?;
            if outcome != Outcome::Pending || began.elapsed() >= self.retry.within {
                return Ok(outcome);
            }
            tokio::time::sleep(pauses.next().unwrap_or_default()).await;
        }
    }
}
