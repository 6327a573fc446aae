/// Numbers the starts of partitions in a process. Data read or requested before a restart carries the earlier number, so the restarted partition does
/// not take it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AssignmentGeneration(u64);

impl AssignmentGeneration {
    /// Moves on to the next generation, and returns it.
    pub fn advance(&mut self) -> Self {
        self.0 += 1;
        *self
    }
}
