//! Whether a source of keys is as it should be, for the operator: in the log when that changes, in the metrics always.

use metrics::Gauge;

/// 1 where the keys in use are what their source said last, 0 where it cannot be read or says nonsense.
pub(crate) const KEYS_CURRENT: &str = "tidemark_auth_keys_current";

/// The state of one source.
#[derive(Debug)]
pub(crate) struct SourceState {
    name: String,
    gauge: Gauge,
    /// What is wrong at present.
    problem: Option<String>,
}

impl SourceState {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            gauge: metrics::gauge!(KEYS_CURRENT, "source" => name.to_owned()),
            problem: None,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_good(&self) -> bool {
        self.problem.is_none()
    }

    pub(crate) fn good(&mut self) {
        self.gauge.set(1.0);
        if self.problem.take().is_some() {
            tracing::info!(source = self.name, "the source of keys is back");
        }
    }

    /// Says once what is wrong, until something else is.
    pub(crate) fn bad(&mut self, problem: &str) {
        self.gauge.set(0.0);
        if self.problem.as_deref() != Some(problem) {
            tracing::warn!(
                source = self.name,
                problem,
                "keys could not be read: those read before stay in use"
            );
            self.problem = Some(problem.to_owned());
        }
    }
}
