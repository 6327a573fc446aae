//! `after=<partition>:<offset>`: what an answer has to reflect, and how fresh it is.

use std::{collections::BTreeMap, fmt};

use problem::Problem;
use schemas::{InboundPosition, Partition, event::SourceOffset};
use serde::{Serialize, Serializer};

use crate::parameters::quoted;

/// The most positions that a call may name: one for each partition.
const MAX_POSITIONS: usize = 64;

/// The watermarks that a store must have reached (PROTOCOL A).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needed(BTreeMap<Partition, SourceOffset>);

/// The watermarks that a store has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Watermarks(BTreeMap<Partition, SourceOffset>);

/// How fresh an answer is: for each partition that was asked for, the lowest watermark of the stores that were read. Written as `after=` is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AsOf(BTreeMap<Partition, SourceOffset>);

impl Needed {
    /// Reads the values of `after`; they are positions of `epoch`, the current one.
    ///
    /// # Errors
    /// A problem that names the parameter.
    pub(crate) fn parse(after: &[String], epoch: u32) -> Result<Self, Problem> {
        if after.len() > MAX_POSITIONS {
            let wrong = format!("is given {} times", after.len());
            let right = format!("given {MAX_POSITIONS} times at most");
            return Err(Problem::invalid_field("after", wrong, right));
        }
        let mut needed: BTreeMap<Partition, SourceOffset> = BTreeMap::new();
        for text in after {
            let InboundPosition { partition, offset } = parse_position(text)?;
            let watermark = needed.entry(partition).or_default();
            *watermark = (*watermark).max(SourceOffset { epoch, offset });
        }
        Ok(Self(needed))
    }

    /// What is needed of some partitions only: events of the others cannot change the answer.
    pub(crate) fn of(&self, concerns: impl Fn(Partition) -> bool) -> Self {
        let kept = self.0.iter().filter(|(partition, _)| concerns(**partition));
        Self(
            kept.map(|(partition, watermark)| (*partition, *watermark))
                .collect(),
        )
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn partitions(&self) -> Vec<Partition> {
        self.0.keys().copied().collect()
    }

    pub(crate) fn to_vec(&self) -> Vec<(Partition, SourceOffset)> {
        self.0
            .iter()
            .map(|(p, watermark)| (*p, *watermark))
            .collect()
    }

    /// What `watermarks` have not reached.
    pub(crate) fn beyond(&self, watermarks: &Watermarks) -> Self {
        let missing = |(partition, need): (&Partition, &SourceOffset)| {
            let reached = watermarks.0.get(partition);
            let reached = reached.is_some_and(|watermark| watermark.reaches(*need));
            (!reached).then_some((*partition, *need))
        };
        Self(self.0.iter().filter_map(missing).collect())
    }
}

impl fmt::Display for Needed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_positions(&self.0, f)
    }
}

impl Watermarks {
    /// The larger of each: the watermarks of two stores of which either will do.
    pub(crate) fn or(mut self, other: Self) -> Self {
        for (partition, watermark) in other.0 {
            let held = self.0.entry(partition).or_default();
            *held = (*held).max(watermark);
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
    /// Takes in another store that was read.
    pub(crate) fn and(mut self, watermarks: Watermarks) -> Self {
        for (partition, watermark) in watermarks.0 {
            let held = self.0.entry(partition).or_insert(watermark);
            *held = (*held).min(watermark);
        }
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Watermarks> for AsOf {
    fn from(watermarks: Watermarks) -> Self {
        Self(watermarks.0)
    }
}

impl Serialize for AsOf {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|(p, watermark)| position(*p, *watermark)))
    }
}

fn parse_position(text: &str) -> Result<InboundPosition, Problem> {
    text.parse().map_err(|_| {
        Problem::invalid_field(
            "after",
            format!("is {}", quoted(text)),
            "<partition>:<offset> as a 202 has them, such as 17:42",
        )
    })
}

fn position(partition: Partition, watermark: SourceOffset) -> String {
    let SourceOffset { offset, .. } = watermark;
    InboundPosition { partition, offset }.to_string()
}

fn write_positions(
    watermarks: &BTreeMap<Partition, SourceOffset>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let positions: Vec<String> = watermarks
        .iter()
        .map(|(p, watermark)| position(*p, *watermark))
        .collect();
    f.write_str(&positions.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needed(after: &[&str], epoch: u32) -> Needed {
        let after: Vec<String> = after.iter().map(|text| (*text).to_owned()).collect();
        Needed::parse(&after, epoch).unwrap()
    }

    fn watermarks(of: &[(i64, u32, i64)]) -> Watermarks {
        of.iter()
            .map(|&(p, epoch, offset)| (p.try_into().unwrap(), SourceOffset { epoch, offset }))
            .collect()
    }

    #[test]
    fn the_highest_position_of_a_partition_counts() {
        assert_eq!(
            needed(&["3:7", "3:9", "3:8", "1:0"], 0).to_string(),
            "1:0, 3:9"
        );
    }

    #[test]
    fn a_mark_of_a_later_epoch_shows_that_the_position_is_of_that_one() {
        let need = needed(&["3:7"], 1);
        for (watermark, missing) in [
            (watermarks(&[(3, 1, 6)]), "3:7"),
            (watermarks(&[(3, 0, 700)]), "3:7"),
            (watermarks(&[(4, 1, 7)]), "3:7"),
            (watermarks(&[(3, 1, 7)]), ""),
            (watermarks(&[(3, 2, -1)]), "3:7"),
            (watermarks(&[(3, 2, 7)]), ""),
        ] {
            assert_eq!(
                need.beyond(&watermark).to_string(),
                missing,
                "{watermark:?}"
            );
        }
    }

    #[test]
    fn an_answer_is_as_fresh_as_the_stalest_store() {
        let contacts = watermarks(&[(1, 0, 5), (2, 0, 9)]);
        let as_of = AsOf::from(contacts).and(watermarks(&[(1, 0, 8), (2, 0, 3)]));
        assert_eq!(serde_json::to_string(&as_of).unwrap(), r#"["1:5","2:3"]"#);
    }

    #[test]
    fn what_is_no_position_is_refused_by_name() {
        for text in ["", "17", "64:0", "1:-1", "1:2:3", "x:y", &"9".repeat(5_000)] {
            let problem = Needed::parse(&[text.to_owned()], 0).unwrap_err();
            assert_eq!(problem.errors[0].field, "after", "{text}");
            assert!(problem.detail.len() < 200, "{}", problem.detail);
        }
        let many = vec!["0:0".to_owned(); MAX_POSITIONS + 1];
        assert!(Needed::parse(&many, 0).is_err());
        assert!(Needed::parse(&many[1..], 0).is_ok());
    }
}
