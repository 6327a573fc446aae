//! What `bench/pure-parts` measures. No part of the API.

use message_store::{MessageStore, MySqlConfig, Resume, Sink as Rows};
use projection::{Sink as _, Slice};
use tokio::runtime::Runtime;

use crate::{
    coalesce::{CoalescingSink, Contact},
    ledger::Place,
};

/// Folds slices as the projection of contacts does; nothing is written.
pub struct Contacts {
    places: Vec<Place>,
    /// Connections that nobody asks for belong to it.
    _runtime: Runtime,
}

impl Contacts {
    /// Into the databases that there are by default.
    ///
    /// # Panics
    /// The system has no room for a runtime.
    #[must_use]
    pub fn new() -> Self {
        let runtime = Runtime::new().expect("there is room for a runtime");
        let _entered = runtime.enter();
        let store = MessageStore::connect(&MySqlConfig::default());
        let place = |shard| Place {
            store: store.clone(),
            shard,
            sink: Rows::Contacts,
            topic: String::new(),
            tables: None,
        };
        Self {
            places: store.layout().shards().map(place).collect(),
            _runtime: runtime,
        }
    }

    /// Takes in a slice; answers how many rows that makes.
    #[must_use]
    pub fn fold(&self, slice: &Slice) -> usize {
        let mut sink = CoalescingSink::<Contact>::new(self.places.clone());
        // As if the databases had nothing of it.
        for index in 0..self.places.len() {
            sink.take_over(index, [(slice.partition, Resume::START)].into());
        }
        for event in &slice.events {
            sink.absorb_event(slice.partition, event);
        }
        sink.pending()
    }
}

impl Default for Contacts {
    fn default() -> Self {
        Self::new()
    }
}
