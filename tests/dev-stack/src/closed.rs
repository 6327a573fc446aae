//! Servers with TLS, authentication and access control, as in a deployment.

use std::fs;
use std::path::PathBuf;

use crate::run_dir::RunDir;
use crate::template::{property, render};
use crate::{StackError, port};

const KAFKA: &str = include_str!("../../../compose/native/kafka-closed.properties.template");
const REDIS: &str = include_str!("../../../compose/native/redis-closed.conf.template");
const MARIADB: &str = include_str!("../../../compose/native/mariadb-closed.cnf.template");

/// The Redis user of readiness probes.
const PROBE: &str = "probe";

/// Certificates and users of servers with access control. One broker only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosedServers {
    /// PEM file with the authority that has signed the certificate.
    pub ca: PathBuf,
    /// PEM file with the certificate that all servers show, for 127.0.0.1.
    pub cert: PathBuf,
    /// PEM file with the certificate's key (PKCS #8).
    pub key: PathBuf,
    /// Users of Kafka with their passwords, for SCRAM and PLAIN. Their rights are set by Kafka's `AclCommand` ([`crate::Stack::kafka_tool`]).
    pub kafka_users: Vec<(String, String)>,
    /// Lines of Redis's ACL file, as `user reader on >password ~state-* +hgetall`. The default user is off.
    pub redis_users: Vec<String>,
    /// Statements that create MariaDB's users.
    pub mariadb_users: Vec<String>,
    ports: InternalPorts,
}

/// Plain listeners on loopback, for readiness and administration only. They are not advertised to clients.
#[derive(Debug, Clone, PartialEq, Eq)]
struct InternalPorts {
    kafka: u16,
    redis: u16,
}

impl ClosedServers {
    /// Servers without users; only administrators have access.
    #[must_use]
    pub fn new(ca: PathBuf, cert: PathBuf, key: PathBuf) -> Self {
        let free = port::find_free(2);
        Self {
            ca,
            cert,
            key,
            kafka_users: Vec::new(),
            redis_users: Vec::new(),
            mariadb_users: Vec::new(),
            ports: InternalPorts {
                kafka: free[0],
                redis: free[1],
            },
        }
    }

    pub(crate) fn kafka_port(&self) -> u16 {
        self.ports.kafka
    }

    pub(crate) fn redis_port(&self) -> u16 {
        self.ports.redis
    }

    /// Key and certificate in one file, as Kafka requires.
    fn kafka_keystore(&self, run_dir: &RunDir) -> Result<PathBuf, StackError> {
        let read = |path: &PathBuf| {
            fs::read_to_string(path).map_err(StackError::io(format!("read {}", path.display())))
        };
        let both = read(&self.key)? + &read(&self.cert)?;
        run_dir.write_config("kafka-keystore.pem", &both)
    }

    /// The listener settings of a broker.
    pub(crate) fn kafka_properties(
        &self,
        run_dir: &RunDir,
        (port, controller_port): (u16, u16),
    ) -> Result<String, StackError> {
        let plain_users = self
            .kafka_users
            .iter()
            .map(|(name, password)| format!(" user_{name}=\"{password}\""));
        Ok(render(
            KAFKA,
            &[
                ("port", port.to_string()),
                ("controller_port", controller_port.to_string()),
                ("internal_port", self.ports.kafka.to_string()),
                (
                    "keystore",
                    property(&self.kafka_keystore(run_dir)?.to_string_lossy()),
                ),
                ("plain_users", property(&plain_users.collect::<String>())),
            ],
        ))
    }

    /// Arguments of Kafka's storage tool that create the users.
    pub(crate) fn kafka_scram(&self) -> Vec<String> {
        let of_user = |(name, password): &(String, String)| {
            ["SCRAM-SHA-256", "SCRAM-SHA-512"].map(|mechanism| {
                format!("--add-scram={mechanism}=[name={name},password={password}]")
            })
        };
        self.kafka_users.iter().flat_map(of_user).collect()
    }

    pub(crate) fn redis_config(&self, run_dir: &RunDir, port: u16) -> Result<String, StackError> {
        let own = [
            "user default off".to_owned(),
            format!("user {PROBE} on nopass +ping"),
        ];
        let users = [own.as_slice(), &self.redis_users].concat().join("\n");
        let acl = run_dir.write_config("redis-users.acl", &(users + "\n"))?;
        Ok(render(
            REDIS,
            &[
                ("port", port.to_string()),
                ("internal_port", self.ports.redis.to_string()),
                ("ca", self.ca.display().to_string()),
                ("cert", self.cert.display().to_string()),
                ("key", self.key.display().to_string()),
                ("acl_file", acl.display().to_string()),
            ],
        ))
    }

    /// The login of [`PROBE`].
    pub(crate) fn redis_login() -> String {
        format!("AUTH {PROBE} -\r\n")
    }

    pub(crate) fn mariadb_config(&self) -> String {
        render(
            MARIADB,
            &[
                ("ca", self.ca.display().to_string()),
                ("cert", self.cert.display().to_string()),
                ("key", self.key.display().to_string()),
            ],
        )
    }

    /// Statements for every start, after those of any MariaDB.
    pub(crate) fn mariadb_sql(&self) -> String {
        let ends = self
            .mariadb_users
            .iter()
            .map(|statement| format!("{statement};\n"));
        ends.collect()
    }
}
