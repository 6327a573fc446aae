//! The plan of a writer for the positions that it finds on a new connection (PROTOCOL R1, R2).

use schemas::{LogPosition, Partition};

use crate::{Generation, StoredPosition, StoredPositions};

/// The next step of a writer after it has read the positions.
///
/// | found | plan |
/// |---|---|
/// | all 64, of one generation | `Resume`: continue from the positions found, whatever is remembered |
/// | none | `Initialise` at the ends of the log |
/// | some, of one generation | `Repair` the missing ones: as remembered of it, or from the log's start if one found is lower than remembered |
/// | of several generations | `Initialise` |
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResumePlan {
    /// Continue in every partition from the position found.
    Resume {
        /// The generation of all positions.
        generation: Generation,
        /// The partitions whose position is lower than remembered in this generation: Redis has lost its newest writes, and the events of those
        /// partitions are applied again.
        behind: Vec<Partition>,
        /// Whether the remembered positions have another generation: the slot was emptied, and another process initialised it.
        replaced: bool,
    },
    /// Read the ends of all 64 partitions of `chat.events`, call `initialise_positions`, read the positions again.
    Initialise,
    /// Call `repair_positions` with these, read the positions again. Events that are applied already change nothing when they are read again from the
    /// start of the log. If that start is gone, `Initialise` instead.
    Repair(Vec<(Partition, StoredPosition)>),
}

impl ResumePlan {
    /// Compares the positions that a writer remembers (none after a start) with those found.
    #[must_use]
    pub fn new(remembered: &StoredPositions, found: &StoredPositions) -> Self {
        if let Some(generation) = found.generation() {
            return Self::Resume {
                generation,
                behind: behind(remembered, found),
                replaced: remembered
                    .iter()
                    .any(|(_, stored)| stored.generation != generation),
            };
        }
        match found.generation_of_existing() {
            Some(generation) => Self::Repair(repairs(remembered, found, generation)),
            None => Self::Initialise,
        }
    }
}

/// Partitions whose position is lower than remembered within its generation.
fn behind(remembered: &StoredPositions, found: &StoredPositions) -> Vec<Partition> {
    let is_behind = |(partition, now): (Partition, StoredPosition)| {
        let was = remembered.get(partition)?;
        let lower = now.position.next < was.position.next
            || now.position.watermark < was.position.watermark;
        (now.generation == was.generation && lower).then_some(partition)
    };
    found.iter().filter_map(is_behind).collect()
}

/// The missing positions. For a slot that has lost its newest writes, the remembered positions do not count.
fn repairs(
    remembered: &StoredPositions,
    found: &StoredPositions,
    generation: Generation,
) -> Vec<(Partition, StoredPosition)> {
    let is_older = !behind(remembered, found).is_empty();
    let start = StoredPosition {
        generation,
        position: LogPosition::default(),
    };
    let position = |partition| {
        let known = remembered.get(partition);
        known
            .filter(|known| known.generation == generation && !is_older)
            .unwrap_or(start)
    };
    found
        .missing()
        .map(|partition| (partition, position(partition)))
        .collect()
}

#[cfg(test)]
mod tests {
    use schemas::{NextOffset, event::SourceOffset};

    use super::*;

    fn stored(generation: Generation, offset: i64) -> StoredPosition {
        StoredPosition {
            generation,
            position: LogPosition {
                next: NextOffset::new(offset),
                watermark: SourceOffset { epoch: 0, offset },
            },
        }
    }

    fn all(generation: Generation, offset: i64) -> StoredPositions {
        Partition::all()
            .map(|p| (p, stored(generation, offset)))
            .collect()
    }

    fn p(n: i64) -> Partition {
        n.try_into().unwrap()
    }

    fn resume(generation: Generation, behind: Vec<Partition>, replaced: bool) -> ResumePlan {
        ResumePlan::Resume {
            generation,
            behind,
            replaced,
        }
    }

    #[test]
    fn reading_resumes_where_all_positions_exist() {
        let g = Generation::fresh();
        assert_eq!(
            ResumePlan::new(&StoredPositions::default(), &all(g, 5)),
            resume(g, vec![], false)
        );
        assert_eq!(
            ResumePlan::new(&all(g, 5), &all(g, 5)),
            resume(g, vec![], false)
        );
        // Our own move, whose response was lost, or a move by another owner in between.
        assert_eq!(
            ResumePlan::new(&all(g, 5), &all(g, 9)),
            resume(g, vec![], false)
        );
    }

    #[test]
    fn a_position_lower_than_remembered_is_reported() {
        let g = Generation::fresh();
        let mut found = all(g, 5);
        found.insert(p(7), stored(g, 4));
        assert_eq!(
            ResumePlan::new(&all(g, 5), &found),
            resume(g, vec![p(7)], false)
        );
    }

    #[test]
    fn another_generation_is_adopted_and_its_positions_are_not_compared() {
        let (old, new) = (Generation::fresh(), Generation::fresh());
        assert_eq!(
            ResumePlan::new(&all(old, 9), &all(new, 3)),
            resume(new, vec![], true)
        );
    }

    #[test]
    fn an_empty_node_is_initialised_whatever_is_remembered() {
        let g = Generation::fresh();
        assert_eq!(
            ResumePlan::new(&StoredPositions::default(), &StoredPositions::default()),
            ResumePlan::Initialise
        );
        assert_eq!(
            ResumePlan::new(&all(g, 5), &StoredPositions::default()),
            ResumePlan::Initialise
        );
    }

    #[test]
    fn missing_positions_are_repaired_from_memory() {
        let g = Generation::fresh();
        let mut found = all(g, 6);
        found.remove(p(0));
        found.remove(p(63));
        let repairs = vec![(p(0), stored(g, 5)), (p(63), stored(g, 5))];
        assert_eq!(
            ResumePlan::new(&all(g, 5), &found),
            ResumePlan::Repair(repairs)
        );
    }

    #[test]
    fn missing_positions_that_nothing_is_known_of_begin_at_the_start_of_the_log() {
        let g = Generation::fresh();
        let start = StoredPosition {
            generation: g,
            position: LogPosition::default(),
        };
        let from_start = ResumePlan::Repair(vec![(p(3), start)]);
        let mut found = all(g, 5);
        found.remove(p(3));
        assert_eq!(
            ResumePlan::new(&StoredPositions::default(), &found),
            from_start
        );
        // The remembered positions are of another generation.
        assert_eq!(
            ResumePlan::new(&all(Generation::fresh(), 5), &found),
            from_start
        );
        // Redis has lost its newest writes.
        found.insert(p(4), stored(g, 4));
        assert_eq!(ResumePlan::new(&all(g, 5), &found), from_start);
    }

    #[test]
    fn mixed_generations_begin_a_new_one() {
        let mut found = all(Generation::fresh(), 5);
        found.insert(p(3), stored(Generation::fresh(), 5));
        assert_eq!(
            ResumePlan::new(&found.clone(), &found),
            ResumePlan::Initialise
        );
    }
}
