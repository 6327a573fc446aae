//! `tidemark up`: every service in one process.

use std::{
    fs::File,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
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
        assert_serves_the_chat(env).await?;

        let code = up.stop().await?;
        ensure!(code == Some(0), "stopped with {code:?}");
        Ok(())
    });
}

/// The gateway has the page, and the others let it call them.
async fn assert_serves_the_chat(env: &TestEnv) -> Result<()> {
    let gateway = env.gateway_urls()?.remove(0).replace("ws:", "http:");
    let page = reqwest::get(&gateway).await?.text().await?;
    ensure!(page.contains("<title>Tidemark</title>"), "{page}");
    let settings = reqwest::get(format!("{gateway}/page/settings.json")).await?;
    let settings: Value = serde_json::from_str(&settings.text().await?)?;
    for (service, url) in [
        ("ingest", env.client.ingest_url()),
        ("query", env.client.query_url()),
    ] {
        ensure!(settings[service] == url, "{settings} has not {url}");
        let request = reqwest::Client::new().get(url).header("origin", &gateway);
        let answer = request.send().await?;
        let allowed = answer.headers().get("access-control-allow-origin");
        ensure!(
            allowed.is_some_and(|origin| *origin == gateway),
            "{service} allows {allowed:?}"
        );
    }
    Ok(())
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
