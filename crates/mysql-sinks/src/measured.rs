//! The code that `bench/pure-parts` measures; not part of the API.

use message_store::{MessageStore, MySqlConfig, Sink as StoreSink};
use projection::{EventBatch, Sink as _};
use schemas::LogPosition;
use tokio::runtime::Runtime;

use crate::{
    coalesce::{CoalescingSink, UserRow},
    destination::Destination,
};

/// Folds batches as the projection of contacts does; nothing is written.
pub struct Contacts {
    destinations: Vec<Destination>,
    /// The runtime of the store's pools, which need one although nothing connects.
    _runtime: Runtime,
}

impl Contacts {
    /// Folds for the default number of databases.
    ///
    /// # Panics
    /// If the system has no resources for a runtime.
    #[must_use]
    pub fn new() -> Self {
        let runtime = Runtime::new().expect("a runtime starts");
        let _entered = runtime.enter();
        let store = MessageStore::connect(&MySqlConfig::default());
        Self {
            destinations: Destination::all(&store, StoreSink::Contacts, ""),
            _runtime: runtime,
        }
    }

    /// The number of rows that a batch changes.
    #[must_use]
    pub fn fold(&self, batch: &EventBatch) -> usize {
        let mut sink = CoalescingSink::<UserRow>::new(self.destinations.clone());
        // As if the databases were empty.
        for index in 0..self.destinations.len() {
            sink.reset(index, [(batch.partition, LogPosition::default())].into());
        }
        for event in &batch.events {
            sink.absorb_event(batch.partition, event);
        }
        sink.pending()
    }
}

impl Default for Contacts {
    fn default() -> Self {
        Self::new()
    }
}
