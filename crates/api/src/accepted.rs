//! What ingest answers.

use schemas::{GroupId, InboundPosition, Partition};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where an accepted event is on `chat.inbound`; `after=<partition>:<offset>` of a query waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AcceptedBody {
    /// 0 to 63.
    #[schema(value_type = u8, maximum = 63, example = 17)]
    pub partition: Partition,
    /// From 0.
    #[schema(minimum = 0, example = 42)]
    pub offset: i64,
    /// The group that begins; absent for all other events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub gid: Option<GroupId>,
    /// The id of the send, given or generated; absent for all other events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_msg_id: Option<String>,
    /// The id of any other command, given or generated. A repeat with it changes nothing (from rule version 4 on).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_id: Option<String>,
}

impl AcceptedBody {
    /// Where it is in `chat.inbound`; `after=` of a query takes it.
    #[must_use]
    pub fn position(&self) -> InboundPosition {
        InboundPosition {
            partition: self.partition,
            offset: self.offset,
        }
    }
}
