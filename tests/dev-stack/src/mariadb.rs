//! MariaDB: servers with the message shards' settings and the user `tidemark`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::managed::{Managed, numbered, run};
use crate::run_dir::RunDir;
use crate::template::render;
use crate::tools::Tool;
use crate::{ClosedServers, Memory, StackError, probe};

pub(crate) const CONFIG: &str = include_str!("../../../compose/native/mariadb.cnf.template");
/// Run by the server at every start before it takes connections, so that the user always exists.
const INIT_SQL: &str = include_str!("../../../compose/native/mariadb-init.sql");
const USER: &str = "tidemark";

/// A MariaDB server.
#[derive(Debug, Clone)]
pub struct MariaDbSpec {
    pub(crate) run_dir: RunDir,
    pub(crate) first_port: u16,
    /// The index of this server, from 0.
    pub(crate) index: u16,
    pub(crate) memory: Memory,
    pub(crate) closed: Option<ClosedServers>,
}

impl MariaDbSpec {
    /// The address for a client with all rights: `mysql://tidemark:tidemark@127.0.0.1:<port>`, without a database.
    pub fn url(&self) -> String {
        format!("mysql://{USER}:{USER}@127.0.0.1:{}", self.port())
    }

    fn port(&self) -> u16 {
        self.first_port + self.index
    }

    /// The path of a file or directory of this server's own: its data directory, its configuration.
    fn named(&self, suffix: &str) -> String {
        format!("{}{suffix}", self.name())
    }

    /// Runs statements over the server's own socket, as a user of ours whose privileges are never taken away. Returns the rows, without headings.
    pub(crate) fn execute(&self, sql: &str) -> Result<String, StackError> {
        let mut command = Command::new(Tool::MariaDbClient.require()?);
        // A relative name, since the path of a socket may be too long.
        command
            .current_dir(self.run_dir.data(&self.name()))
            .args(["--no-defaults", "--socket=mariadb.sock"])
            .args([format!("--user={USER}"), format!("--password={USER}")])
            .args(["--batch", "--skip-column-names", "--execute", sql]);
        let output = run(&format!("{}: {sql}", self.name()), &mut command)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Creates the system tables; the data directory appears complete or not at all.
    fn install_db(&self) -> Result<(), StackError> {
        let data = self.run_dir.data(&self.name());
        if data.is_dir() {
            return Ok(());
        }
        let partial = self.run_dir.data(&self.named(".partial"));
        let _ = fs::remove_dir_all(&partial);
        fs::create_dir_all(&partial)
            .map_err(StackError::io(format!("make {}", partial.display())))?;
        let mut command = Command::new(Tool::MariaDbInstall.require()?);
        // A relative name, since the script breaks on a path with a space in it.
        command
            .env("TMPDIR", self.make_temporary_dir()?)
            .current_dir(&partial)
            .args(["--no-defaults", "--skip-test-db", "--skip-name-resolve"])
            .arg("--datadir=.")
            .args(user_argument());
        run("make MariaDB's system tables", &mut command)?;
        fs::rename(&partial, &data).map_err(StackError::io(format!("make {}", data.display())))
    }

    /// A starting server removes the temporary tables of others from a directory that they share, so no directory is shared.
    fn make_temporary_dir(&self) -> Result<PathBuf, StackError> {
        let dir = self.run_dir.data(&self.named(".tmp"));
        fs::create_dir_all(&dir).map_err(StackError::io(format!("make {}", dir.display())))?;
        Ok(dir)
    }

    /// Queries the server as our user.
    fn select_one(&self) -> Result<(), String> {
        let client = Tool::MariaDbClient
            .require()
            .map_err(|error| error.to_string())?;
        let mut command = Command::new(client);
        command
            .args(["--no-defaults", "--host=127.0.0.1", "--connect-timeout=2"])
            .arg(format!("--port={}", self.port()))
            .args([format!("--user={USER}"), format!("--password={USER}")])
            .args(
                self.closed
                    .iter()
                    .map(|closed| format!("--ssl-ca={}", closed.ca.display())),
            )
            .args(["--execute", "SELECT 1"]);
        run("SELECT 1", &mut command)
            .map(|_| ())
            .map_err(|error| error.to_string())
    }
}

/// The server refuses to run as root unless told to.
fn user_argument() -> Option<&'static str> {
    rustix::process::geteuid()
        .is_root()
        .then_some("--user=root")
}

impl Managed for MariaDbSpec {
    fn name(&self) -> String {
        numbered("mariadb", self.index)
    }

    fn ports(&self) -> Vec<u16> {
        vec![self.port()]
    }

    fn prepare(&self) -> Result<(), StackError> {
        self.install_db()?;
        let users = self.closed.as_ref().map(ClosedServers::mariadb_sql);
        let init_sql = INIT_SQL.to_owned() + &users.unwrap_or_default();
        let init_file = self.run_dir.write_config("mariadb-init.sql", &init_sql)?;
        let values = [
            ("port", self.port().to_string()),
            (
                "data_dir",
                self.run_dir.data(&self.name()).display().to_string(),
            ),
            ("init_file", init_file.display().to_string()),
            (
                "buffer_pool_mib",
                self.memory.mariadb_buffer_pool_mib.to_string(),
            ),
            ("redo_log_mib", self.memory.mariadb_redo_log_mib.to_string()),
        ];
        let of_closed = self.closed.as_ref().map(ClosedServers::mariadb_config);
        let config = render(CONFIG, &values) + &of_closed.unwrap_or_default();
        self.run_dir.write_config(&self.named(".cnf"), &config)?;
        Ok(())
    }

    fn command(&self) -> Result<Command, StackError> {
        let config = self.run_dir.config_file(&self.named(".cnf"));
        let mut command = Command::new(Tool::MariaDb.require()?);
        // This option works only as the first one.
        command
            .env("TMPDIR", self.make_temporary_dir()?)
            .arg(format!("--defaults-file={}", config.display()))
            .args(user_argument());
        Ok(command)
    }

    fn check_ready(&self) -> Result<(), String> {
        probe::mariadb_greeting(self.port())?;
        self.select_one()
    }
}
