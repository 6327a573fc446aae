//! An experiment: `chat_msg_<n>` in InnoDB, and in MyRocks (Debian's `mariadb-plugin-rocksdb`).

use std::time::Instant;

use anyhow::{Context as _, Result};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use rustix::process::Signal;
use sqlx::{Connection as _, MySqlConnection};
use system_tests::{Percentiles, TestEnv};

use super::{Plan, SERVERS};
use crate::{
    disk,
    load::traffic::Traffic,
    raw::load_data::{self, Files, Numbers},
    results::Row,
    sample::Sample,
};

const MILLION: u64 = 1_000_000;
const STEP: u64 = 2 * MILLION;
/// After so many million rows the tables are measured.
const MEASURE_AT: [u64; 3] = [2, 8, 20];
const TABLES: usize = 16;
const LIKE: &str = "im_0";
const RAW: &str = "raw";
const PAGES: usize = 2_000;

struct Engine {
    name: &'static str,
    plugin: Option<Plugin>,
    /// Where it keeps its tables, below the server's data.
    files: &'static str,
}

struct Plugin {
    /// Has the server load it at its next start: MyRocks brings one down that loads it while it runs.
    install: &'static str,
    settings: &'static str,
}

const ENGINES: [Engine; 2] = [
    Engine {
        name: "InnoDB",
        plugin: None,
        files: RAW,
    },
    Engine {
        name: "ROCKSDB",
        plugin: Some(Plugin {
            install: "INSERT INTO mysql.plugin VALUES ('ROCKSDB', 'ha_rocksdb.so')",
            // As much as InnoDB's buffer pool has, and as little care for a commit; they come back to life with every server.
            settings: "SET GLOBAL rocksdb_block_cache_size = 512 * 1024 * 1024, \
                       rocksdb_flush_log_at_trx_commit = 0",
        }),
        files: "#rocksdb",
    },
];

/// Rates, bytes and reads of both, at growing sizes.
pub(super) async fn run(_plan: &Plan) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for engine in &ENGINES {
        let env = TestEnv::start(SERVERS).await?;
        engine.make_tables(&env).await?;
        let traffic = Traffic::of_partitions(TABLES as u64);
        let (mut there, mut numbers) = (0, Numbers::default());
        for millions in MEASURE_AT {
            let mut rate = 0.0;
            while there < millions * MILLION {
                let files = Files::write(&env, &traffic, STEP, TABLES, &mut numbers)?;
                let began = Instant::now();
                files.load(&env, RAW).await?;
                rate = Sample::of_rate(STEP, began.elapsed()).rate();
                there += STEP;
            }
            let bytes = disk::bytes(&env, "mariadb", engine.files, "")? as f64 / there as f64;
            let reads = read_pages(&env).await?;
            let mut row = |what: &str, unit, value| {
                let what = format!("{}, at {millions} million rows: {what}", engine.name);
                rows.push(Row::of_one(what, unit, value, None));
            };
            row("the last two million by LOAD DATA", "rows/s", rate);
            row("on disk", "bytes a row", bytes);
            row("page of 50, p50", "ms", reads.p50);
            row("page of 50, p99", "ms", reads.p99);
        }
    }
    Ok(rows)
}

impl Engine {
    async fn make_tables(&self, env: &TestEnv) -> Result<()> {
        let Self { name, plugin, .. } = self;
        if let Some(Plugin { install, settings }) = plugin {
            env.execute_sql("mariadb", install).await?;
            env.end("mariadb", Signal::TERM).await?;
            env.start_servers().await?;
            let set = env.execute_sql("mariadb", settings).await;
            set.context("for MyRocks: apt-get install mariadb-plugin-rocksdb")?;
        }
        load_data::make_tables(env, RAW, LIKE, TABLES).await?;
        let each = |n| format!("ALTER TABLE {RAW}.chat_msg_{n} ENGINE = {name};\n");
        let all: String = (0..TABLES).map(each).collect();
        env.execute_sql("mariadb", &all).await
    }
}

/// Pages of conversations drawn at random.
async fn read_pages(env: &TestEnv) -> Result<Percentiles> {
    let mut database = MySqlConnection::connect(&env.mysql_url()).await?;
    let traffic = Traffic::of_partitions(TABLES as u64);
    let mut rng = StdRng::seed_from_u64(17);
    let mut took_ms = Vec::new();
    for _ in 0..PAGES {
        let message = traffic.nth(rng.random_range(0..STEP));
        let table = message.partition()?;
        let sql = format!(
            "SELECT id, mid, msg, ts FROM {RAW}.chat_msg_{table} \
             WHERE srcid = ? AND destid = ? ORDER BY mid DESC LIMIT 50"
        );
        let query = sqlx::query(sqlx::AssertSqlSafe(sql));
        let began = Instant::now();
        let query = query.bind(message.srcid).bind(message.destid);
        query.fetch_all(&mut database).await?;
        took_ms.push(began.elapsed().as_secs_f64() * 1e3);
    }
    // The first ones open tables and prepare statements.
    Ok(Percentiles::of(took_ms.split_off(PAGES / 10)))
}
