//! What a writer does with the watermarks that it finds on a new connection (PROTOCOL R1, R2).

use schemas::Partition;

use crate::{Generation, Watermark, Watermarks};

/// What a writer does after it has read the watermarks.
///
/// | found | plan |
/// |---|---|
/// | all 64, of one generation | `Resume`: read on from each watermark as found, wherever it was remembered to be |
/// | none | `Initialise` at the ends of the log |
/// | some, the missing ones remembered in the same generation, none of the others lower than remembered | `Repair` with those remembered |
/// | some, otherwise | `Initialise`: a new generation, so that every state is rebuilt |
/// | all 64, of several generations | `Initialise` |
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatermarkPlan {
    /// Read every partition on from its watermark as found.
    Resume {
        /// The generation of all of them.
        generation: Generation,
        /// Partitions whose watermark is lower than remembered in this generation: Redis went back, events are applied once more.
        behind: Vec<Partition>,
        /// Whether another generation was remembered: the node was emptied and initialised by somebody else.
        replaced: bool,
    },
    /// Take the ends of all 64 partitions of `chat.events`, call `initialise_marks`, read the watermarks again.
    Initialise,
    /// Call `repair_marks` with these, read the watermarks again.
    Repair(Vec<(Partition, Watermark)>),
}

/// Compares what a writer remembers (nothing, after a start) with what it finds.
#[must_use]
pub fn plan(remembered: &Watermarks, found: &Watermarks) -> WatermarkPlan {
    if let Some(generation) = found.generation() {
        return WatermarkPlan::Resume {
            generation,
            behind: behind(remembered, found),
            replaced: remembered
                .iter()
                .any(|(_, watermark)| watermark.generation != generation),
        };
    }
    match repairs(remembered, found) {
        Some(repairs) if behind(remembered, found).is_empty() => WatermarkPlan::Repair(repairs),
        _ => WatermarkPlan::Initialise,
    }
}

/// Partitions whose watermark went back within its generation.
fn behind(remembered: &Watermarks, found: &Watermarks) -> Vec<Partition> {
    let went_back = |(partition, now): (Partition, Watermark)| {
        let was = remembered.get(partition)?;
        let lower = now.offset < was.offset || now.src < was.src;
        (now.generation == was.generation && lower).then_some(partition)
    };
    found.iter().filter_map(went_back).collect()
}

/// The missing watermarks as remembered, if that makes the watermarks whole again.
fn repairs(remembered: &Watermarks, found: &Watermarks) -> Option<Vec<(Partition, Watermark)>> {
    // With no watermark left there is nothing that the remembered ones could belong to: the node is empty.
    found.iter().next()?;
    let repairs = found
        .missing()
        .map(|partition| Some((partition, remembered.get(partition)?)))
        .collect::<Option<Vec<_>>>()?;
    let whole: Watermarks = found.iter().chain(repairs.iter().copied()).collect();
    whole.generation().map(|_| repairs)
}

#[cfg(test)]
mod tests {
    use schemas::event::SourceOffset;

    use super::*;

    fn watermark(generation: Generation, offset: i64) -> Watermark {
        let src = SourceOffset { epoch: 0, offset };
        Watermark {
            generation,
            offset,
            src,
        }
    }

    fn all(generation: Generation, offset: i64) -> Watermarks {
        Partition::all()
            .map(|p| (p, watermark(generation, offset)))
            .collect()
    }

    fn p(n: i64) -> Partition {
        n.try_into().unwrap()
    }

    fn resume(generation: Generation, behind: Vec<Partition>, replaced: bool) -> WatermarkPlan {
        WatermarkPlan::Resume {
            generation,
            behind,
            replaced,
        }
    }

    #[test]
    fn all_there_is_read_on_from() {
        let g = Generation::fresh();
        assert_eq!(
            plan(&Watermarks::NONE, &all(g, 5)),
            resume(g, vec![], false)
        );
        assert_eq!(plan(&all(g, 5), &all(g, 5)), resume(g, vec![], false));
        // Our own move whose answer was lost, or another owner in between.
        assert_eq!(plan(&all(g, 5), &all(g, 9)), resume(g, vec![], false));
    }

    #[test]
    fn lower_than_remembered_is_noticed() {
        let g = Generation::fresh();
        let mut found = all(g, 5);
        found.set(p(7), Some(watermark(g, 4)));
        assert_eq!(plan(&all(g, 5), &found), resume(g, vec![p(7)], false));
    }

    #[test]
    fn another_generation_is_adopted_and_not_compared() {
        let (old, new) = (Generation::fresh(), Generation::fresh());
        assert_eq!(plan(&all(old, 9), &all(new, 3)), resume(new, vec![], true));
    }

    #[test]
    fn an_empty_node_is_initialised_whatever_is_remembered() {
        let g = Generation::fresh();
        assert_eq!(
            plan(&Watermarks::NONE, &Watermarks::NONE),
            WatermarkPlan::Initialise
        );
        assert_eq!(
            plan(&all(g, 5), &Watermarks::NONE),
            WatermarkPlan::Initialise
        );
    }

    #[test]
    fn some_missing_are_repaired_from_memory() {
        let g = Generation::fresh();
        let mut found = all(g, 6);
        found.set(p(0), None);
        found.set(p(63), None);
        let repairs = vec![(p(0), watermark(g, 5)), (p(63), watermark(g, 5))];
        assert_eq!(plan(&all(g, 5), &found), WatermarkPlan::Repair(repairs));
    }

    #[test]
    fn some_missing_that_memory_cannot_vouch_for_begin_a_new_generation() {
        let g = Generation::fresh();
        let mut found = all(g, 5);
        found.set(p(3), None);
        assert_eq!(plan(&Watermarks::NONE, &found), WatermarkPlan::Initialise);
        assert_eq!(
            plan(&all(Generation::fresh(), 5), &found),
            WatermarkPlan::Initialise
        );
        found.set(p(4), Some(watermark(g, 4)));
        assert_eq!(plan(&all(g, 5), &found), WatermarkPlan::Initialise);
    }

    #[test]
    fn mixed_generations_begin_a_new_one() {
        let mut found = all(Generation::fresh(), 5);
        found.set(p(3), Some(watermark(Generation::fresh(), 5)));
        assert_eq!(plan(&found.clone(), &found), WatermarkPlan::Initialise);
    }
}
