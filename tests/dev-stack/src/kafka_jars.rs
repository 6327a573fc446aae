//! Kafka's jars: fetched once through Maven into a cache that all stacks of the user share.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::managed::run;
use crate::tools::Tool;
use crate::{StackConfig, StackError};

const POM: &str = include_str!("../../../compose/kafka/pom.xml");
/// The version in the pom; it names the directory, so another version never mixes with this one.
const VERSION: &str = "4.3.1";

/// The place of the jars, whether they are there yet or not.
#[derive(Debug, Clone)]
pub(crate) struct KafkaJars {
    cache: PathBuf,
}

impl KafkaJars {
    pub(crate) fn new(config: &StackConfig) -> Result<Self, StackError> {
        let cache = match &config.cache_dir {
            Some(dir) => dir.clone(),
            None => default_cache()?,
        };
        let cache = std::path::absolute(&cache).map_err(StackError::io("cache directory"))?;
        Ok(Self { cache })
    }

    fn dir(&self) -> PathBuf {
        self.cache.join(format!("kafka-{VERSION}"))
    }

    /// The argument of `java -cp` for all jars.
    pub(crate) fn class_path(&self) -> PathBuf {
        self.dir().join("*")
    }

    /// Fetches the jars unless they are there. The directory appears complete or not at all. If two processes do this at once, one fetches and the
    /// other waits.
    pub(crate) fn ensure(&self) -> Result<(), StackError> {
        if self.dir().is_dir() {
            return Ok(());
        }
        let _lock = self.lock()?;
        if self.dir().is_dir() {
            return Ok(());
        }
        self.fetch()
    }

    fn lock(&self) -> Result<File, StackError> {
        let path = self.cache.join("kafka.lock");
        let take = || {
            fs::create_dir_all(&self.cache)?;
            let file = File::create(&path)?;
            file.lock()?;
            Ok(file)
        };
        take().map_err(StackError::io(format!("lock {}", path.display())))
    }

    fn fetch(&self) -> Result<(), StackError> {
        let maven = Tool::Maven.require()?;
        tracing::info!(cache = %self.cache.display(), "fetching Kafka's jars through Maven, 54 MB, once");
        let work = tempfile::Builder::new()
            .prefix("kafka-partial-")
            .tempdir_in(&self.cache)
            .map_err(StackError::io(format!("write {}", self.cache.display())))?;
        let pom = work.path().join("pom.xml");
        fs::write(&pom, POM).map_err(StackError::io(format!("write {}", pom.display())))?;
        let jars = work.path().join("jars");
        run(
            "fetch Kafka's jars with mvn",
            &mut copy_dependencies(&maven, &pom, &jars),
        )?;
        fs::rename(&jars, self.dir())
            .map_err(StackError::io(format!("write {}", self.dir().display())))
    }
}

fn copy_dependencies(maven: &Path, pom: &Path, jars: &Path) -> Command {
    let mut command = Command::new(maven);
    command
        .args(["--batch-mode", "--quiet", "--file"])
        .arg(pom)
        .arg("dependency:copy-dependencies")
        .arg(format!("-DoutputDirectory={}", jars.display()));
    command
}

fn default_cache() -> Result<PathBuf, StackError> {
    let dir = |name: &str| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(cache) = dir("TIDEMARK_CACHE") {
        return Ok(cache);
    }
    dir("XDG_CACHE_HOME")
        .or_else(|| Some(dir("HOME")?.join(".cache")))
        .map(|base| base.join("tidemark"))
        .ok_or(StackError::NoCacheDir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_named_for_the_version_in_the_pom() {
        let wanted = format!("<version>{VERSION}</version>");
        assert_eq!(POM.matches(&wanted).count(), 2);
    }
}
