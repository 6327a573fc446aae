use std::sync::{
    PoisonError, RwLock,
    atomic::{AtomicUsize, Ordering},
};

/// The instances of a service, called in turn.
#[derive(Debug, Default)]
pub(crate) struct Endpoints {
    bases: RwLock<Vec<String>>,
    calls: AtomicUsize,
}

impl Endpoints {
    pub(crate) fn add(&self, base: &str) {
        let mut bases = self.bases.write().unwrap_or_else(PoisonError::into_inner);
        bases.push(base.trim_end_matches('/').to_owned());
    }

    /// The URL of `path` at the next instance.
    pub(crate) fn url(&self, path: &str) -> String {
        let bases = self.bases.read().unwrap_or_else(PoisonError::into_inner);
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        format!("{}{path}", bases[call % bases.len()])
    }
}

impl From<&str> for Endpoints {
    fn from(base: &str) -> Self {
        let endpoints = Self::default();
        endpoints.add(base);
        endpoints
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_called_in_turn() {
        let endpoints = Endpoints::from("http://a/");
        endpoints.add("http://b");
        let urls: Vec<String> = (0..3).map(|_| endpoints.url("/x")).collect();
        assert_eq!(urls, ["http://a/x", "http://b/x", "http://a/x"]);
    }
}
