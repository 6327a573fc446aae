//! Readiness: the checks behind `/readyz`, and liveness behind `/livez`.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tracing::{info, warn};
use utoipa::ToSchema;

const READY: &str = "tidemark_ready";

/// The readiness checks of a process. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Health {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    failing: Option<String>,
    checks: Vec<CheckStatus>,
}

/// One thing that the process needs before it can do its work, such as a connection to Kafka. Clones are the same check.
#[derive(Debug, Clone)]
pub struct ReadinessCheck {
    health: Health,
    index: usize,
}

/// What `/readyz` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    /// Every gate is ready and the process is not failing.
    pub ready: bool,
    /// The gates in the order of their making.
    #[serde(rename = "gates")]
    pub checks: Vec<CheckStatus>,
}

/// One gate in the answer of `/readyz`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GateStatus)]
pub struct CheckStatus {
    /// `<service>.<what>`, such as `ingest.kafka`.
    pub name: String,
    /// Whether it is open.
    pub ready: bool,
    /// What it waits for, while it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What an operator should change although it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

impl Health {
    /// A process without checks, which is ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check, which is not ready at first ("starting"). Name it `<service>.<what>`: several services may share a process.
    pub fn check(&self, name: impl Into<String>) -> ReadinessCheck {
        let check = CheckStatus {
            name: name.into(),
            ready: false,
            reason: Some("starting".to_owned()),
            warning: None,
        };
        metrics::describe_gauge!(READY, "1 where a check of /readyz passes");
        check.publish();
        let mut state = self.state.lock();
        state.checks.push(check);
        ReadinessCheck {
            health: self.clone(),
            index: state.checks.len() - 1,
        }
    }

    /// Marks the process as unable to recover by itself: `/livez` answers 503 from now on, so that it gets restarted.
    pub fn fail(&self, reason: impl Into<String>) {
        self.state.lock().failing = Some(reason.into());
    }

    /// Why the process cannot recover by itself, if [`Health::fail`] was called.
    pub fn failing(&self) -> Option<String> {
        self.state.lock().failing.clone()
    }

    /// The current state of all checks.
    pub fn readiness(&self) -> Readiness {
        let state = self.state.lock();
        Readiness {
            ready: state.failing.is_none() && state.checks.iter().all(|check| check.ready),
            checks: state.checks.clone(),
        }
    }
}

impl ReadinessCheck {
    /// Passes the check. Cheap when it has passed already.
    pub fn ready(&self) {
        self.change(None);
    }

    /// Fails the check; `reason` says what the process waits for.
    pub fn not_ready(&self, reason: impl Into<String>) {
        self.change(Some(reason.into()));
    }

    /// Shows what an operator should change, or removes the warning; independent of whether the check passes.
    pub fn warn(&self, warning: Option<String>) {
        let mut state = self.health.state.lock();
        let check = &mut state.checks[self.index];
        if check.warning == warning {
            return;
        }
        match &warning {
            None => info!(check = %check.name, "nothing to warn of any more"),
            Some(warning) => warn!(check = %check.name, %warning, "a warning"),
        }
        check.warning = warning;
    }

    /// Logs a change once, not every repetition of it.
    fn change(&self, reason: Option<String>) {
        let mut state = self.health.state.lock();
        let check = &mut state.checks[self.index];
        if check.reason == reason {
            return;
        }
        match &reason {
            None => info!(check = %check.name, "ready"),
            Some(reason) => warn!(check = %check.name, %reason, "not ready"),
        }
        check.ready = reason.is_none();
        check.reason = reason;
        check.publish();
    }
}

impl CheckStatus {
    fn publish(&self) {
        let ready = if self.ready { 1.0 } else { 0.0 };
        metrics::gauge!(READY, "check" => self.name.clone()).set(ready);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_means_that_every_check_passes() {
        let health = Health::new();
        assert!(health.readiness().ready);
        let kafka = health.check("ingest.kafka");
        let store = health.check("query_api.mysql");
        kafka.ready();
        assert!(!health.readiness().ready);
        store.ready();
        assert!(health.readiness().ready);
        kafka.clone().not_ready("no broker answers");
        let now = health.readiness();
        assert!(!now.ready);
        assert_eq!(now.checks[0].reason.as_deref(), Some("no broker answers"));
        assert!(now.checks[1].ready);
    }

    #[test]
    fn a_new_check_is_starting() {
        let health = Health::new();
        let _check = health.check("a");
        let now = health.readiness();
        assert_eq!(now.checks[0].reason.as_deref(), Some("starting"));
    }

    #[test]
    fn a_warning_fails_no_check() {
        let health = Health::new();
        let check = health.check("a");
        check.ready();
        check.warn(Some("one copy only".to_owned()));
        let now = health.readiness();
        assert!(now.ready);
        assert_eq!(now.checks[0].warning.as_deref(), Some("one copy only"));
        check.warn(None);
        assert_eq!(health.readiness().checks[0].warning, None);
    }

    #[test]
    fn a_failing_process_is_not_ready() {
        let health = Health::new();
        health.fail("the log was truncated");
        assert!(!health.readiness().ready);
        assert_eq!(health.failing().as_deref(), Some("the log was truncated"));
    }
}
