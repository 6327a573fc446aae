//! `after=`: the events that a response has to reflect, given as `<partition>:<offset>` of a 202 or as a device's token. `as_of`: the events that the
//! response reflects (PROTOCOL A).

use std::fmt;

use problem::Problem;
use schemas::{
    Excerpt, InboundPosition, LogPosition, NextOffset, Partition, PartitionMap, SyncToken,
    event::SourceOffset,
};

/// The maximum number of values in a call: a position for each partition.
const MAX_POSITIONS: usize = 64;

/// The positions that a store must have reached: watermarks for the positions in `after=`, next offsets for the tokens in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequiredWatermarks(PartitionMap<LogPosition>);

/// The watermarks of a store, with its next offsets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Watermarks(PartitionMap<LogPosition>);

/// For each partition of `after=`, the lowest watermark of the stores that were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AsOf(PartitionMap<SourceOffset>);

impl RequiredWatermarks {
    /// Parses the values of `after`. Positions belong to `epoch`, the current one. A token has offsets of `chat.events`, which do not restart with an
    /// epoch.
    ///
    /// # Errors
    /// A problem that names the parameter.
    pub(crate) fn parse(after: &[String], epoch: u32) -> Result<Self, Problem> {
        if after.len() > MAX_POSITIONS {
            let wrong = format!("is given {} times", after.len());
            let right = format!("given {MAX_POSITIONS} times at most");
            return Err(Problem::invalid_field("after", wrong, right));
        }
        let mut required = Self::default();
        for text in after {
            if let Ok(InboundPosition { partition, offset }) = text.parse() {
                let at = required
                    .0
                    .get_or_insert_with(partition, LogPosition::default);
                at.watermark = at.watermark.max(SourceOffset { epoch, offset });
                continue;
            }
            let token = SyncToken::parse_any_version(text).map_err(|_| invalid(text))?;
            if let Some(token) = token {
                Partition::all().for_each(|p| required.require_next(p, token.get(p)));
            }
        }
        Ok(required)
    }

    /// Requires every event of a partition below `next`.
    pub(crate) fn below(partition: Partition, next: NextOffset) -> Self {
        let mut required = Self::default();
        required.require_next(partition, next);
        required
    }

    fn require_next(&mut self, partition: Partition, next: NextOffset) {
        if next > NextOffset::START {
            let at = self.0.get_or_insert_with(partition, LogPosition::default);
            at.next = at.next.max(next);
        }
    }

    /// Keeps only the partitions that `affects` selects: events of the others cannot change the response.
    pub(crate) fn restrict_to(mut self, affects: impl Fn(Partition) -> bool) -> Self {
        self.0.retain(|partition, _| affects(partition));
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn partitions(&self) -> Vec<Partition> {
        self.0.partitions().collect()
    }

    /// The watermarks; [`SourceOffset::START`] if only the next offset is required.
    pub(crate) fn to_vec(&self) -> Vec<(Partition, SourceOffset)> {
        let all = self.0.iter();
        all.map(|(partition, at)| (partition, at.watermark))
            .collect()
    }

    /// The lowest end of each partition of `chat.inbound` with which the watermarks can be reached.
    pub(crate) fn least_inbound_ends(&self) -> PartitionMap<i64> {
        let ends = self.0.iter();
        ends.map(|(partition, at)| (partition, at.watermark.offset.saturating_add(1)))
            .collect()
    }

    /// The lowest end of each partition of `chat.events` with which the next offsets can be reached.
    pub(crate) fn least_events_ends(&self) -> PartitionMap<i64> {
        let ends = self.0.iter();
        ends.map(|(partition, at)| (partition, at.next.get()))
            .collect()
    }

    /// The requirements that `watermarks` have not reached.
    pub(crate) fn missing_in(&self, watermarks: &Watermarks) -> Self {
        let mut missing = self.clone();
        missing.0.retain(|partition, required| {
            let reached = watermarks.0.get(partition).is_some_and(|at| {
                at.watermark.reaches(required.watermark) && at.next >= required.next
            });
            !reached
        });
        missing
    }
}

impl fmt::Display for RequiredWatermarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let positions = self.0.iter().map(|(partition, at)| match at.next {
            NextOffset::START => position(partition, at.watermark).to_string(),
            next => format!("offset {next} of partition {partition}, which the token covers,"),
        });
        f.write_str(&positions.collect::<Vec<_>>().join(", "))
    }
}

impl Watermarks {
    /// Keeps only the partitions of `required`.
    pub(crate) fn restrict_to(mut self, required: &RequiredWatermarks) -> Self {
        self.0
            .retain(|partition, _| required.0.get(partition).is_some());
        self
    }

    /// The larger watermark of each partition: the response may rely on either of these two stores.
    pub(crate) fn or(mut self, other: Self) -> Self {
        for (partition, watermark) in other.0 {
            let larger = self.0.get_or_insert_with(partition, || watermark);
            *larger = (*larger).max(watermark);
        }
        self
    }
}

impl FromIterator<(Partition, LogPosition)> for Watermarks {
    fn from_iter<I: IntoIterator<Item = (Partition, LogPosition)>>(watermarks: I) -> Self {
        Self(watermarks.into_iter().collect())
    }
}

impl AsOf {
    /// Adds another store that was read.
    pub(crate) fn and(mut self, other: impl Into<Self>) -> Self {
        for (partition, watermark) in other.into().0 {
            let lowest = self.0.get_or_insert_with(partition, || watermark);
            *lowest = (*lowest).min(watermark);
        }
        self
    }

    /// The positions as an answer has them: in the format of `after=`.
    pub(crate) fn positions(&self) -> Vec<InboundPosition> {
        let all = self.0.iter();
        all.map(|(partition, at)| position(partition, *at))
            .collect()
    }
}

impl From<Watermarks> for AsOf {
    fn from(Watermarks(positions): Watermarks) -> Self {
        let watermarks = positions.iter().map(|(p, at)| (p, at.watermark));
        Self(watermarks.collect())
    }
}

fn invalid(text: &str) -> Problem {
    Problem::invalid_field(
        "after",
        format!("is {:?}", Excerpt(text)),
        "<partition>:<offset> as in a 202 response, such as 17:42, or the token of a device",
    )
}

fn position(partition: Partition, watermark: SourceOffset) -> InboundPosition {
    let SourceOffset { offset, .. } = watermark;
    InboundPosition { partition, offset }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn required(after: &[&str], epoch: u32) -> RequiredWatermarks {
        let after: Vec<String> = after.iter().map(|text| (*text).to_owned()).collect();
        RequiredWatermarks::parse(&after, epoch).unwrap()
    }

    fn watermarks(of: &[(i64, u32, i64)]) -> Watermarks {
        let position = |epoch, offset| LogPosition {
            next: NextOffset::new(100),
            watermark: SourceOffset { epoch, offset },
        };
        of.iter()
            .map(|&(p, epoch, offset)| (p.try_into().unwrap(), position(epoch, offset)))
            .collect()
    }

    fn token(epoch: u32, of: &[(i64, i64)]) -> String {
        let next = of
            .iter()
            .map(|&(p, next)| (p.try_into().unwrap(), NextOffset::new(next)));
        SyncToken::new(epoch, &next.collect()).to_string()
    }

    #[test]
    fn the_highest_position_of_a_partition_counts() {
        assert_eq!(
            required(&["3:7", "3:9", "3:8", "1:0"], 0).to_string(),
            "1:0, 3:9"
        );
    }

    #[test]
    fn a_watermark_of_a_later_epoch_shows_that_the_position_is_of_that_epoch() {
        let required = required(&["3:7"], 1);
        for (watermark, missing) in [
            (watermarks(&[(3, 1, 6)]), "3:7"),
            (watermarks(&[(3, 0, 700)]), "3:7"),
            (watermarks(&[(4, 1, 7)]), "3:7"),
            (watermarks(&[(3, 1, 7)]), ""),
            (watermarks(&[(3, 2, -1)]), "3:7"),
            (watermarks(&[(3, 2, 7)]), ""),
        ] {
            assert_eq!(
                required.missing_in(&watermark).to_string(),
                missing,
                "{watermark:?}"
            );
        }
    }

    #[test]
    fn a_token_asks_for_the_next_offsets_that_it_has() {
        let of_token = token(1, &[(3, 100), (4, 101), (5, 0)]);
        let required = required(&[&of_token, "3:7"], 1);
        for (of, missing) in [
            (&[(3, 1, 7), (4, 1, 0)][..], "offset 101 of partition 4"),
            (&[(3, 1, 6)][..], "offset 100 of partition 3"),
        ] {
            let missing_in = required.missing_in(&watermarks(of)).to_string();
            assert!(missing_in.starts_with(missing), "{missing_in}");
        }
        // A device that stays connected has a token from before the epoch was raised.
        let in_epoch =
            |epoch| RequiredWatermarks::parse(std::slice::from_ref(&of_token), epoch).unwrap();
        assert_eq!(in_epoch(2), in_epoch(1));
    }

    #[test]
    fn as_of_has_the_lowest_watermark_of_the_stores() {
        let contacts = watermarks(&[(1, 0, 5), (2, 0, 9)]);
        let as_of = AsOf::from(contacts).and(watermarks(&[(1, 0, 8), (2, 0, 3)]));
        assert_eq!(
            serde_json::to_string(&as_of.positions()).unwrap(),
            r#"["1:5","2:3"]"#
        );
    }

    #[test]
    fn an_invalid_position_is_rejected_by_name() {
        for text in ["", "17", "64:0", "1:-1", "1:2:3", "x:y", &"9".repeat(5_000)] {
            let problem = RequiredWatermarks::parse(&[text.to_owned()], 0).unwrap_err();
            assert_eq!(problem.errors[0].field, "after", "{text}");
            assert!(problem.detail.len() < 200, "{}", problem.detail);
        }
        let many = vec!["0:0".to_owned(); MAX_POSITIONS + 1];
        assert!(RequiredWatermarks::parse(&many, 0).is_err());
        assert!(RequiredWatermarks::parse(&many[1..], 0).is_ok());
    }
}
