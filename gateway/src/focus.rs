//! What the devices of this gateway look at.

use std::{collections::HashMap, sync::Arc};

use api::{PresenceBody, ServerFrame};
use parking_lot::Mutex;
use schemas::{Recipient, UserId};

use crate::{frames, hub::Connection};

/// What each connection looks at, and which connections look at each user or group.
#[derive(Default)]
pub(crate) struct Focus {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    by_connection: HashMap<u64, Recipient>,
    watchers: HashMap<Recipient, HashMap<u64, Watcher>>,
}

struct Watcher {
    connection: Arc<Connection>,
    /// The presence that its last notice stated.
    notified_of: Option<PresenceBody>,
}

impl Focus {
    /// A connection looks at `at`, in place of what it looked at before.
    pub(crate) fn set(&self, connection: &Arc<Connection>, at: Option<Recipient>) {
        let mut state = self.state.lock();
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
            let watcher = Watcher {
                connection: Arc::clone(connection),
                notified_of: None,
            };
            watchers.insert(number, watcher);
        }
    }

    /// The connections that look at `at`.
    pub(crate) fn watchers(&self, at: Recipient) -> Vec<Arc<Connection>> {
        let state = self.state.lock();
        let watchers = state.watchers.get(&at);
        let watchers = watchers.into_iter().flat_map(HashMap::values);
        watchers
            .map(|watcher| Arc::clone(&watcher.connection))
            .collect()
    }

    /// Whether any connection looks at `at`.
    pub(crate) fn is_watched(&self, at: Recipient) -> bool {
        self.state.lock().watchers.contains_key(&at)
    }

    /// The users that any connection looks at.
    pub(crate) fn watched_users(&self) -> Vec<UserId> {
        let state = self.state.lock();
        let users = state.watchers.keys().filter_map(|at| match at {
            Recipient::User(uid) => Some(*uid),
            Recipient::Group(_) => None,
        });
        users.collect()
    }

    /// Tells a connection that looks at `at` who is present there, unless its last notice said the same. If the notice does not fit into the queue,
    /// it is left for the next time.
    pub(crate) fn notify(&self, connection: &Connection, at: Recipient, who: PresenceBody) {
        let mut state = self.state.lock();
        let watchers = state.watchers.get_mut(&at);
        let watcher = watchers.and_then(|watchers| watchers.get_mut(&connection.number()));
        if let Some(watcher) = watcher
            && watcher.notified_of.as_ref() != Some(&who)
            && connection.push_if_it_fits(frames::encode(&ServerFrame::Presence(who.clone())))
        {
            watcher.notified_of = Some(who);
        }
    }
}
