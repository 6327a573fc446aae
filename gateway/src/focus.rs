//! What the devices here look at.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use schemas::Recipient;

use crate::hub::Connection;

/// What each connection looks at, and who looks at it.
#[derive(Default)]
pub(crate) struct Focus {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    by_connection: HashMap<u64, Recipient>,
    watchers: HashMap<Recipient, HashMap<u64, Arc<Connection>>>,
}

impl Focus {
    /// A connection looks at this, in place of what it was before.
    pub(crate) fn set(&self, connection: &Arc<Connection>, at: Option<Recipient>) {
        let mut state = self.state();
        let number = connection.number();
        if let Some(before) = state.by_connection.remove(&number)
            && let Some(watchers) = state.watchers.get_mut(&before)
        {
            watchers.remove(&number);
            if watchers.is_empty() {
                state.watchers.remove(&before);
            }
        }
        if let Some(at) = at {
            state.by_connection.insert(number, at);
            let watchers = state.watchers.entry(at).or_default();
            watchers.insert(number, Arc::clone(connection));
        }
    }

    /// The connections that look at this.
    pub(crate) fn watchers(&self, at: Recipient) -> Vec<Arc<Connection>> {
        let state = self.state();
        let watchers = state.watchers.get(&at);
        watchers.map_or_else(Vec::new, |watchers| watchers.values().cloned().collect())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
