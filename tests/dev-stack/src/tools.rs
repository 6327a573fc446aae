//! Finds the programs that the stack needs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::StackError;

/// Debian keeps servers here, which is not on every user's `PATH`.
const SYSTEM_DIRS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/sbin"];
/// Kafka 4 brokers need at least this version of Java.
const JAVA_VERSION: u32 = 17;

/// A program that the stack needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    Java,
    Maven,
    Redis,
    MariaDb,
    MariaDbInstall,
    MariaDbClient,
}

impl Tool {
    pub(crate) const ALL: [Self; 6] = [
        Self::Java,
        Self::Maven,
        Self::Redis,
        Self::MariaDb,
        Self::MariaDbInstall,
        Self::MariaDbClient,
    ];

    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Java => "java",
            Self::Maven => "mvn",
            Self::Redis => "redis-server",
            Self::MariaDb => "mariadbd",
            Self::MariaDbInstall => "mariadb-install-db",
            Self::MariaDbClient => "mariadb",
        }
    }

    pub(crate) fn package(self) -> &'static str {
        match self {
            Self::Java => "default-jre-headless",
            Self::Maven => "maven",
            Self::Redis => "redis-server",
            Self::MariaDb | Self::MariaDbInstall => "mariadb-server-core",
            Self::MariaDbClient => "mariadb-client-core",
        }
    }

    /// The name of the program in messages.
    pub(crate) fn label(self) -> String {
        match self {
            Self::Java => format!("java {JAVA_VERSION} or newer"),
            other => other.program().to_owned(),
        }
    }

    /// The path of the program, if it is present and new enough.
    pub(crate) fn find(self) -> Option<PathBuf> {
        let path = search(self.program())?;
        let usable = self != Self::Java || java_version(&path)? >= JAVA_VERSION;
        usable.then_some(path)
    }

    /// The path of the program, or an error that says how to get it.
    pub(crate) fn require(self) -> Result<PathBuf, StackError> {
        self.find().ok_or_else(|| missing(&[self]))
    }
}

/// The tools that are missing.
pub(crate) fn find_missing() -> Vec<Tool> {
    Tool::ALL
        .into_iter()
        .filter(|tool| tool.find().is_none())
        .collect()
}

/// The packages that have these tools, each once.
pub(crate) fn packages(tools: &[Tool]) -> Vec<String> {
    let mut names: Vec<String> = tools.iter().map(|tool| tool.package().to_owned()).collect();
    names.dedup();
    names
}

pub(crate) fn missing(tools: &[Tool]) -> StackError {
    StackError::MissingPrograms {
        programs: tools.iter().map(|tool| tool.label()).collect(),
        packages: packages(tools),
    }
}

/// Whether a program is on `PATH` or among the system directories.
pub(crate) fn search(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(SYSTEM_DIRS.iter().map(PathBuf::from))
        .map(|dir| dir.join(program))
        .find(|candidate| is_executable(candidate))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn java_version(java: &Path) -> Option<u32> {
    let output = Command::new(java).arg("-version").output().ok()?;
    parse_java_version(&String::from_utf8_lossy(&output.stderr))
}

/// Reads `17` from `openjdk version "17.0.15" 2025-04-15`; versions before 9 call themselves `1.8` and so on.
fn parse_java_version(text: &str) -> Option<u32> {
    let quoted = text.split('"').nth(1)?;
    let mut numbers = quoted.split(|c: char| !c.is_ascii_digit());
    numbers.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_versions_are_read() {
        assert_eq!(
            parse_java_version("openjdk version \"17.0.15\" 2025-04-15\n"),
            Some(17)
        );
        assert_eq!(
            parse_java_version("openjdk version \"21-ea\" 2023-09-19\n"),
            Some(21)
        );
        assert_eq!(parse_java_version("java version \"1.8.0_292\"\n"), Some(1));
        assert_eq!(parse_java_version("command not found"), None);
    }

    #[test]
    fn one_package_is_named_once() {
        let error = missing(&[Tool::Redis, Tool::MariaDb, Tool::MariaDbInstall]);
        assert_eq!(
            error.to_string(),
            "missing: redis-server, mariadbd, mariadb-install-db; \
             install the packages: redis-server mariadb-server-core"
        );
    }
}
