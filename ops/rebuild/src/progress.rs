use std::time::Duration;

/// The progress of a rebuild.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The size of the work.
    Begun {
        /// Tables or users.
        wanted: usize,
        /// How many of them an earlier run left; `None` if there was none.
        left_over: Option<usize>,
        /// Records of the log to read, or tables of users.
        steps: u64,
    },
    /// More records or tables of users are done.
    Advanced(u64),
    /// The present step.
    At(String),
}

/// The result of a rebuild.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// How many tables were replaced; for Redis, how many users.
    pub replaced: usize,
    /// How many users of Redis another process is rebuilding; they were left to it.
    pub in_progress: usize,
    /// How many rows were compared with the log.
    pub compared: u64,
    /// How long writers of the live tables were blocked, over all swaps.
    pub held: Duration,
    /// The longest time of one swap.
    pub longest_hold: Duration,
}

impl Rebuilt {
    pub(crate) fn and(&self, other: &Self) -> Self {
        Self {
            replaced: self.replaced + other.replaced,
            in_progress: self.in_progress + other.in_progress,
            compared: self.compared + other.compared,
            held: self.held + other.held,
            longest_hold: self.longest_hold.max(other.longest_hold),
        }
    }

    pub(crate) fn add(&mut self, tables: usize, compared: u64, held: Duration) {
        self.replaced += tables;
        self.compared += compared;
        self.held += held;
        self.longest_hold = self.longest_hold.max(held);
    }
}
