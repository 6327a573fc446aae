//! Whether this process is ready, and if not, what it waits for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tracing::{info, warn};
use utoipa::ToSchema;

/// The registry of a process's gates. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Health {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    failing: Option<String>,
    gates: Vec<GateStatus>,
}

/// One thing that must be there before the process can do its work. Clones are the same gate.
#[derive(Debug, Clone)]
pub struct Gate {
    health: Health,
    index: usize,
}

/// What `/readyz` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    /// Every gate is ready and the process is not failing.
    pub ready: bool,
    /// The gates in the order of their making.
    pub gates: Vec<GateStatus>,
}

/// One gate in the answer of `/readyz`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GateStatus {
    /// `<service>.<what>`, such as `ingest.kafka`.
    pub name: String,
    /// Whether it is open.
    pub ready: bool,
    /// What it waits for, while it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Health {
    /// No gates yet: ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a gate, not ready ("starting"). Name it `<service>.<what>`: several services may share a process.
    pub fn gate(&self, name: impl Into<String>) -> Gate {
        let mut state = self.lock();
        state.gates.push(GateStatus {
            name: name.into(),
            ready: false,
            reason: Some("starting".to_owned()),
        });
        Gate {
            health: self.clone(),
            index: state.gates.len() - 1,
        }
    }

    /// Says that this process cannot recover by itself: `/livez` answers 503 from now on, so that whoever runs it restarts it.
    pub fn fail(&self, reason: impl Into<String>) {
        self.lock().failing = Some(reason.into());
    }

    /// Why the process cannot recover by itself, if so.
    pub fn failing(&self) -> Option<String> {
        self.lock().failing.clone()
    }

    /// All gates as they are now.
    pub fn readiness(&self) -> Readiness {
        let state = self.lock();
        Readiness {
            ready: state.failing.is_none() && state.gates.iter().all(|gate| gate.ready),
            gates: state.gates.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate {
    /// Opens the gate. Cheap when it is open already.
    pub fn ready(&self) {
        self.change(None);
    }

    /// Closes the gate; `reason` says what it waits for.
    pub fn not_ready(&self, reason: impl Into<String>) {
        self.change(Some(reason.into()));
    }

    /// Logs a change once, not every repetition of it.
    fn change(&self, reason: Option<String>) {
        let mut state = self.health.lock();
        let gate = &mut state.gates[self.index];
        if gate.reason == reason {
            return;
        }
        match &reason {
            None => info!(gate = %gate.name, "ready"),
            Some(reason) => warn!(gate = %gate.name, %reason, "not ready"),
        }
        gate.ready = reason.is_none();
        gate.reason = reason;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_means_every_gate_is_open() {
        let health = Health::new();
        assert!(health.readiness().ready);
        let kafka = health.gate("ingest.kafka");
        let store = health.gate("query_api.mysql");
        kafka.ready();
        assert!(!health.readiness().ready);
        store.ready();
        assert!(health.readiness().ready);
        kafka.clone().not_ready("no broker answers");
        let now = health.readiness();
        assert!(!now.ready);
        assert_eq!(now.gates[0].reason.as_deref(), Some("no broker answers"));
        assert!(now.gates[1].ready);
    }

    #[test]
    fn a_new_gate_is_starting() {
        let health = Health::new();
        let _gate = health.gate("a");
        let now = health.readiness();
        assert_eq!(now.gates[0].reason.as_deref(), Some("starting"));
    }

    #[test]
    fn a_failing_process_is_not_ready() {
        let health = Health::new();
        health.fail("the log was truncated");
        assert!(!health.readiness().ready);
        assert_eq!(health.failing().as_deref(), Some("the log was truncated"));
    }
}
