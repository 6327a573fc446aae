//! Installs what is missing: Debian's packages if possible, and Kafka's jars.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::kafka_jars::KafkaJars;
use crate::tools::{self, Tool};
use crate::{StackConfig, StackError};

const APT_INSTALL: &str = include_str!("../../../compose/native/apt-install.sh");

/// Makes sure that every program and Kafka's jars are present. As root on Debian, missing packages are installed; elsewhere the error names them.
/// Does nothing if nothing is missing.
pub fn install(config: &StackConfig) -> Result<(), StackError> {
    let missing = tools::find_missing();
    if !missing.is_empty() {
        install_packages(&missing)?;
    }
    KafkaJars::new(config)?.ensure()?;
    Ok(())
}

fn install_packages(missing: &[Tool]) -> Result<(), StackError> {
    if !can_use_apt() {
        return Err(tools::missing(missing));
    }
    let packages = tools::packages(missing);
    tracing::info!(packages = packages.join(" "), "installing Debian packages");
    // The script comes as an argument, so stdin stays empty and no package can stop to ask a question.
    let status = Command::new("sh")
        .args(["-c", APT_INSTALL, "apt-install"])
        .args(&packages)
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .map_err(StackError::io("run apt-get"))?;
    if !status.success() {
        return Err(StackError::CommandFailed {
            what: format!("apt-get install {}", packages.join(" ")),
            status: status.to_string(),
            tail: "  its messages are above\n".to_owned(),
        });
    }
    let still_missing = tools::find_missing();
    if still_missing.is_empty() {
        Ok(())
    } else {
        Err(tools::missing(&still_missing))
    }
}

fn can_use_apt() -> bool {
    rustix::process::geteuid().is_root()
        && Path::new("/etc/debian_version").exists()
        && tools::search("apt-get").is_some()
}
