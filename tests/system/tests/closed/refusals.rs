//! Who is turned away, and what is said then.

use anyhow::{Result, ensure};
use tokio::try_join;

use crate::deployment::{Deployment, HUSH};

/// Kafka's clients try for half a minute, so these wait side by side.
pub async fn all(deployment: &Deployment) -> Result<()> {
    try_join!(
        kafka(deployment),
        redis(deployment),
        mysql(deployment),
        plain(deployment),
    )?;
    Ok(())
}

/// Runs a command that must fail, and say all of `parts`.
async fn refused<'a>(
    deployment: &Deployment,
    user: &str,
    args: impl AsRef<[&'a str]>,
    parts: &[&str],
) -> Result<()> {
    let args = args.as_ref();
    let outcome = deployment.run(user, args).await?;
    let said = outcome.said();
    ensure!(
        outcome.code != Some(0),
        "{args:?} as {user} was not refused: {said}"
    );
    for part in parts {
        ensure!(
            said.contains(part),
            "{args:?} as {user} does not say {part:?}: {said}"
        );
    }
    ensure!(
        !said.contains(HUSH),
        "{args:?} as {user} tells a password: {said}"
    );
    Ok(())
}

async fn kafka(deployment: &Deployment) -> Result<()> {
    let stranger = format!(
        "kafka.tls_ca={}",
        deployment.certificates.stranger.display()
    );
    let diff = ["topics", "diff"];
    let with = |setting: &'static str| ["topics", "diff", "--set", setting];
    let unknown_authority = ["topics", "diff", "--set", &stranger];
    try_join!(
        refused(
            deployment,
            "operator",
            with("kafka.password=wrong"),
            &["kafka.username with kafka.password"]
        ),
        refused(
            deployment,
            "operator",
            with("kafka.username=ghost"),
            &["kafka.username with kafka.password"]
        ),
        refused(
            deployment,
            "operator",
            unknown_authority,
            &["no authority of kafka.tls_ca"]
        ),
        refused(
            deployment,
            "operator",
            with("kafka.tls_ca=/no/such.pem"),
            &["kafka.tls_ca", "cannot be read"]
        ),
        refused(
            deployment,
            "nobody",
            with("kafka.security_protocol=ssl"),
            &["another kafka.security_protocol"]
        ),
        refused(
            deployment,
            "auditor",
            diff,
            &["kafka.username lacks an ACL"]
        ),
        works(
            deployment,
            "operator",
            with("kafka.sasl_mechanism=SCRAM-SHA-256")
        ),
        works(deployment, "operator", with("kafka.sasl_mechanism=PLAIN")),
    )?;
    Ok(())
}

async fn works<'a>(deployment: &Deployment, user: &str, args: impl AsRef<[&'a str]>) -> Result<()> {
    deployment
        .run(user, args.as_ref())
        .await?
        .expect(0)
        .map(drop)
}

async fn redis(deployment: &Deployment) -> Result<()> {
    let stranger = format!(
        "redis.tls_ca={}",
        deployment.certificates.stranger.display()
    );
    let audit = |setting| ["audit", "--no-wait", "--set", setting];
    refused(
        deployment,
        "auditor",
        &audit("redis.password=wrong"),
        &["redis.username and redis.password"],
    )
    .await?;
    refused(
        deployment,
        "auditor",
        &audit(&stranger),
        &["no authority of redis.tls_ca"],
    )
    .await?;
    Ok(())
}

async fn mysql(deployment: &Deployment) -> Result<()> {
    let apply = ["db", "apply"];
    refused(
        deployment,
        "query-api",
        &apply,
        &["mysql.user lacks a grant"],
    )
    .await?;
    let wrong = [&apply, ["--set", "mysql.password=wrong"].as_slice()].concat();
    refused(
        deployment,
        "schema",
        &wrong,
        &["mysql.user with mysql.password"],
    )
    .await?;
    let server = |tls: &str| {
        let port = deployment.ports().mariadb;
        format!("mysql.servers=[{{ host = \"127.0.0.1\", port = {port}, {tls} }}]")
    };
    let stranger = deployment.certificates.stranger.display();
    let stranger = server(&format!("tls = \"verify-ca\", tls_ca = \"{stranger}\""));
    let unknown = [&apply, ["--set", &stranger].as_slice()].concat();
    refused(
        deployment,
        "schema",
        &unknown,
        &["no authority of mysql.servers.tls_ca"],
    )
    .await?;
    let plain = server("tls = \"disabled\"");
    let plain = [&apply, ["--set", &plain].as_slice()].concat();
    refused(deployment, "schema", &plain, &["mysql.servers.tls"]).await?;
    let required = server("tls = \"required\"");
    let required = [&apply, ["--set", &required].as_slice()].concat();
    works(deployment, "schema", &required).await
}

/// Who speaks plain text to our ports gets nothing, and who trusts another authority does not speak.
async fn plain(deployment: &Deployment) -> Result<()> {
    let ingest = format!(
        "client.ingest_url=http://127.0.0.1:{}",
        deployment.ports().ingest
    );
    let stranger = format!(
        "client.tls_ca={}",
        deployment.certificates.stranger.display()
    );
    let send = |setting| ["send", "1001", "1000", "no", "--set", setting];
    refused(deployment, "nobody", &send(&ingest), &["cannot be reached"]).await?;
    refused(deployment, "nobody", &send(&stranger), &["client.tls_ca"]).await
}
