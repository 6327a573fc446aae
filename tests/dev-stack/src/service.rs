//! Tidemark's services as child processes, by default of this executable.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;

use crate::managed::Managed;
use crate::{StackError, probe};

/// A service to start.
#[derive(Debug, Clone)]
pub struct ServiceSpec {
    /// The name of the service, also of its pid file and its log.
    pub name: String,
    /// The arguments to the program, such as `["ingest", "--config", ".run/tidemark.toml"]`.
    pub args: Vec<String>,
    /// Environment variables, on top of those of this process.
    pub env: Vec<(String, String)>,
    /// The program that runs the service, if it is not the stack's.
    pub program: Option<PathBuf>,
    /// The address of the readiness check.
    pub ready: ReadyUrl,
}

/// An address such as `http://127.0.0.1:7301/readyz`: plain HTTP, a numeric address, a port and a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyUrl {
    address: SocketAddr,
    path: String,
}

impl ReadyUrl {
    pub(crate) fn local(port: u16) -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            path: "/readyz".to_owned(),
        }
    }

    /// The gates that the process names in its answer; none if it does not answer.
    pub(crate) fn gates(&self) -> Vec<probe::Gate> {
        probe::http_gates(self.address, &self.path).unwrap_or_default()
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        probe::http_ok(self.address, &self.path)
    }
}

impl FromStr for ReadyUrl {
    type Err = StackError;

    fn from_str(text: &str) -> Result<Self, StackError> {
        let parse = || {
            let (address, path) = text.strip_prefix("http://")?.split_once('/')?;
            Some(Self {
                address: address.parse().ok()?,
                path: format!("/{path}"),
            })
        };
        parse().ok_or_else(|| StackError::BadReadyUrl {
            given: text.to_owned(),
        })
    }
}

/// A service together with the program that runs it.
pub(crate) struct ServiceProcess<'a> {
    pub(crate) spec: &'a ServiceSpec,
    pub(crate) program: PathBuf,
}

impl Managed for ServiceProcess<'_> {
    fn name(&self) -> String {
        self.spec.name.clone()
    }

    fn ports(&self) -> Vec<u16> {
        vec![self.spec.ready.address.port()]
    }

    fn prepare(&self) -> Result<(), StackError> {
        Ok(())
    }

    fn command(&self) -> Result<Command, StackError> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.spec.args)
            .envs(self.spec.env.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }

    fn check_ready(&self) -> Result<(), String> {
        self.spec.ready.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_urls_are_parsed_or_refused() {
        let url: ReadyUrl = "http://127.0.0.1:7301/readyz".parse().unwrap();
        assert_eq!(url, ReadyUrl::local(7301));
        for bad in [
            "https://127.0.0.1:7301/readyz",
            "http://127.0.0.1/readyz",
            "http://localhost:1/",
        ] {
            assert!(bad.parse::<ReadyUrl>().is_err(), "{bad}");
        }
    }
}
