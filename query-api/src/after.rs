//! `after=<partition>:<offset>`: the events that a response has to reflect, and `as_of`, the events that it reflects (PROTOCOL A).

use std::fmt;

use problem::Problem;
use schemas::{Excerpt, InboundPosition, Partition, PartitionMap, event::SourceOffset};
use serde::{Serialize, Serializer};

/// The maximum of positions in a call: one for each partition.
const MAX_POSITIONS: usize = 64;

/// The watermarks that a store must have reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequiredWatermarks(PartitionMap<SourceOffset>);

/// The watermarks of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Watermarks(PartitionMap<SourceOffset>);

/// For each partition of `after=`, the lowest watermark of the stores that were read. Written as `after=` is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AsOf(PartitionMap<SourceOffset>);

impl RequiredWatermarks {
    /// Parses the values of `after`, which are positions of `epoch`, the current one.
    ///
    /// # Errors
    /// A problem that names the parameter.
    pub(crate) fn parse(after: &[String], epoch: u32) -> Result<Self, Problem> {
        if after.len() > MAX_POSITIONS {
            let wrong = format!("is given {} times", after.len());
            let right = format!("given {MAX_POSITIONS} times at most");
            return Err(Problem::invalid_field("after", wrong, right));
        }
        let mut required = PartitionMap::new();
        for text in after {
            let InboundPosition { partition, offset } = parse_position(text)?;
            let watermark = required.get_or_insert_with(partition, SourceOffset::default);
            *watermark = (*watermark).max(SourceOffset { epoch, offset });
        }
        Ok(Self(required))
    }

    /// Only the partitions that `affects` selects: events of the others cannot change the response.
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

    pub(crate) fn to_vec(&self) -> Vec<(Partition, SourceOffset)> {
        self.0
            .iter()
            .map(|(partition, watermark)| (partition, *watermark))
            .collect()
    }

    /// The required watermarks that `watermarks` have not reached.
    pub(crate) fn missing_in(&self, watermarks: &Watermarks) -> Self {
        let mut missing = self.clone();
        missing.0.retain(|partition, required| {
            let reached = watermarks.0.get(partition);
            !reached.is_some_and(|watermark| watermark.reaches(*required))
        });
        missing
    }
}

impl fmt::Display for RequiredWatermarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let positions: Vec<String> = self
            .0
            .iter()
            .map(|(partition, watermark)| position(partition, *watermark))
            .collect();
        f.write_str(&positions.join(", "))
    }
}

impl Watermarks {
    /// Only the partitions of `required`.
    pub(crate) fn restrict_to(mut self, required: &RequiredWatermarks) -> Self {
        self.0
            .retain(|partition, _| required.0.get(partition).is_some());
        self
    }

    /// The larger watermark of each partition, for two stores of which one is enough.
    pub(crate) fn or(mut self, other: Self) -> Self {
        for (partition, watermark) in other.0 {
            let larger = self.0.get_or_insert_with(partition, || watermark);
            *larger = (*larger).max(watermark);
        }
        self
    }
}

impl FromIterator<(Partition, SourceOffset)> for Watermarks {
    fn from_iter<I: IntoIterator<Item = (Partition, SourceOffset)>>(watermarks: I) -> Self {
        Self(watermarks.into_iter().collect())
    }
}

impl AsOf {
    /// Adds another store that was read.
    pub(crate) fn and(mut self, watermarks: Watermarks) -> Self {
        for (partition, watermark) in watermarks.0 {
            let lowest = self.0.get_or_insert_with(partition, || watermark);
            *lowest = (*lowest).min(watermark);
        }
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<AsOf> for Watermarks {
    fn from(as_of: AsOf) -> Self {
        Self(as_of.0)
    }
}

impl From<Watermarks> for AsOf {
    fn from(watermarks: Watermarks) -> Self {
        Self(watermarks.0)
    }
}

impl Serialize for AsOf {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(
            self.0
                .iter()
                .map(|(partition, at)| position(partition, *at)),
        )
    }
}

fn parse_position(text: &str) -> Result<InboundPosition, Problem> {
    text.parse().map_err(|_| {
        Problem::invalid_field(
            "after",
            format!("is {:?}", Excerpt(text)),
            "<partition>:<offset> as in a 202 response, such as 17:42",
        )
    })
}

fn position(partition: Partition, watermark: SourceOffset) -> String {
    let SourceOffset { offset, .. } = watermark;
    InboundPosition { partition, offset }.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn required(after: &[&str], epoch: u32) -> RequiredWatermarks {
        let after: Vec<String> = after.iter().map(|text| (*text).to_owned()).collect();
        RequiredWatermarks::parse(&after, epoch).unwrap()
    }

    fn watermarks(of: &[(i64, u32, i64)]) -> Watermarks {
        of.iter()
            .map(|&(p, epoch, offset)| (p.try_into().unwrap(), SourceOffset { epoch, offset }))
            .collect()
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
    fn as_of_has_the_lowest_watermark_of_the_stores() {
        let contacts = watermarks(&[(1, 0, 5), (2, 0, 9)]);
        let as_of = AsOf::from(contacts).and(watermarks(&[(1, 0, 8), (2, 0, 3)]));
        assert_eq!(serde_json::to_string(&as_of).unwrap(), r#"["1:5","2:3"]"#);
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
