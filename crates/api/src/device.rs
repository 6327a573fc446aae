//! Devices of users.

use schemas::{DeviceClass, DeviceId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A user's devices.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Devices {
    /// Those seen last, up to 100, the newest first.
    pub items: Vec<DeviceItem>,
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceItem {
    /// Its own id.
    #[schema(value_type = String, example = "phone-1")]
    pub device: DeviceId,
    /// `pc` or `mobile`.
    #[schema(value_type = String, example = "mobile")]
    pub class: DeviceClass,
    /// What the user calls it; may be empty.
    #[schema(example = "Ann's phone")]
    pub name: String,
    /// Its newest token, with which a device that has lost its own goes on: `since` of a sync.
    #[schema(
        example = "AQAAAAABAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    )]
    pub token: String,
    /// When it had handled what its token covers, UTC.
    #[schema(example = "2025-11-21T08:00:00.123Z")]
    pub seen_at: String,
}
