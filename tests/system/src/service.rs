//! The services of an environment, as processes that can be started.

use std::{fs, net::TcpListener};

use anyhow::{Context as _, Result};
use dev_stack::{Ports, ServiceSpec};

/// The services; those on which others wait come first.
pub const SERVICES: [&str; 6] = [
    "sequencer",
    "projector-mysql",
    "projector-unread",
    "query-api",
    "ingest",
    "gateway",
];

/// The services that divide partitions among their instances.
pub const SHARED_OUT: [&str; 3] = ["sequencer", "projector-unread", "projector-mysql"];

/// The resident set of a process, KiB.
pub(crate) fn resident_kib(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.context("no VmRSS")?.parse()?)
}

/// One instance of a service.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) spec: ServiceSpec,
    /// The port of the service's probes.
    pub(crate) port: u16,
}

impl Service {
    /// One instance of each service, on the ports of the configuration file.
    pub(crate) fn firsts(ports: &Ports, config: &[String]) -> Result<Vec<Self>> {
        let port_of = |service: &str| match service {
            "sequencer" => ports.sequencer,
            "projector-mysql" => ports.projector_mysql,
            "projector-unread" => ports.projector_unread,
            "query-api" => ports.query_api,
            _ => ports.ingest,
        };
        let first = |service| match service {
            // A previous version may not know this section, so it is not in the file.
            "gateway" => Self::with_port(service, service, ports.gateway, config),
            _ => Self::new(service, service, port_of(service), config),
        };
        SERVICES.into_iter().map(first).collect()
    }

    /// The instance with this number, on a port of its own.
    pub(crate) fn another(service: &str, number: usize, config: &[String]) -> Result<Self> {
        let port = free_port().context("no port is free")?;
        Self::with_port(&format!("{service}-{number}"), service, port, config)
    }

    /// An instance whose address is not in the configuration file.
    fn with_port(name: &str, service: &str, port: u16, config: &[String]) -> Result<Self> {
        let section = service.replace('-', "_");
        let listen = [
            "--set".to_owned(),
            format!("{section}.listen=127.0.0.1:{port}"),
        ];
        let config = [config, &listen].concat();
        Self::new(name, service, port, &config)
    }

    fn new(name: &str, service: &str, port: u16, config: &[String]) -> Result<Self> {
        let spec = ServiceSpec {
            name: name.to_owned(),
            args: [&[service.to_owned()], config].concat(),
            env: Vec::new(),
            program: None,
            ready: format!("http://127.0.0.1:{port}/readyz").parse()?,
        };
        Ok(Self { spec, port })
    }

    /// The specification for a start that does not wait for readiness.
    pub(crate) fn alive(self) -> Result<ServiceSpec> {
        let ready = format!("http://127.0.0.1:{}/livez", self.port).parse()?;
        Ok(ServiceSpec { ready, ..self.spec })
    }

    /// Whether this is an instance of that service.
    pub(crate) fn is_of(&self, service: &str) -> bool {
        self.spec.args.first().is_some_and(|first| first == service)
    }

    pub(crate) fn name(&self) -> &str {
        &self.spec.name
    }
}

/// A free port outside of those of throw-away servers and of those that Linux hands out for outgoing connections.
fn free_port() -> Option<u16> {
    (31_000..32_000).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
}
