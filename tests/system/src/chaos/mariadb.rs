//! Faults of one of two MariaDB servers.

use anyhow::Result;

use super::victim::Victim;

pub(super) const SERVERS: [&str; 2] = ["mariadb", "mariadb-2"];
/// How many posts are accepted while a server is away, and again while it is caught up.
const BEHIND: u64 = 1_000;
/// A connection with the right to write to a read-only server would go on writing. So would a connection from before the right was revoked.
const NO_WRITES: &str = "REVOKE READ ONLY ADMIN ON *.* FROM 'tidemark'@'127.0.0.1'; \
    SET GLOBAL read_only = 1; KILL USER 'tidemark'@'127.0.0.1'";
const WRITES: &str = "SET GLOBAL read_only = 0";
/// Holds every row of every table of resume offsets, by a lock that others wait for, longer than they are ready to wait.
const HOLD_LOCKS: &str = "SET SESSION idle_transaction_timeout = 0; BEGIN; \
    SELECT COUNT(*) FROM (SELECT 1 FROM {database}.resume_offset FOR UPDATE) held; \
    SELECT SLEEP(15); ROLLBACK";

pub(super) async fn kill(victim: &mut Victim<'_>) -> Result<u64> {
    let server = victim.one_of(&SERVERS);
    victim.kill(server).await?;
    victim.meanwhile().await?;
    victim.env.start_servers().await?;
    Ok(1)
}

/// The server is away until the projections continue without it, and is then caught up beside the other one.
pub(super) async fn come_back(victim: &mut Victim<'_>) -> Result<u64> {
    let server = victim.one_of(&SERVERS);
    victim.kill(server).await?;
    victim.given_up().await?;
    victim.load.grows_by(BEHIND).await?;
    victim.env.start_servers().await?;
    victim.load.grows_by(BEHIND).await?;
    Ok(1)
}

pub(super) async fn pause(victim: &mut Victim<'_>) -> Result<u64> {
    let server = victim.one_of(&SERVERS);
    victim.pause(server).await?;
    Ok(1)
}

pub(super) async fn read_only(victim: &mut Victim<'_>) -> Result<u64> {
    let server = victim.one_of(&SERVERS);
    victim.env.execute_sql(server, NO_WRITES).await?;
    let going_on = victim.given_up().await;
    victim.env.execute_sql(server, WRITES).await?;
    going_on?;
    Ok(1)
}

pub(super) async fn lock(victim: &mut Victim<'_>) -> Result<u64> {
    let server = victim.one_of(&SERVERS);
    let databases = if server == "mariadb" { 0..2 } else { 2..4 };
    for database in databases {
        let sql = HOLD_LOCKS.replace("{database}", &format!("im_{database}"));
        victim.env.execute_sql(server, &sql).await?;
    }
    victim.meanwhile().await?;
    Ok(1)
}
