//! Named sets of settings, each for a different goal of a deployment.

use serde::{
    Deserialize, Serialize,
    de::{
        IntoDeserializer as _,
        value::{self, StrDeserializer},
    },
};

use super::{ConfigError, setting::Setting};

/// The goal of the settings of all services. Settings of any other source override those of a profile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Messages arrive soon: the built-in defaults.
    #[default]
    Latency,
    /// Little work for each message, at the price of some hundred milliseconds: messages wait for a batch.
    Throughput,
}

/// The setting that names the profile.
const SECTION: &str = "runtime";
const KEY: &str = "profile";

impl Profile {
    /// The profile that the settings name last.
    pub(super) fn named_in(settings: &[Setting]) -> Result<Self, ConfigError> {
        let named = settings.iter().rev();
        let named = named.filter(|setting| setting.section == SECTION && setting.is_of(KEY));
        let Some((text, origin)) = named.map(Setting::text_and_origin).next() else {
            return Ok(Self::default());
        };
        let known = text.and_then(|text| {
            let text: StrDeserializer<'_, value::Error> = text.into_deserializer();
            Self::deserialize(text).ok()
        });
        known.ok_or_else(|| {
            ConfigError::value(
                origin,
                format!("{SECTION}.{KEY}"),
                format!(
                    "is {}, which is no profile; must be latency or throughput",
                    text.map_or_else(|| "no text".to_owned(), |text| format!("{text:?}"))
                ),
            )
        })
    }

    /// The settings of the profile, as `section.key` and value.
    pub(super) fn settings(self) -> impl Iterator<Item = Setting> {
        let said: &[(&str, &str, i64)] = match self {
            Self::Latency => &[],
            Self::Throughput => THROUGHPUT,
        };
        let setting = |(section, key, value): &(&str, &str, i64)| {
            Setting::from_profile("throughput", section, key, *value)
        };
        said.iter().map(setting)
    }
}

/// docs/CAPACITY.md lists these settings beside the defaults.
const THROUGHPUT: &[(&str, &str, i64)] = &[
    ("kafka", "fetch_wait_ms", 100),
    ("ingest", "batch_linger_ms", 100),
    ("sequencer", "linger_ms", 100),
    ("projector_unread", "interval_ms", 200),
    ("projector_mysql", "messages_interval_ms", 1_000),
    ("projector_mysql", "contacts_interval_ms", 5_000),
];
