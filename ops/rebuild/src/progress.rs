use std::time::Duration;

/// How a rebuild goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// What there is to do.
    Begun {
        /// How many tables or users.
        wanted: usize,
        /// How many of them a former run has left to this one; `None` where there was none.
        left_over: Option<usize>,
        /// How many records of the log have to be read, or users to be gone through.
        steps: u64,
    },
    /// So many records or users more are done.
    Advanced(u64),
    /// What is at hand.
    At(String),
}

/// What a rebuild has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// How many tables took the place of live ones; of Redis, how many users.
    pub replaced: usize,
    /// How many rows (users) were compared with the log and found right.
    pub compared: u64,
    /// How long writers of the live tables were held back, over all switches.
    pub held: Duration,
    /// The longest of them.
    pub longest_hold: Duration,
}

impl Rebuilt {
    pub(crate) fn and(&self, other: &Self) -> Self {
        Self {
            replaced: self.replaced + other.replaced,
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
