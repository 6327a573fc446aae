//! Parameters of path and query. Error texts are "is …; must be …"; `problem` prepends the parameter's name.

use std::{fmt, marker::PhantomData, ops::RangeInclusive, time::Duration};

use schemas::{
    ChangeSeq, DeviceClass, DirectConversation, Excerpt, GroupId, Mid, Partition, SyncToken, UserId,
};
use serde::{Deserialize, Deserializer, de};
use utoipa::IntoParams;

/// The query string of a call as a type: fields of its own, and those that calls share: `uid` of a group's member and `after`, each with an example, and
/// `timeout_ms`.
/// They are no type to `flatten`: through that serde takes a single `after=` for no list, and its errors do not name the parameter.
macro_rules! query_parameters {
    ($(#[$doc:meta])* struct $name:ident $(, uid = $uid:tt)? $(, after = $example:literal)? { $($fields:tt)* }) => {
        $(#[$doc])*
        #[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
        #[serde(deny_unknown_fields)]
        #[into_params(parameter_in = Query)]
        pub(crate) struct $name {
            $(
                /// The member who asks.
                #[param(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = $uid)]
                pub(super) uid: schemas::UserId,
            )?
            $($fields)*
            $(
                /// `<partition>:<offset>` of a 202: the answer reflects at least this event; or a device's token, for what that covers. May be repeated, up to 64
                /// times.
                #[serde(default)]
                #[param(example = json!([$example]))]
                pub(super) after: Vec<String>,
            )?
            /// How long the call may take, milliseconds; 5000 where absent.
            #[param(value_type = Option<u16>, minimum = 1, maximum = 30_000)]
            pub(super) timeout_ms: Option<$crate::parameters::TimeoutMs>,
        }
    };
}
pub(crate) use query_parameters;

query_parameters! {
    /// Of a call without other parameters.
    struct CallTimeout {}
}

/// A user in a path.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct UserPath {
    /// The user.
    #[param(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "1000")]
    pub(crate) uid: UserId,
}

/// Whose conversation with whom.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct ConversationPath {
    /// The user who asks.
    #[param(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "1000")]
    pub(crate) uid: UserId,
    /// The other side; the same in a note to oneself.
    #[param(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "1001")]
    pub(crate) peer: UserId,
}

impl ConversationPath {
    pub(crate) fn conversation(&self) -> DirectConversation {
        DirectConversation::new(self.uid, self.peer)
    }
}

/// A group in a path.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct GroupPath {
    /// The group.
    #[param(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "5000")]
    pub(crate) gid: GroupId,
}

/// `limit`, with what it is where absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Limit<const DEFAULT: u16 = 50, const MAX: u16 = 200>(u16);

/// `limit` of a list of groups.
pub(crate) type GroupsLimit = Limit<100, 500>;

/// `limit` of a sync.
pub(crate) type SyncLimit = Limit<200, 1_000>;

impl<const DEFAULT: u16, const MAX: u16> Limit<DEFAULT, MAX> {
    pub(crate) const MAX: Self = Self(MAX);

    pub(crate) fn get(self) -> usize {
        self.0.into()
    }

    /// One more item shows whether there is a next page.
    pub(crate) fn and_one(self) -> u32 {
        u32::from(self.0) + 1
    }

    /// Cuts rows, of which one more was read, to a page. Returns the page's last one if there is a next page.
    pub(crate) fn cut<T>(self, rows: &mut Vec<T>) -> Option<&T> {
        let more = rows.len() > self.get();
        rows.truncate(self.get());
        rows.last().filter(|_| more)
    }
}

impl<const DEFAULT: u16, const MAX: u16> Default for Limit<DEFAULT, MAX> {
    fn default() -> Self {
        Self(DEFAULT)
    }
}

impl<const DEFAULT: u16, const MAX: u16> TryFrom<String> for Limit<DEFAULT, MAX> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        whole_number(&text, 1..=MAX).map(Self)
    }
}

/// Types of parameters, each with what its text means or why it is refused.
macro_rules! parsed {
    ($($(#[$attribute:meta])* $name:ident($type:ty), |$text:ident| $value:expr;)*) => {$(
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
        #[serde(try_from = "String")]
        pub(crate) struct $name(pub(crate) $type);

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                let $text = text.as_str();
                $value.map(Self).map_err(|error| error.to_string())
            }
        }
    )*};
}

parsed! {
    /// `since`; `None` for a token of an unknown version.
    Since(Option<SyncToken>), |text| SyncToken::parse_any_version(text);

    /// `timeout_ms`
    #[derive(Copy)]
    TimeoutMs(u16), |text| whole_number(text, 1..=Self::MAX.0);

    /// `device`
    #[derive(Copy)]
    Device(DeviceClass), |text| text.parse().map_err(|_| format!("is {:?}; must be pc or mobile", Excerpt(text)));

    /// `profiles`
    #[derive(Copy, Default)]
    Switch(bool), |text| text.parse().map_err(|_| format!("is {:?}; must be true or false", Excerpt(text)));

    /// `before_mid` and `after_mid`: a message's number, or 0.
    #[derive(Copy)]
    MidBound(Mid), |text| Mid::try_from(whole_number(text, 0..=i64::MAX)?);

    /// `after_chg`: a change's number, or 0.
    #[derive(Copy, Default)]
    ChgBound(ChangeSeq), |text| ChangeSeq::try_from(whole_number(text, 0..=i64::MAX)?);

    /// `after_own_pos`: an offset in `chat.events`, or 0.
    #[derive(Copy, Default)]
    OffsetBound(i64), |text| whole_number(text, 0..=i64::MAX);

    /// A partition in a path; see [`from_path`].
    #[derive(Copy)]
    PathPartition(Partition), |text| Partition::try_from(whole_number(text, 0..=63_i64)?);

    /// An offset in a path; see [`from_path`]. The next one has to be representable, too.
    #[derive(Copy)]
    PathOffset(i64), |text| whole_number(text, 0..=i64::MAX - 1);
}

impl TimeoutMs {
    pub(crate) const MAX: Self = Self(30_000);

    pub(crate) fn get(self) -> u16 {
        self.0
    }

    pub(crate) fn duration(self) -> Duration {
        Duration::from_millis(self.0.into())
    }
}

impl Default for TimeoutMs {
    fn default() -> Self {
        Self(5_000)
    }
}

/// Deserializes a path parameter, by a visitor: only then axum adds the parameter's name to an error.
pub(crate) fn from_path<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<String, Error = String>,
{
    struct Visitor<T>(PhantomData<T>);

    impl<T: TryFrom<String, Error = String>> de::Visitor<'_> for Visitor<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            text.to_owned().try_into().map_err(E::custom)
        }
    }

    deserializer.deserialize_str(Visitor(PhantomData))
}

/// Parses a decimal number without a sign and leading zeros.
fn whole_number<N>(text: &str, range: RangeInclusive<N>) -> Result<N, String>
where
    N: TryFrom<i64> + Into<i64> + Copy,
{
    let (low, high): (i64, i64) = ((*range.start()).into(), (*range.end()).into());
    let plain = text.bytes().all(|c| c.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse()
        .ok()
        .filter(|number| plain && (low..=high).contains(number))
        .and_then(|number| N::try_from(number).ok())
        .ok_or_else(|| {
            format!(
                "is {:?}; must be a whole number from {low} to {high}",
                Excerpt(text)
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(text: &str) -> Result<Limit, String> {
        text.to_owned().try_into()
    }

    #[test]
    fn bounds_are_exact() {
        assert_eq!(limit("1"), Ok(Limit(1)));
        assert_eq!(limit("200"), Ok(Limit::MAX));
        for text in [
            "0",
            "201",
            "-1",
            "+1",
            "01",
            " 1",
            "1 ",
            "",
            "1.0",
            "x",
            "99999999999999999999",
        ] {
            assert!(limit(text).is_err(), "{text:?}");
        }
        assert!(TimeoutMs::try_from("30000".to_owned()).is_ok());
        assert!(TimeoutMs::try_from("30001".to_owned()).is_err());
        assert!(MidBound::try_from(i64::MAX.to_string()).is_ok());
        assert!(PathPartition::try_from("64".to_owned()).is_err());
        assert!(PathOffset::try_from(i64::MAX.to_string()).is_err());
    }

    #[test]
    fn an_error_says_what_is_right_and_quotes_little() {
        assert_eq!(
            limit("many").unwrap_err(),
            "is \"many\"; must be a whole number from 1 to 200"
        );
        assert!(limit(&"9".repeat(10_000)).unwrap_err().len() < 120);
        assert_eq!(
            Device::try_from("tv".to_owned()).unwrap_err(),
            "is \"tv\"; must be pc or mobile"
        );
    }
}
