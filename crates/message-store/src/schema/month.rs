use std::{fmt, str::FromStr};

use schemas::TimestampMs;

use crate::{StoreError, datetime};

/// A calendar month in UTC, one range partition of every `chat_msg_<n>` and `group_msg_<n>`. Written `2026-11`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Month {
    year: i32,
    month: u8,
}

impl Month {
    /// The first month that a column can hold.
    pub(crate) const FIRST: Self = Self { year: 1, month: 1 };

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

    /// The next month.
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

    /// `p202611`.
    pub(crate) fn name(self) -> String {
        format!("p{:04}{:02}", self.year, self.month)
    }

    /// The month `months` before this one, or the first month of the calendar if there is none.
    #[must_use]
    pub fn minus(self, months: u16) -> Self {
        let number = self.year * 12 + i32::from(self.month) - 1 - i32::from(months);
        let (year, month) = (number.div_euclid(12), number.rem_euclid(12) + 1);
        if year < Self::FIRST.year {
            return Self::FIRST;
        }
        Self {
            year,
            month: u8::try_from(month).unwrap_or(1),
        }
    }

    /// `PARTITION p202611 VALUES LESS THAN ('2026-12-01')`.
    pub(crate) fn partition(self) -> String {
        let end = self.next();
        format!("PARTITION {} VALUES LESS THAN ('{end}-01')", self.name())
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.year, self.month)
    }
}

/// Reads `2026-11`, or a partition's name, `p202611`.
impl FromStr for Month {
    type Err = StoreError;

    fn from_str(name: &str) -> Result<Self, StoreError> {
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let parts = || {
            let (year, month) = match name.strip_prefix('p') {
                Some(digits) => digits.split_at_checked(4)?,
                None => name.split_once('-')?,
            };
            let is_plain = year.len() == 4 && month.len() == 2 && digits(year) && digits(month);
            if !is_plain {
                return None;
            }
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
            StoreError::fatal(format!(
                "{name:?} is no month, written as 2026-11 or p202611 is"
            ))
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
    fn months_are_counted_back_over_a_year() {
        let january: Month = "2027-01".parse().unwrap();
        assert_eq!(january.name(), "p202701");
        assert_eq!(january.minus(0), january);
        assert_eq!(january.minus(1).to_string(), "2026-12");
        assert_eq!(january.minus(13).to_string(), "2025-12");
        assert_eq!(january.minus(u16::MAX), Month::FIRST);
    }

    #[test]
    fn other_partition_names_are_refused() {
        for name in [
            "2026-1", "2026-13", "+026-11", "26-11", "", "p", "p2026", "p202613", "p202600",
            "x202611", "p2026111", "pmax",
        ] {
            assert!(name.parse::<Month>().is_err(), "{name}");
        }
    }
}
