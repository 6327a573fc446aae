//! Chooses the servers for tests: containers if a Docker engine answers, else native ones.

use std::env;

#[cfg(feature = "docker")]
use crate::docker::{self, DockerServers};
use crate::{Endpoints, FreshServers, StackError};

const ENV_KIND: &str = "TIDEMARK_TEST_SERVERS";
const NATIVE: &str = "native";
#[cfg(feature = "docker")]
const DOCKER: &str = "docker";

/// Servers that end when the value is dropped, or with this process.
#[derive(Debug)]
pub(crate) enum ThrowAwayServers {
    Native(Box<FreshServers>),
    #[cfg(feature = "docker")]
    InContainers(DockerServers),
}

impl ThrowAwayServers {
    /// Starts the kind of servers that TIDEMARK_TEST_SERVERS names, or else what is available; `native` starts native servers.
    pub(crate) fn start(
        native: impl FnOnce() -> Result<FreshServers, StackError>,
    ) -> Result<Self, StackError> {
        let native = || native().map(|servers| Self::Native(Box::new(servers)));
        let wanted = env::var(ENV_KIND).ok();
        match wanted.as_deref() {
            Some(NATIVE) => native(),
            #[cfg(feature = "docker")]
            Some(DOCKER) => DockerServers::start().map(Self::InContainers),
            Some(other) => Err(unknown(other)),
            #[cfg(feature = "docker")]
            None if docker::engine_answers() => match DockerServers::start() {
                Ok(servers) => Ok(Self::InContainers(servers)),
                Err(error) => {
                    tracing::warn!(%error, "a Docker engine answers, but the servers are native ones");
                    native()
                }
            },
            None => native(),
        }
    }

    /// The addresses of the servers, for clients.
    pub(crate) fn endpoints(&self) -> Endpoints {
        match self {
            Self::Native(servers) => servers.endpoints(),
            #[cfg(feature = "docker")]
            Self::InContainers(servers) => servers.endpoints().clone(),
        }
    }
}

fn unknown(given: &str) -> StackError {
    let known = [
        NATIVE,
        #[cfg(feature = "docker")]
        DOCKER,
    ];
    StackError::UnknownServers {
        given: given.to_owned(),
        known: known.map(str::to_owned).to_vec(),
    }
}
