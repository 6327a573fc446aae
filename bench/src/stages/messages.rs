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
    patience::wait_until,
    raw::load_data::{self, Files, Numbers},
    results::{Bound, Row},
    sample::{Sample, Spread},
};

const TABLES: usize = 16;
/// So many rows of either side in turn.
const SLICE: u64 = 500_000;
/// So many rows are few.
const SMALL: u64 = 2_000_000;
/// A server is never quite still.
const A_FEW_PAGES: i64 = 200;
const OURS: &str = "im_0";
const RAW: &str = "raw";

/// Into empty tables and on into large ones.
pub(super) async fn run(stage: &'static str, _plan: &Plan) -> Result<Vec<Row>> {
    let world = world().await?;
    load_data::make_tables(&world, RAW, OURS, TABLES).await?;
    let mut sides = Sides {
        world,
        traffic: Traffic::of_partitions(TABLES as u64),
        numbers: Numbers::default(),
    };
    // Cold servers would make a slow beginning, of which it is easy to keep much.
    sides.ours(SLICE).await?;
    sides.load_data(SLICE).await?;
    sides.empty().await?;
    let small = sides.side_by_side().await?;
    let larger = sides.on_their_own().await?;
    Ok(rows(stage, &small, &larger))
}

/// Both sides' tables lie in one server.
struct Sides {
    world: World,
    traffic: Traffic,
    numbers: Numbers,
}

impl Sides {
    /// From 0 to 2 million rows, a slice at a time, so that both sides' tables grow together.
    async fn side_by_side(&mut self) -> Result<Pair> {
        let mut pair = Pair::of(&[], &[]);
        for _ in 0..SMALL / SLICE {
            pair.ours.push(self.ours(SLICE).await?);
            pair.baseline.push(self.load_data(SLICE).await?);
        }
        Ok(pair)
    }

    /// From 2 to 8 million rows of ours.
    async fn on_their_own(&mut self) -> Result<Vec<Sample>> {
        load_data::empty(&self.world, RAW, TABLES).await?;
        let mut samples = Vec::new();
        for _ in 0..3 {
            samples.push(self.ours(SMALL).await?);
        }
        Ok(samples)
    }

    async fn ours(&self, count: u64) -> Result<Sample> {
        let Self { world, traffic, .. } = self;
        sequenced(world, traffic, count).await?;
        written_back(world).await?;
        project(world).await
    }

    async fn load_data(&mut self, count: u64) -> Result<Sample> {
        let Self {
            world,
            traffic,
            numbers,
        } = self;
        let files = Files::write(world, traffic, count, TABLES, numbers)?;
        written_back(world).await?;
        let meter = Meter::start(world)?;
        files.load(world, RAW).await?;
        meter.stop(files.rows)
    }

    async fn empty(&mut self) -> Result<()> {
        self.numbers = Numbers::default();
        load_data::empty(&self.world, OURS, TABLES).await?;
        load_data::empty(&self.world, RAW, TABLES).await
    }
}

fn rows(stage: &'static str, small: &Pair, larger: &[Sample]) -> Vec<Row> {
    const WHAT: &str = "projector-mysql, messages, 16 tables of one database, 2 writers";
    let against = Row::of_pair(
        stage,
        format!("{WHAT}: 0 → 2 million rows, by {SLICE}"),
        "LOAD DATA INFILE of 5,000-row files, 2 sessions",
        small,
        0.9,
    );
    let first = Sample::sum(&small.ours);
    let rates: Vec<f64> = larger.iter().map(Sample::rate).collect();
    let kept = Spread::of(rates.last().map(|last| last / first.rate()));
    let grown = Row::of_value(
        stage,
        format!("{WHAT}: rows 6 → 8 million against 0 → 2 million"),
        "of the rate",
        kept,
        Some(Bound::AtLeast(0.8)),
        &larger[larger.len() - 1..],
    );
    let each = (1..).zip(rates).map(|(i, rate)| {
        let what = format!("{WHAT}: rows {} → {} million", 2 * i, 2 * i + 2);
        Row::of_one(stage, what, "rows/s", rate, None)
    });
    [against, grown].into_iter().chain(each).collect()
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

/// Waits until the server has written all that it holds, which it would go on with under whoever comes next.
async fn written_back(world: &World) -> Result<()> {
    const AT_ONCE: &str = "SET GLOBAL innodb_io_capacity_max = 20000, innodb_io_capacity = 20000, \
                           innodb_max_dirty_pages_pct_lwm = 0, innodb_max_dirty_pages_pct = 0";
    const AS_EVER: &str = "SET GLOBAL innodb_io_capacity = DEFAULT, innodb_io_capacity_max = DEFAULT, \
                           innodb_max_dirty_pages_pct = DEFAULT, innodb_max_dirty_pages_pct_lwm = DEFAULT";
    const DIRTY: &str = "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status \
                         WHERE variable_name = 'INNODB_BUFFER_POOL_PAGES_DIRTY'";
    let mut database = MySqlConnection::connect(&world.mysql_url()).await?;
    sqlx::query(AT_ONCE).execute(&mut database).await?;
    let written = async || {
        let dirty: i64 = sqlx::query_scalar(DIRTY).fetch_one(&mut database).await?;
        Ok(dirty <= A_FEW_PAGES)
    };
    wait_until("dirty pages are written", written).await?;
    sqlx::query(AS_EVER).execute(&mut database).await?;
    Ok(())
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
