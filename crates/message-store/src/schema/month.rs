use std::{fmt, str::FromStr};

use schemas::TimestampMs;

use crate::{StoreError, datetime};

/// A calendar month in UTC, one range partition of every `chat_msg_<n>`. Written `2026-11`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Month {
    year: i32,
    month: u8,
}

impl Month {
    /// The month of a time.
    ///
    /// # Errors
    /// Fatal outside the years 1 to 9999.
    pub fn of(ts: TimestampMs) -> Result<Self, StoreError> {
        let at = datetime::to_column(ts)?;
        Ok(Self {
            year: at.year(),
            month: at.month().into(),
        })
    }

    /// The month after it.
    #[must_use]
    pub fn next(self) -> Self {
        if self.month == 12 {
            Self {
                year: self.year + 1,
                month: 1,
            }
        } else {
            Self {
                month: self.month + 1,
                ..self
            }
        }
    }

    /// This month and the `ahead` months after it, ascending.
    pub(crate) fn and_ahead(self, ahead: u8) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self), |month| Some(month.next())).take(usize::from(ahead) + 1)
    }

    /// `PARTITION p202611 VALUES LESS THAN ('2026-12-01')`.
    pub(crate) fn partition(self) -> String {
        let end = self.next();
        format!(
            "PARTITION p{:04}{:02} VALUES LESS THAN ('{:04}-{:02}-01')",
            self.year, self.month, end.year, end.month
        )
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.year, self.month)
    }
}

/// Reads a partition's name, as `p202611`.
impl FromStr for Month {
    type Err = StoreError;

    fn from_str(name: &str) -> Result<Self, StoreError> {
        let parts = || {
            let digits = name.strip_prefix('p').filter(|digits| digits.len() == 6)?;
            let (year, month) = digits.split_at_checked(4)?;
            let month: u8 = month
                .parse()
                .ok()
                .filter(|month| (1..=12).contains(month))?;
            Some(Self {
                year: year.parse().ok()?,
                month,
            })
        };
        parts().ok_or_else(|| {
            StoreError::fatal(format!("the partition {name:?} is not named as p202611 is"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_year_ends_with_december() {
        let december: Month = "p202612".parse().unwrap();
        assert_eq!(
            december.partition(),
            "PARTITION p202612 VALUES LESS THAN ('2027-01-01')"
        );
        assert_eq!(december.next().to_string(), "2027-01");
    }

    #[test]
    fn a_time_is_in_its_month() {
        // 2026-12-01 00:00:00 UTC
        let first = 1_796_083_200_000;
        assert_eq!(
            Month::of(TimestampMs(first - 1)).unwrap().to_string(),
            "2026-11"
        );
        assert_eq!(
            Month::of(TimestampMs(first)).unwrap().to_string(),
            "2026-12"
        );
    }

    #[test]
    fn other_partition_names_are_refused() {
        for name in [
            "", "p", "p2026", "p202613", "p202600", "x202611", "p2026111", "pmax",
        ] {
            assert!(name.parse::<Month>().is_err(), "{name}");
        }
    }
}
