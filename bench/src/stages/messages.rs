//! projector-mysql, messages only, into the 16 tables of one database.

use anyhow::Result;
use rustix::process::Signal;
use sqlx::{Connection as _, MySqlConnection};
use system_tests::{Settings, World};

use super::{Plan, SERVERS, drain::drained};
use crate::{
    load::traffic::Traffic,
    meter::Meter,
    pair::Pair,
    raw::load_data::{self, Files, Numbers},
    results::{Bound, Row},
    sample::{Sample, Spread},
};

const TABLES: usize = 16;
const MILLION: u64 = 1_000_000;
const OURS: &str = "im_0";
const RAW: &str = "raw";

/// Two million rows into empty tables.
pub(super) async fn against_load_data(stage: &'static str, plan: &Plan) -> Result<Vec<Row>> {
    let world = world().await?;
    let traffic = Traffic::of_partitions(TABLES as u64);
    load_data::make_tables(&world, RAW, OURS, TABLES).await?;
    let files = Files::write(
        &world,
        &traffic,
        2 * MILLION,
        TABLES,
        &mut Numbers::default(),
    )?;
    let pair = Pair::run(
        plan.rounds,
        async || {
            empty(&world).await?;
            sequenced(&world, &traffic, 2 * MILLION).await?;
            project(&world).await
        },
        async || {
            empty(&world).await?;
            let meter = Meter::start(&world)?;
            files.load(&world, RAW).await?;
            meter.stop(files.rows)
        },
    )
    .await?;
    Ok(vec![Row::of_pair(
        stage,
        "projector-mysql, messages, 0 → 2 million rows in 16 tables of one database, 2 writers",
        "LOAD DATA INFILE of 5,000-row files, 2 sessions",
        &pair,
        0.9,
    )])
}

/// How much of its rate it keeps once the tables are large.
pub(super) async fn grown(stage: &'static str, _plan: &Plan) -> Result<Vec<Row>> {
    let world = world().await?;
    let traffic = Traffic::of_partitions(TABLES as u64);
    // Cold servers would make a slow beginning, of which it is easy to keep much.
    sequenced(&world, &traffic, 2 * MILLION).await?;
    project(&world).await?;
    load_data::empty(&world, OURS, TABLES).await?;
    let mut samples = Vec::new();
    for _ in 0..4 {
        sequenced(&world, &traffic, 2 * MILLION).await?;
        samples.push(project(&world).await?);
    }
    let rates: Vec<f64> = samples.iter().map(Sample::rate).collect();
    let what = "projector-mysql, messages, rows 6 → 8 million against 0 → 2 million";
    let kept = Spread::of([rates[3] / rates[0]]);
    let least = Some(Bound::AtLeast(0.8));
    let mut rows = vec![Row::of_value(
        stage,
        what,
        "of the rate",
        kept,
        least,
        &samples[3..],
    )];
    for (i, rate) in rates.iter().enumerate() {
        let what = format!(
            "projector-mysql, messages, rows {} → {} million",
            2 * i,
            2 * i + 2
        );
        rows.push(Row::of_value(
            stage,
            what,
            "rows/s",
            Spread::of([*rate]),
            None,
            &samples[i..=i],
        ));
    }
    Ok(rows)
}

async fn world() -> Result<World> {
    World::start(Settings {
        overrides: &[
            r#"projector_mysql.projections=["messages"]"#,
            // As many sessions as LOAD DATA has, since all tables are in one database here.
            "projector_mysql.messages_writers=2",
        ],
        ..SERVERS
    })
    .await
}

/// Empties what either side has written, which would go on being flushed under the other.
async fn empty(world: &World) -> Result<()> {
    load_data::empty(world, OURS, TABLES).await?;
    load_data::empty(world, RAW, TABLES).await
}

/// So many more messages on `chat.events`, and no sequencer any more.
async fn sequenced(world: &World, traffic: &Traffic, count: u64) -> Result<()> {
    world.start_services(&["sequencer"]).await?;
    super::sequenced(world, traffic, count).await?;
    world.end("sequencer", Signal::TERM).await
}

async fn project(world: &World) -> Result<Sample> {
    let mut database = MySqlConnection::connect(&world.mysql_url()).await?;
    let end = events(world).await?;
    let done = async || projected(&mut database).await;
    drained(world, "projector-mysql", end, done).await
}

/// How many records `chat.events` has for these tables.
async fn events(world: &World) -> Result<u64> {
    let ends = world.events.ends().await?;
    let ours = ends
        .iter()
        .filter(|(partition, _)| partition.index() < TABLES);
    Ok(ours.map(|(_, end)| end.cast_unsigned()).sum())
}

/// How many of them the database has.
async fn projected(database: &mut MySqlConnection) -> Result<u64> {
    let sql = "SELECT CAST(COALESCE(SUM(next_offset), 0) AS SIGNED) FROM im_0.resume_offset WHERE sink = 'messages'";
    let sum: i64 = sqlx::query_scalar(sql).fetch_one(database).await?;
    Ok(sum.cast_unsigned())
}
