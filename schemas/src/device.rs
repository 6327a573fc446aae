use std::{
    fmt,
    ops::{Index, IndexMut},
    str::FromStr,
};

use serde::{Deserialize, Serialize};

use crate::{InvalidValue, ids::Excerpt, malformed::Malformed, proto};

/// The class of a device. A user has a read position for each class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceClass {
    /// Desktop clients.
    Pc,
    /// Phones.
    Mobile,
}

impl DeviceClass {
    /// Both classes.
    pub const ALL: [Self; 2] = [Self::Pc, Self::Mobile];

    /// `pc` or `mobile`, as in JSON and in Redis keys.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pc => "pc",
            Self::Mobile => "mobile",
        }
    }
}

impl fmt::Display for DeviceClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for DeviceClass {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        match text {
            "pc" => Ok(Self::Pc),
            "mobile" => Ok(Self::Mobile),
            _ => Err(InvalidValue::new(format!(
                "is {:?}; must be pc or mobile",
                Excerpt(text)
            ))),
        }
    }
}

/// A device's own id: 1–64 characters, `A`–`Z`, `a`–`z`, `0`–`9`, `.`, `_` and `-`. No two devices of a user have the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeviceId(String);

impl DeviceId {
    /// The maximum length.
    pub const MAX_CHARS: usize = 64;

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for DeviceId {
    type Error = InvalidValue;

    fn try_from(text: String) -> Result<Self, InvalidValue> {
        let is_plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
        if (1..=Self::MAX_CHARS).contains(&text.len()) && text.bytes().all(is_plain) {
            return Ok(Self(text));
        }
        Err(InvalidValue::new(format!(
            "is {:?}; must be 1 to 64 characters, A-Z, a-z, 0-9, '.', '_' and '-'",
            Excerpt(&text)
        )))
    }
}

impl From<DeviceId> for String {
    fn from(DeviceId(text): DeviceId) -> Self {
        text
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A value for each device class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PerDevice<T> {
    /// The value of [`DeviceClass::Pc`].
    pub pc: T,
    /// The value of [`DeviceClass::Mobile`].
    pub mobile: T,
}

impl<T> PerDevice<T> {
    /// Makes each class's value with `of`.
    pub fn from_fn(mut of: impl FnMut(DeviceClass) -> T) -> Self {
        Self {
            pc: of(DeviceClass::Pc),
            mobile: of(DeviceClass::Mobile),
        }
    }

    /// Applies `change` to each value.
    pub fn map<U>(self, mut change: impl FnMut(T) -> U) -> PerDevice<U> {
        PerDevice {
            pc: change(self.pc),
            mobile: change(self.mobile),
        }
    }

    /// Applies `merge` to the two values of each class.
    pub fn zip_with<U, V>(
        self,
        other: PerDevice<U>,
        mut merge: impl FnMut(T, U) -> V,
    ) -> PerDevice<V> {
        PerDevice {
            pc: merge(self.pc, other.pc),
            mobile: merge(self.mobile, other.mobile),
        }
    }

    /// The classes and their values.
    pub fn iter(&self) -> impl Iterator<Item = (DeviceClass, &T)> {
        DeviceClass::ALL
            .into_iter()
            .map(|device| (device, &self[device]))
    }
}

impl<T: Ord> PerDevice<T> {
    /// The larger value of each class.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        self.zip_with(other, T::max)
    }
}

impl<T> Index<DeviceClass> for PerDevice<T> {
    type Output = T;

    fn index(&self, device: DeviceClass) -> &T {
        match device {
            DeviceClass::Pc => &self.pc,
            DeviceClass::Mobile => &self.mobile,
        }
    }
}

impl<T> IndexMut<DeviceClass> for PerDevice<T> {
    fn index_mut(&mut self, device: DeviceClass) -> &mut T {
        match device {
            DeviceClass::Pc => &mut self.pc,
            DeviceClass::Mobile => &mut self.mobile,
        }
    }
}

/// A device class from its number in the `.proto` files.
///
/// # Errors
/// [`Malformed`] if there is no such class.
pub fn device_class(value: i32) -> Result<DeviceClass, Malformed> {
    match proto::DeviceClass::try_from(value) {
        Ok(proto::DeviceClass::Pc) => Ok(DeviceClass::Pc),
        Ok(proto::DeviceClass::Mobile) => Ok(DeviceClass::Mobile),
        _ => Err(Malformed::new(
            "device",
            format!("is {value}; must be 1 (pc) or 2 (mobile)"),
        )),
    }
}

impl From<DeviceClass> for proto::DeviceClass {
    fn from(device: DeviceClass) -> Self {
        match device {
            DeviceClass::Pc => Self::Pc,
            DeviceClass::Mobile => Self::Mobile,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_id_is_short_and_plain() {
        for text in ["a", "phone-1", "A.b_c-9", &"x".repeat(64)] {
            assert_eq!(DeviceId::try_from(text.to_owned()).unwrap().as_str(), text);
        }
        for text in ["", " ", "a b", "a/b", "ü", "a\n", &"x".repeat(65)] {
            assert!(DeviceId::try_from(text.to_owned()).is_err(), "{text:?}");
        }
        assert!(serde_json::from_str::<DeviceId>("\"a b\"").is_err());
    }
}
