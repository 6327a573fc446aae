//! A schedule with every fault equally often, in an order that the seed decides.

use rand::{rngs::StdRng, seq::SliceRandom as _};

use super::Fault;

pub(super) struct FaultSchedule {
    all: Vec<Fault>,
    left: Vec<Fault>,
}

impl FaultSchedule {
    /// A schedule of at least one fault.
    pub(super) fn new(faults: &[Fault]) -> Self {
        Self {
            all: faults.to_vec(),
            left: Vec::new(),
        }
    }

    pub(super) fn draw(&mut self, rng: &mut StdRng) -> Fault {
        if self.left.is_empty() {
            self.left.clone_from(&self.all);
            self.left.shuffle(rng);
        }
        self.left.pop().expect("there is a fault to draw")
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::{super::FAULTS, *};

    #[test]
    fn a_seed_decides_the_order_and_each_fault_comes_once_a_round() {
        let drawn = |seed| {
            let (mut schedule, mut rng) = (FaultSchedule::new(FAULTS), StdRng::seed_from_u64(seed));
            (0..2 * FAULTS.len())
                .map(|_| schedule.draw(&mut rng))
                .collect::<Vec<_>>()
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        let first_round = &drawn(1)[..FAULTS.len()];
        assert!(FAULTS.iter().all(|fault| first_round.contains(fault)));
    }
}
