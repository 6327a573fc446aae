//! Redis: one server, append-only file, nothing evicted.

use std::fs;
use std::process::Command;

use crate::managed::Managed;
use crate::run_dir::RunDir;
use crate::template::render;
use crate::tools::Tool;
use crate::{StackError, probe};

pub(crate) const CONFIG: &str = include_str!("../../../compose/native/redis.conf.template");

/// A Redis server.
#[derive(Debug, Clone)]
pub struct RedisSpec {
    pub(crate) run_dir: RunDir,
    pub(crate) port: u16,
}

impl RedisSpec {
    /// Its address for a client, `redis://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Managed for RedisSpec {
    fn name(&self) -> String {
        "redis".to_owned()
    }

    fn ports(&self) -> Vec<u16> {
        vec![self.port]
    }

    fn prepare(&self) -> Result<(), StackError> {
        let data = self.run_dir.data("redis");
        fs::create_dir_all(&data).map_err(StackError::io(format!("make {}", data.display())))?;
        let values = [
            ("port", self.port.to_string()),
            ("data_dir", data.display().to_string()),
        ];
        self.run_dir
            .write_config("redis.conf", &render(CONFIG, &values))?;
        Ok(())
    }

    fn command(&self) -> Result<Command, StackError> {
        let mut command = Command::new(Tool::Redis.require()?);
        command.arg(self.run_dir.config_file("redis.conf"));
        Ok(command)
    }

    fn check_ready(&self) -> Result<(), String> {
        probe::redis_ping(self.port)
    }
}
