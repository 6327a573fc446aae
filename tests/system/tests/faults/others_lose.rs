//! What was measured at other systems, where messages were lost, doubled or miscounted (docs/RELIABILITY.md has their figures). Those
//! that are not here are in `killed_services`, `redis_flushed` and `mariadb_away`, and among the tests that break nothing in `one_id` and
//! `read_positions`.

use anyhow::{Result, ensure};
use rustix::process::Signal;
use system_tests::{DeviceClass, SERVICES, SHARED_OUT, Servers, Settings, TestEnv, new_users, run};

use crate::sql::Sql;

/// More than any batch of theirs takes of one conversation.
const WAITING: usize = 450;

#[test]
fn what_waited_for_its_consumers_is_there_once_and_stays_so_through_restarts() {
    run(Servers::Own(Settings::default()), async |env| {
        let [from, to] = new_users();
        for consumer in SHARED_OUT {
            env.end(consumer, Signal::TERM).await?;
        }
        let mut last = None;
        for number in 0..WAITING {
            let id = number.to_string();
            last = Some(env.client.send(from, to, &id, &id).await?);
        }
        env.start_services(&SHARED_OUT).await?;
        let after: Vec<_> = last.into_iter().collect();
        let items = env.client.history(to, from, &after).await?;
        let texts: Vec<&str> = items
            .iter()
            .filter_map(|item| item["msg"].as_str())
            .collect();
        let sent: Vec<String> = (0..WAITING).map(|number| number.to_string()).collect();
        ensure!(texts == sent, "{texts:?}");
        let unread = env.client.unread(to, DeviceClass::Pc, &after).await?;
        ensure!(unread.get(&from) == Some(&(WAITING as i64)), "{unread:?}");

        // Idle and drained: a restart has nothing to do again.
        let mut sql = Sql::connect(env).await?;
        let before = sql.messages().await?;
        restart_all(env).await?;
        env.audit([from, to]).await?;
        ensure!(sql.messages().await? == before);
        Ok(())
    });
}

async fn restart_all(env: &TestEnv) -> Result<()> {
    for service in SERVICES {
        env.end(service, Signal::TERM).await?;
    }
    env.start_services(&SERVICES).await
}
