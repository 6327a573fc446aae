//! Unread messages.

use std::{collections::BTreeMap, sync::Arc};

use schemas::{DeviceClass, InboundPosition, UserId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// A user's unread messages on one class of device.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct UnreadAnswer {
    /// The receiver.
    #[schema(value_type = String, example = "1000")]
    pub uid: UserId,
    /// The class.
    #[schema(value_type = String, example = "pc")]
    pub device: DeviceClass,
    /// How many, by sender; nobody is at zero.
    #[schema(value_type = BTreeMap<String, i64>, example = json!({"1001": 3}))]
    pub unread: Arc<RawValue>,
    /// The sum of `unread`.
    #[schema(example = 3)]
    pub total: i64,
    /// Senders whose unread messages cannot be counted any more, because what was read last is no longer stored. Absent where there are none.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    #[schema(value_type = Option<Vec<String>>, example = json!(["1002"]))]
    pub unknown: Arc<[UserId]>,
    /// With `after=`: how far the store had come, by partition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<String>>, example = json!(["17:45"]))]
    pub as_of: Vec<InboundPosition>,
}

impl UnreadAnswer {
    /// How many, by sender.
    ///
    /// # Errors
    /// It is no such object.
    pub fn by_sender(&self) -> serde_json::Result<BTreeMap<UserId, i64>> {
        serde_json::from_str(self.unread.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_by_sender() {
        let text = r#"{"uid":"1000","device":"pc","unread":{"1001":3},"total":3}"#;
        let unread: UnreadAnswer = serde_json::from_str(text).unwrap();
        let sender = UserId::try_from(1001).unwrap();
        assert_eq!(unread.by_sender().unwrap(), BTreeMap::from([(sender, 3)]));
        assert!(unread.unknown.is_empty() && unread.as_of.is_empty());
        assert_eq!(serde_json::to_string(&unread).unwrap(), text);
    }
}
