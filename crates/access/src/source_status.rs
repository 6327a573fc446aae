//! Reports to the operator whether a source of keys can be read: a log line when that changes, and a metric.

use metrics::Gauge;

/// 1 if the keys in use are those of their source, 0 if the source cannot be read or parsed.
pub(crate) const KEYS_CURRENT: &str = "tidemark_auth_keys_current";

#[derive(Debug)]
pub(crate) struct SourceStatus {
    name: String,
    gauge: Gauge,
    /// Why the last read failed.
    problem: Option<String>,
}

impl SourceStatus {
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

    pub(crate) fn last_read_succeeded(&self) -> bool {
        self.problem.is_none()
    }

    pub(crate) fn succeeded(&mut self) {
        self.gauge.set(1.0);
        if self.problem.take().is_some() {
            tracing::info!(source = self.name, "keys can be read again");
        }
    }

    /// Logs a problem once, not every repetition of it.
    pub(crate) fn failed(&mut self, problem: &str) {
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
