//! projector-mysql, messages only, into the 16 tables of one database.

use anyhow::Result;
use message_store::Sink;
use rustix::process::Signal;
use sqlx::{Connection as _, MySqlConnection};
use system_tests::{Settings, TestEnv};

use super::{Plan, SERVERS, drain::drained, sequenced};
use crate::{
    deadline::wait_until,
    load::traffic::Traffic,
    meter::Meter,
    pair::Pair,
    progress::{Progress, Projection},
    raw::load_data::{self, Files, Numbers},
    results::{Bound, Row},
    sample::{Sample, Spread},
};

const TABLES: usize = 16;
/// How many rows one side writes before it is the other's turn.
const SLICE: u64 = 500_000;
/// A span is two million rows.
const SLICES_OF_SPAN: usize = 4;
/// How many spans are written, one after another.
const SPANS: usize = 4;
/// A server always has a few dirty pages.
const A_FEW_PAGES: i64 = 200;
const OURS: &str = "im_0";
const RAW: &str = "raw";

/// Measures writes into empty tables and on into large ones.
pub(super) async fn run(_plan: &Plan) -> Result<Vec<Row>> {
    let env = env().await?;
    load_data::make_tables(&env, RAW, OURS, TABLES).await?;
    let mut sides = Sides {
        env,
        traffic: Traffic::of_partitions(TABLES as u64),
        numbers: Numbers::default(),
    };
    // Warms up both sides. With cold servers the first span would be slow, and it would be easy for the last one to reach 0.8 of its rate.
    sides.ours().await?;
    sides.load_data().await?;
    sides.empty().await?;
    let pair = sides.side_by_side().await?;
    sides.empty().await?;
    let spans = sides.on_their_own().await?;
    Ok(rows(&pair, &spans))
}

/// The tables of both sides, in one server.
struct Sides {
    env: TestEnv,
    traffic: Traffic,
    numbers: Numbers,
}

impl Sides {
    /// Writes from 0 to 2 million rows, one slice at a time, so that both sides' tables grow together.
    async fn side_by_side(&mut self) -> Result<Pair> {
        let mut pair = Pair::of(&[], &[]);
        for _ in 0..SLICES_OF_SPAN {
            pair.ours.push(self.ours().await?);
            pair.baseline.push(self.load_data().await?);
        }
        Ok(pair)
    }

    /// Writes from 0 to 8 million rows of ours, in the same slices. Returns the samples of each 2 million.
    async fn on_their_own(&mut self) -> Result<Vec<Vec<Sample>>> {
        let mut spans = Vec::new();
        for _ in 0..SPANS {
            let mut slices = Vec::new();
            for _ in 0..SLICES_OF_SPAN {
                slices.push(self.ours().await?);
            }
            spans.push(slices);
        }
        Ok(spans)
    }

    /// Writes a slice by the projector.
    async fn ours(&self) -> Result<Sample> {
        let Self { env, traffic, .. } = self;
        sequenced_alone(env, traffic, SLICE).await?;
        written_back(env).await?;
        project(env).await
    }

    /// Writes a slice by LOAD DATA.
    async fn load_data(&mut self) -> Result<Sample> {
        let Self {
            env,
            traffic,
            numbers,
        } = self;
        let files = Files::write(env, traffic, SLICE, TABLES, numbers)?;
        written_back(env).await?;
        let meter = Meter::start(env)?;
        files.load(env, RAW).await?;
        meter.stop(files.rows)
    }

    async fn empty(&mut self) -> Result<()> {
        self.numbers = Numbers::default();
        load_data::empty(&self.env, OURS, TABLES).await?;
        load_data::empty(&self.env, RAW, TABLES).await
    }
}

fn rows(pair: &Pair, spans: &[Vec<Sample>]) -> Vec<Row> {
    const WHAT: &str = "projector-mysql, messages, 16 tables of one database, 2 writers";
    let against = Row::of_pair(
        format!("{WHAT}: 0 → 2 million rows, by {SLICE}"),
        "LOAD DATA INFILE of 5,000-row files, 2 sessions",
        pair,
        0.9,
    );
    let (first, last) = (&spans[0], &spans[SPANS - 1]);
    let kept = last.iter().zip(first);
    let kept = Spread::of(kept.map(|(last, first)| last.rate() / first.rate()));
    let grown = Row::of_value(
        format!("{WHAT}: rows 6 → 8 million against 0 → 2 million"),
        "of the rate",
        kept,
        Some(Bound::AtLeast(0.8)),
        last,
    );
    let each = (0..).zip(spans).map(|(i, slices)| {
        let what = format!("{WHAT}: rows {} → {} million", 2 * i, 2 * i + 2);
        let rates = Spread::of(slices.iter().map(Sample::rate));
        Row::of_value(what, "rows/s", rates, None, slices)
    });
    [against, grown].into_iter().chain(each).collect()
}

async fn env() -> Result<TestEnv> {
    TestEnv::start(Settings {
        overrides: &[
            r#"projector_mysql.projections=["messages"]"#,
            // As many sessions as LOAD DATA has, since all tables are in one database here.
            "projector_mysql.messages_writers=2",
        ],
        ..SERVERS
    })
    .await
}

/// Waits until the server has written its dirty pages, so that the next measurement does not pay for them.
async fn written_back(env: &TestEnv) -> Result<()> {
    const AT_ONCE: &str = "SET GLOBAL innodb_io_capacity_max = 20000, innodb_io_capacity = 20000, \
                           innodb_max_dirty_pages_pct_lwm = 0, innodb_max_dirty_pages_pct = 0";
    const AS_EVER: &str = "SET GLOBAL innodb_io_capacity = DEFAULT, innodb_io_capacity_max = DEFAULT, \
                           innodb_max_dirty_pages_pct = DEFAULT, innodb_max_dirty_pages_pct_lwm = DEFAULT";
    const DIRTY: &str = "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status \
                         WHERE variable_name = 'INNODB_BUFFER_POOL_PAGES_DIRTY'";
    let mut database = MySqlConnection::connect(&env.mysql_url()).await?;
    sqlx::query(AT_ONCE).execute(&mut database).await?;
    let written = async || {
        let dirty: i64 = sqlx::query_scalar(DIRTY).fetch_one(&mut database).await?;
        Ok(dirty <= A_FEW_PAGES)
    };
    wait_until("dirty pages are written", written).await?;
    sqlx::query(AS_EVER).execute(&mut database).await?;
    Ok(())
}

/// Appends `count` more messages to `chat.events`, and ends the sequencer.
async fn sequenced_alone(env: &TestEnv, traffic: &Traffic, count: u64) -> Result<()> {
    env.start_services(&["sequencer"]).await?;
    sequenced(env, traffic, count).await?;
    env.end("sequencer", Signal::TERM).await
}

async fn project(env: &TestEnv) -> Result<Sample> {
    let progress = Progress::of(env).await?;
    let end = progress.appended().await?;
    let messages = Projection::Tables(Sink::Messages);
    let done = async || progress.written(messages).await;
    drained(env, "projector-mysql", end, done).await
}
