use schemas::{DeviceClass, DirectConversation, Mid, UserId};

/// Up to where someone has read, per device class; 0 is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadMids {
    /// On pc.
    pub pc: Mid,
    /// On mobile.
    pub mobile: Mid,
}

impl ReadMids {
    /// The position on one class of device.
    #[must_use]
    pub fn on(self, device: DeviceClass) -> Mid {
        match device {
            DeviceClass::Pc => self.pc,
            DeviceClass::Mobile => self.mobile,
        }
    }

    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            pc: self.pc.max(other.pc),
            mobile: self.mobile.max(other.mobile),
        }
    }
}

/// A read position to be written to `read_chat_mid_<n>`, or as it stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRow {
    /// Who read.
    pub uid: UserId,
    /// What.
    pub conversation: DirectConversation,
    /// Up to where.
    pub mids: ReadMids,
}

/// A row of `read_chat_mid_<n>` as a scan finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredRead {
    /// The row's number in its table; means nothing beyond the order of a scan.
    pub id: i64,
    /// What it holds.
    pub row: ReadRow,
}
