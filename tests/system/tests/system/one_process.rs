//! `tidemark up`: every service in one process.

use std::{
    fs::File,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use system_tests::{DeviceClass, Servers, Settings, TestEnv, new_users, program, run, until};

#[test]
fn all_services_work_in_one_process_that_stops_on_request() {
    run(Servers::Own(Settings::WITHOUT_SERVICES), async |env| {
        let mut up = Up::start(env)?;
        let path = "/readyz";
        until("tidemark up", async || match env.client.get(path).await {
            Ok(answer) if answer.status == 200 => Ok(()),
            Ok(answer) => Err(answer.body.to_string()),
            Err(error) => Err(format!("{error:#}")),
        })
        .await?;
        let [from, to] = new_users();
        env.client.send(from, to, "1", "one").await?;
        let second = env.client.send(from, to, "2", "two").await?;
        let unread = env.client.unread(to, DeviceClass::Pc, &[second]).await?;
        ensure!(unread.get(&from) == Some(&2), "{unread:?}");
        let read = env.client.ack(to, from, DeviceClass::Pc, 1).await?;
        let unread = env.client.unread(to, DeviceClass::Pc, &[read]).await?;
        ensure!(unread.get(&from) == Some(&1), "{unread:?}");
        let items = env.client.history(to, from, &[second]).await?;
        ensure!(items.len() == 2, "{items:?}");
        env.audit([from, to]).await?;

        let code = up.stop().await?;
        ensure!(code == Some(0), "stopped with {code:?}");
        Ok(())
    });
}

struct Up(Child);

impl Up {
    fn start(env: &TestEnv) -> Result<Self> {
        let log = File::create(env.log_file("up"))?;
        let child = Command::new(program()?)
            .arg("up")
            .args(env.config_args())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        Ok(Self(child))
    }

    /// SIGTERM; gives the exit code.
    async fn stop(&mut self) -> Result<Option<i32>> {
        let pid = Pid::from_raw(self.0.id().cast_signed()).context("no pid")?;
        kill_process(pid, Signal::TERM)?;
        until("the end of tidemark up", async || match self.0.try_wait() {
            Ok(Some(status)) => Ok(status.code()),
            Ok(None) => Err("it runs".to_owned()),
            Err(error) => Err(error.to_string()),
        })
        .await
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // Of one that has ended there is nothing left to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
