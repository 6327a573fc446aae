//! The same single posts to Tidemark and to WuKongIM v3, each alone on the machine, in turn.

use std::{
    env,
    future::pending,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use hyper::StatusCode;
use schemas::UserId;
use serde_json::{Value, json};
use system_tests::{
    Percentiles, TestEnv,
    peer::{Receiver, WuKongIm},
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use super::{
    EVERYTHING, Plan,
    gateway_latency::{Arrivals, arrived},
    token_of,
};
use crate::{
    load::{connection::Connection, devices::Device},
    meter::{CLIENT, Meter, Processes},
    results::Row,
    sample::{Sample, Spread},
    warm,
};

/// Where the peers' programs are; `bench/peers/README.md` says how they are built.
const PEERS: &str = "PEERS";

/// How long after a start the idle cost is measured.
const QUIET: Duration = Duration::from_secs(20);
const CONNECTIONS: usize = 64;
const CONVERSATIONS: usize = 1_000;
/// How many conversations the open loops use, each with a receiver that is connected.
const RECEIVERS: usize = 200;
const RATES: [f64; 2] = [1_000.0, 500.0];
const WARM_UP_STEP: Duration = Duration::from_secs(10);
/// How many steps warm up the peer. The number is fixed: unlike the JVM, the peer has no JIT whose CPU shows that it is warm.
const WARM_UPS: usize = 2;
const FIRST_SENDER: i64 = 7_000_000;
const FIRST_RECEIVER: i64 = 7_500_000;
/// With the number before it a text has 128 bytes.
const TEXT_BYTES: usize = 117;

pub(super) async fn run(plan: &Plan) -> Result<Vec<Row>> {
    let Some(folder) = env::var_os(PEERS) else {
        eprintln!("left out: {PEERS} names no folder with peers, see bench/peers/README.md");
        return Ok(Vec::new());
    };
    let program = PathBuf::from(folder).join("wukongim");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        ours.push(Round::of(System::tidemark().await?, plan).await?);
        theirs.push(Round::of(System::wukongim(&program).await?, plan).await?);
    }
    let of_each = [("Tidemark", &ours), ("WuKongIM", &theirs)];
    Ok(of_each
        .into_iter()
        .flat_map(|(name, rounds)| rows(name, rounds))
        .collect())
}

/// A system that runs.
enum System {
    Tidemark(Box<TestEnv>),
    WuKongIm { server: Box<WuKongIm>, pid: u32 },
}

impl Processes for System {
    fn running(&self) -> Vec<(String, u32)> {
        match self {
            Self::Tidemark(env) => env.processes(),
            Self::WuKongIm { pid, .. } => vec![("wukongim".to_owned(), *pid)],
        }
    }
}

impl System {
    async fn tidemark() -> Result<Self> {
        let env = Box::new(TestEnv::start(EVERYTHING).await?);
        env.check_all_partitions().await?;
        Ok(Self::Tidemark(env))
    }

    async fn wukongim(program: &Path) -> Result<Self> {
        let server = Box::new(WuKongIm::run(program.to_owned()).await?);
        let pid = server.pid().await?;
        Ok(Self::WuKongIm { server, pid })
    }

    fn port(&self) -> Result<u16> {
        match self {
            Self::Tidemark(env) => env.port("ingest"),
            Self::WuKongIm { server, .. } => Ok(server.api_port()),
        }
    }

    /// Posts the message with a number, in a conversation.
    async fn post(&self, to: &mut Connection, conversation: usize, number: usize) -> Result<()> {
        let (path, body, status) = self.request(users(conversation)?, number);
        let kind = "application/json";
        to.post(path, kind, body.to_string().into(), status).await?;
        Ok(())
    }

    fn request(
        &self,
        [sender, receiver]: [UserId; 2],
        number: usize,
    ) -> (&'static str, Value, StatusCode) {
        match self {
            Self::Tidemark(_) => {
                let body = json!({
                    "srcid": sender,
                    "destid": receiver,
                    "client_msg_id": format!("{:x}", rand::random::<u128>()),
                    "msg": format!("{number:010} {}", "x".repeat(TEXT_BYTES)),
                });
                ("/v1/messages", body, StatusCode::ACCEPTED)
            }
            Self::WuKongIm { .. } => {
                let body = json!({
                    "from_uid": WuKongIm::uid_text(sender),
                    "channel_id": WuKongIm::uid_text(receiver),
                    "channel_type": 1,
                    "client_msg_no": format!("{number} {:x}", rand::random::<u64>()),
                    // 129 bytes (172 as base64): the multiple of 3 nearest to Tidemark's 128.
                    "payload": "eHh4".repeat(43),
                });
                ("/message/send", body, StatusCode::OK)
            }
        }
    }

    /// Repeats work until a system is warm.
    async fn warm_up(&self, mut step: impl AsyncFnMut() -> Result<()>) -> Result<()> {
        match self {
            Self::Tidemark(env) => warm::warm_up(env, step).await,
            Self::WuKongIm { .. } => {
                for _ in 0..WARM_UPS {
                    step().await?;
                }
                Ok(())
            }
        }
    }

    /// Connects the receivers.
    async fn receivers(&self) -> Result<Vec<Socket>> {
        let uids = (0..RECEIVERS).map(|conversation| Ok(users(conversation)?[1]));
        let uids: Vec<UserId> = uids.collect::<Result<_>>()?;
        match self {
            Self::Tidemark(env) => {
                let since = token_of(env, FIRST_SENDER).await?;
                let uids = uids.into_iter().map(UserId::get);
                let devices = Device::connect_all(env.port("gateway")?, uids, &since).await?;
                Ok(devices.into_iter().map(Socket::Tidemark).collect())
            }
            Self::WuKongIm { server, .. } => {
                let connecting = uids.into_iter().map(|uid| server.receiver(uid));
                let receivers = try_join_all(connecting).await?;
                Ok(receivers.into_iter().map(Socket::WuKongIm).collect())
            }
        }
    }
}

/// A connected receiver.
enum Socket {
    Tidemark(Device),
    WuKongIm(Receiver),
}

impl Socket {
    /// Counts what arrives, until it is dropped.
    async fn count(mut self, arrivals: Arc<Arrivals>) -> Result<()> {
        loop {
            match &mut self {
                Self::Tidemark(device) => arrivals.take(&device.event().await?, Instant::now()),
                Self::WuKongIm(receiver) => {
                    let id = receiver.next().await?;
                    let number = id
                        .split_once(' ')
                        .and_then(|(number, _)| number.parse().ok());
                    arrivals.take_number(
                        number.context("a client_msg_no that does not begin with a number")?,
                        Instant::now(),
                    );
                }
            }
        }
    }
}

/// The sender and the receiver of a conversation.
fn users(conversation: usize) -> Result<[UserId; 2]> {
    let conversation = i64::try_from(conversation)?;
    Ok([
        (FIRST_SENDER + conversation).try_into()?,
        (FIRST_RECEIVER + conversation).try_into()?,
    ])
}

/// What one run of a system has shown.
struct Round {
    /// While nothing is posted, cores of its processes.
    idle: f64,
    closed: Sample,
    /// Of the closed loop.
    accepted: Percentiles,
    /// How long the first messages of [`CONVERSATIONS`] conversations took, seconds.
    first_s: f64,
    open: Vec<(Percentiles, Sample)>,
}

impl Round {
    async fn of(system: System, plan: &Plan) -> Result<Self> {
        let system = &Arc::new(system);
        sleep(QUIET).await;
        let meter = Meter::start(&**system)?;
        sleep(plan.length).await;
        let quiet = meter.stop(1)?;
        let of_system = quiet.cpu_s.iter().filter(|(name, _)| *name != CLIENT);
        let idle = of_system.map(|(_, cpu_s)| cpu_s).sum::<f64>() / quiet.seconds;

        let warm_up = async || posted(system, WARM_UP_STEP).await.map(drop);
        system.warm_up(warm_up).await?;
        let first_s = first_messages(system).await?;
        let meter = Meter::start(&**system)?;
        let waited = posted(system, plan.length * 2).await?;
        let closed = meter.stop(waited.len() as u64)?;
        let mut open = Vec::new();
        for rate in RATES {
            open.push(at_rate(system, plan, rate).await?);
        }
        Ok(Self {
            idle,
            closed,
            accepted: Percentiles::of(waited),
            first_s,
            open,
        })
    }
}

/// Posts over all connections for some time, each again as soon as it has its answer. Returns how long each post took, milliseconds.
async fn posted(system: &Arc<System>, length: Duration) -> Result<Vec<f64>> {
    let until = Instant::now() + length;
    over_all_connections(system, |system, mut connection, client| async move {
        let mut waited = Vec::new();
        for number in (client..).step_by(CONNECTIONS) {
            let began = Instant::now();
            if began >= until {
                break;
            }
            let conversation = number % CONVERSATIONS;
            system.post(&mut connection, conversation, number).await?;
            waited.push(began.elapsed().as_secs_f64() * 1e3);
        }
        Ok(waited)
    })
    .await
}

/// Posts one message in each of [`CONVERSATIONS`] new conversations. Returns how long all of them took, seconds.
async fn first_messages(system: &Arc<System>) -> Result<f64> {
    let began = Instant::now();
    over_all_connections(system, |system, mut connection, client| async move {
        for number in (client..CONVERSATIONS).step_by(CONNECTIONS) {
            let conversation = CONVERSATIONS + number;
            system.post(&mut connection, conversation, number).await?;
        }
        Ok(Vec::new())
    })
    .await?;
    Ok(began.elapsed().as_secs_f64())
}

/// Runs a client over each connection. Returns what all return.
async fn over_all_connections<F: Future<Output = Result<Vec<f64>>> + Send + 'static>(
    system: &Arc<System>,
    client: impl Fn(Arc<System>, Connection, usize) -> F,
) -> Result<Vec<f64>> {
    let mut clients = JoinSet::new();
    for number in 0..CONNECTIONS {
        let connection = Connection::open(system.port()?).await?;
        clients.spawn(client(Arc::clone(system), connection, number));
    }
    let mut all = Vec::new();
    while let Some(done) = clients.join_next().await {
        all.extend(done??);
    }
    Ok(all)
}

/// Posts messages when they are due. Returns how long after its due time each was on a socket.
async fn at_rate(system: &Arc<System>, plan: &Plan, rate: f64) -> Result<(Percentiles, Sample)> {
    let messages = (rate * plan.length.as_secs_f64()) as usize;
    let receivers = system.receivers().await?;
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(Connection::open(system.port()?).await?);
    }
    let meter = Meter::start(&**system)?;
    let arrivals = Arrivals::new(rate, 1, messages);
    // An end of any of them is an error.
    let mut tasks = JoinSet::new();
    for receiver in receivers {
        tasks.spawn(receiver.count(Arc::clone(&arrivals)));
    }
    for (client, mut connection) in connections.into_iter().enumerate() {
        let (system, arrivals) = (Arc::clone(system), Arc::clone(&arrivals));
        tasks.spawn(async move {
            for number in (client..messages).step_by(CONNECTIONS) {
                sleep_until(arrivals.due(number)).await;
                let (conversation, in_text) = (number % RECEIVERS, arrivals.number(number));
                system.post(&mut connection, conversation, in_text).await?;
            }
            pending().await
        });
    }
    let waited = arrived(&arrivals, tasks).await?;
    Ok((waited, meter.stop(messages as u64)?))
}

/// The rows of a system. CPU of all processes includes the client's; `idle` does not.
fn rows(name: &str, rounds: &[Round]) -> Vec<Row> {
    let spread = |of: &dyn Fn(&Round) -> f64| Spread::of(rounds.iter().map(of));
    let value = |what: String, unit, of: &dyn Fn(&Round) -> f64, samples: &[Sample]| {
        Row::of_value(format!("{name}: {what}"), unit, spread(of), None, samples)
    };
    let closed: Vec<Sample> = rounds.iter().map(|round| round.closed.clone()).collect();
    let mut rows = vec![
        value("idle".to_owned(), "cores", &|round| round.idle, &[]),
        value(
            format!("first messages of {CONVERSATIONS} conversations"),
            "s",
            &|round| round.first_s,
            &[],
        ),
        value(
            format!("accepted, {CONNECTIONS} connections"),
            "messages/s",
            &|round| round.closed.rate(),
            &closed,
        ),
        value(
            "the same: p99".to_owned(),
            "ms",
            &|round| round.accepted.p99,
            &[],
        ),
        value(
            "the same: CPU of all processes for 10,000".to_owned(),
            "s",
            &|round| round.closed.cpu_of_one() * 10_000.0,
            &[],
        ),
    ];
    for (at, rate) in RATES.iter().enumerate() {
        let what = |what: &str| format!("{rate}/s: {what}");
        let samples: Vec<Sample> = rounds
            .iter()
            .map(|round| round.open[at].1.clone())
            .collect();
        rows.extend([
            value(
                what("due → on a socket, p50"),
                "ms",
                &|round| round.open[at].0.p50,
                &[],
            ),
            value(
                what("due → on a socket, p99"),
                "ms",
                &|round| round.open[at].0.p99,
                &[],
            ),
            value(
                what("CPU of all processes for 10,000"),
                "s",
                &|round| round.open[at].1.cpu_of_one() * 10_000.0,
                &samples,
            ),
        ]);
    }
    rows
}
