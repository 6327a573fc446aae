//! The whole pipeline on servers that are closed to strangers, with the rights of `docs/SECURITY.md` and no others.

mod certificates;
mod deployment;
mod page;
mod refusals;

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use deployment::{Deployment, HUSH};
use system_tests::{DeviceClass, SERVICES, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_with_access_control_works_and_refuses_others() -> Result<()> {
    let deployment = Deployment::start().await?;
    let outcome = Box::pin(examine(&deployment)).await;
    if outcome.is_err() {
        deployment.print_logs();
    }
    outcome
}

async fn examine(deployment: &Deployment) -> Result<()> {
    deployment
        .run("operator", &["topics", "apply"])
        .await?
        .expect(0)?;
    deployment
        .run("schema", &["db", "apply"])
        .await?
        .expect(0)?;
    deployment.start_services().await?;
    a_message_goes_through(deployment).await?;
    it_is_known_who_is_present(deployment).await?;
    Box::pin(refusals::all(deployment)).await?;
    nothing_tells_a_secret(deployment).await
}

async fn a_message_goes_through(deployment: &Deployment) -> Result<()> {
    let client = &deployment.client;
    let (me, boss) = (1000, 1001);
    for n in 1..=3 {
        client
            .send(boss, me, &format!("closed-{n}"), "Call me.")
            .await?;
    }
    let read = client.ack(me, boss, DeviceClass::Mobile, 2).await?;
    let unread = client.unread(me, DeviceClass::Pc, &[read]).await?;
    ensure!(unread == BTreeMap::from([(boss, 3)]), "{unread:?}");
    let unread = client.unread(me, DeviceClass::Mobile, &[read]).await?;
    ensure!(unread == BTreeMap::from([(boss, 1)]), "{unread:?}");
    let items = client.history(me, boss, &[read]).await?;
    ensure!(items.len() == 3, "{items:?}");
    let outcome = client.outcome(read).await?;
    ensure!(outcome["state"] == "read_position_moved", "{outcome}");

    deployment
        .run("auditor", &["audit", "--wait-s", "60"])
        .await?
        .expect(0)?;
    deployment
        .run("auditor", &["tail", "--from", "earliest", "--no-follow"])
        .await?
        .expect(0)?;
    let sent = ["send", "1001", "1000", "Over TLS, from the command line"];
    deployment.run("nobody", &sent).await?.expect(0)?;
    let connected = deployment.run("nobody", &["connect", "1000"]).await?;
    let connected = connected.expect(0)?.json_lines()?;
    ensure!(
        connected.iter().any(|line| line["connected"] == true),
        "{connected:?}"
    );
    Ok(())
}

/// Null is what is said as long as the gateway holds no lease in Redis.
async fn it_is_known_who_is_present(deployment: &Deployment) -> Result<()> {
    let gateway = deployment.ports().gateway;
    until("known presence", async || {
        let answer = deployment.client.get_at(gateway, "/v1/presence?uid=1000");
        let answer = answer.await.map_err(|error| format!("{error:#}"))?;
        let online = &answer.body["items"][0]["online"];
        online
            .is_boolean()
            .then_some(())
            .ok_or(answer.body.to_string())
    })
    .await
}

/// Every password has [`HUSH`] in it.
async fn nothing_tells_a_secret(deployment: &Deployment) -> Result<()> {
    for service in SERVICES {
        let shown = deployment
            .run(service, &["config", "print"])
            .await?
            .expect(0)?;
        ensure!(shown.stdout.contains("[redacted]"), "{}", shown.stdout);
        ensure!(!shown.stdout.contains(HUSH), "{}", shown.stdout);
    }
    for (name, log) in deployment.logs()? {
        ensure!(!log.contains(HUSH), "the log of {name} has a password");
        ensure!(
            !log.contains("lacks an ACL"),
            "{name} wants more than docs/SECURITY.md grants: {log}"
        );
    }
    Ok(())
}
