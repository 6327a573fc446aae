//! The process's metrics: one recorder, rendered for Prometheus.

use std::sync::OnceLock;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

pub(crate) const HTTP_REQUESTS: &str = "tidemark_http_requests_total";
pub(crate) const HTTP_DURATION: &str = "tidemark_http_request_duration_seconds";

/// Upper bounds of every histogram whose name ends in `_seconds`.
const SECONDS: [f64; 15] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

static INSTALLED: OnceLock<PrometheusHandle> = OnceLock::new();

/// Renders the values that the `metrics` macros have recorded.
#[derive(Debug, Clone)]
pub struct MetricsHandle(PrometheusHandle);

impl MetricsHandle {
    /// The handle of this process's recorder, which the first call installs.
    pub fn installed() -> Self {
        Self(INSTALLED.get_or_init(install).clone())
    }

    /// All metrics in Prometheus's text format.
    pub fn render(&self) -> String {
        self.0.render()
    }

    /// Folds recorded samples into the histograms. To be called every few seconds: memory grows with the samples otherwise.
    pub(crate) fn run_upkeep(&self) {
        self.0.run_upkeep();
    }
}

fn install() -> PrometheusHandle {
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)
        .expect("the list of bounds is not empty")
        .build_recorder();
    let handle = recorder.handle();
    if metrics::set_global_recorder(recorder).is_err() {
        tracing::warn!("another metrics recorder is installed: /metrics will be empty");
    }
    describe();
    handle
}

fn describe() {
    metrics::describe_counter! { HTTP_REQUESTS, "HTTP requests answered" }
    metrics::describe_histogram! { HTTP_DURATION, metrics::Unit::Seconds, "Time from an HTTP request's headers to those of its response" }
}
