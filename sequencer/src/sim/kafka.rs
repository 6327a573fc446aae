//! A model of one partition of `chat.events` and of idempotent producers. It behaves as brokers and librdkafka do.
//!
//! The broker accepts the next sequence number of a producer id that it knows, answers a retry of one of the last five batches with its offset, and
//! refuses any other number. A new epoch of a known id starts at 0. From an id that it does not know, or has forgotten, the broker accepts any
//! number. A client has up to five batches in flight. After a retriable error it waits until nothing is in flight and sends again in order, with a
//! new epoch if a later batch had a wrong number. The client may lose its connection with requests in flight; they may be stored later, even after
//! its process has died. After a permanent error the client stops (`enable.gapless.guarantee`); by default it would send the rest.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt, iter,
};

use schemas::TimestampMs;

use super::{rng::Rng, trace};
use crate::shell::WriteFailed;

#[derive(Clone, Debug)]
pub(crate) struct LogRecord {
    pub(crate) ts: TimestampMs,
    pub(crate) value: Vec<u8>,
}

#[derive(Debug)]
struct Request {
    connection: u64,
    pid: u64,
    epoch: u32,
    seq: u64,
    records: Vec<LogRecord>,
}

#[derive(Clone, Copy, Debug)]
enum ProduceResult {
    Stored {
        base: i64,
    },
    /// Stored before, at an offset that the broker no longer knows.
    StoredBefore,
    /// Nothing is stored and the client retries, as if the broker were no longer the leader.
    RetriableError,
    OutOfOrder,
    /// Nothing is stored and the client gives up, as for a record that is too large.
    PermanentError,
}

#[derive(Debug)]
pub(crate) struct Response {
    connection: u64,
    seq: u64,
    result: ProduceResult,
}

/// Formats a request for the trace.
struct Sent<'a>(&'a Request);

impl fmt::Display for Sent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request {
            connection,
            pid,
            epoch,
            seq,
            records,
        } = self.0;
        let count = records.len();
        write!(
            f,
            "connection {connection}, producer {pid}.{epoch}, {count} from number {seq}:"
        )
    }
}

impl Response {
    pub(crate) fn is_for(&self, connection: u64) -> bool {
        self.connection == connection
    }
}

#[derive(Debug, Default)]
struct Producer {
    epoch: u32,
    next_seq: u64,
    /// The last five batches: first sequence number and offset.
    recent: VecDeque<(u64, i64)>,
}

#[derive(Default)]
pub(crate) struct Broker {
    pub(crate) log: Vec<LogRecord>,
    producers: BTreeMap<u64, Producer>,
    requests: VecDeque<Request>,
    next_id: u64,
}

impl Broker {
    /// An id for a producer or a connection.
    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(crate) fn end(&self) -> i64 {
        self.log.len() as i64
    }

    pub(crate) fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Handles the oldest request of one connection. With `faults`, it may fail.
    pub(crate) fn handle_one(&mut self, rng: &mut Rng, faults: bool) -> Option<Response> {
        let any = self
            .requests
            .get(rng.below(self.requests.len().max(1)))?
            .connection;
        let oldest = self.requests.iter().position(|r| r.connection == any)?;
        let request = self.requests.remove(oldest)?;
        let (connection, seq) = (request.connection, request.seq);
        let what = format!("{}", Sent(&request));
        let result = if faults && rng.chance(15) {
            ProduceResult::RetriableError
        } else if faults && rng.below(400) == 0 {
            ProduceResult::PermanentError
        } else {
            self.store(request, rng)
        };
        trace(format_args!(
            "broker: {what} {result:?}, ends at {}",
            self.end()
        ));
        Some(Response {
            connection,
            seq,
            result,
        })
    }

    /// Drops a request of a connection that is closed.
    pub(crate) fn lose_requests_of(&mut self, alive: &[u64], rng: &mut Rng) {
        if let Some(i) = self
            .requests
            .iter()
            .position(|r| !alive.contains(&r.connection))
            && rng.chance(50)
        {
            self.requests.remove(i);
        }
    }

    /// Forgets a producer id, as after 30 days without a record from it.
    fn forget(&mut self, pid: u64) {
        if !self.requests.iter().any(|request| request.pid == pid) {
            self.producers.remove(&pid);
        }
    }

    fn store(&mut self, request: Request, rng: &mut Rng) -> ProduceResult {
        let base = self.log.len() as i64;
        let (epoch, seq) = (request.epoch, request.seq);
        if let Some(producer) = self.producers.get(&request.pid) {
            if epoch == producer.epoch
                && let Some((_, base)) = producer.recent.iter().find(|(first, _)| *first == seq)
            {
                return if rng.chance(10) {
                    ProduceResult::StoredBefore
                } else {
                    ProduceResult::Stored { base: *base }
                };
            }
            let next = if epoch > producer.epoch {
                0
            } else {
                producer.next_seq
            };
            if epoch < producer.epoch || seq != next {
                return ProduceResult::OutOfOrder;
            }
        }
        let known = self.producers.remove(&request.pid);
        let mut producer = known
            .filter(|known| known.epoch == epoch)
            .unwrap_or_default();
        producer.epoch = epoch;
        producer.next_seq = seq + request.records.len() as u64;
        producer.recent.push_back((seq, base));
        if producer.recent.len() > 5 {
            producer.recent.pop_front();
        }
        self.producers.insert(request.pid, producer);
        self.log.extend(request.records);
        ProduceResult::Stored { base }
    }
}

/// A delivery report.
pub(crate) struct Report<Tag> {
    pub(crate) tag: Tag,
    pub(crate) result: Result<Option<i64>, WriteFailed>,
}

struct Batch<Tag> {
    seq: u64,
    records: Vec<(Tag, LogRecord)>,
    in_flight: bool,
}

/// A process's idempotent producer, with infinite retries.
pub(crate) struct Client<Tag> {
    /// Whether the client behaves as with `enable.gapless.guarantee`.
    is_gapless: bool,
    pid: u64,
    epoch: u32,
    connection: u64,
    next_seq: u64,
    queue: VecDeque<(Tag, LogRecord)>,
    /// The batches not acknowledged, oldest first.
    batches: Vec<Batch<Tag>>,
    recovery: Recovery,
}

/// What a client must do before it sends again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Recovery {
    None,
    /// Wait until nothing is in flight.
    Drain,
    /// Wait until nothing is in flight, then use a new epoch.
    DrainAndBump,
    /// Never send again.
    Stopped,
}

impl<Tag: Copy> Client<Tag> {
    const MAX_IN_FLIGHT: usize = 5;

    pub(crate) fn new(broker: &mut Broker, is_gapless: bool) -> Self {
        Self {
            is_gapless,
            pid: broker.new_id(),
            epoch: 0,
            connection: broker.new_id(),
            next_seq: 0,
            queue: VecDeque::new(),
            batches: Vec::new(),
            recovery: Recovery::None,
        }
    }

    pub(crate) fn connection(&self) -> u64 {
        self.connection
    }

    pub(crate) fn enqueue(&mut self, tag: Tag, record: LogRecord) {
        self.queue.push_back((tag, record));
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.batches.is_empty()
    }

    /// Sends the oldest batch that is not in flight, or a new one from the queue.
    pub(crate) fn send(&mut self, broker: &mut Broker, rng: &mut Rng) {
        if !self.may_send() {
            return;
        }
        let unsent = self.batches.iter().position(|batch| !batch.in_flight);
        let Some(batch) = unsent.or_else(|| self.make_batch(rng)) else {
            return;
        };
        let batch = &mut self.batches[batch];
        batch.in_flight = true;
        broker.requests.push_back(Request {
            connection: self.connection,
            pid: self.pid,
            epoch: self.epoch,
            seq: batch.seq,
            records: batch
                .records
                .iter()
                .map(|(_, record)| record.clone())
                .collect(),
        });
    }

    /// The connection breaks. Batches in flight may be stored or not, and are sent again on a new connection.
    pub(crate) fn reconnect(&mut self, broker: &mut Broker) {
        self.connection = broker.new_id();
        for batch in &mut self.batches {
            batch.in_flight = false;
        }
    }

    /// The broker forgets this producer, if it has been idle.
    pub(crate) fn be_forgotten(&self, broker: &mut Broker) {
        if self.is_idle() {
            broker.forget(self.pid);
        }
    }

    /// Handles a response and returns the reports that follow from it.
    pub(crate) fn on_response(&mut self, response: &Response) -> Vec<Report<Tag>> {
        let batch = self
            .batches
            .iter()
            .position(|batch| batch.seq == response.seq);
        let Some(batch) = batch.filter(|_| response.connection == self.connection) else {
            return Vec::new();
        };
        self.batches[batch].in_flight = false;
        match response.result {
            ProduceResult::Stored { base } => {
                let mut reports = self.acknowledge_before(batch);
                let offsets = base..;
                reports.extend(self.settle(0, offsets.map(|offset| Ok(Some(offset)))));
                reports
            }
            ProduceResult::StoredBefore => self.acknowledge_before(batch + 1),
            ProduceResult::RetriableError => {
                self.recover(Recovery::Drain);
                Vec::new()
            }
            // An earlier batch was refused too: both are sent again.
            ProduceResult::OutOfOrder if batch > 0 => {
                self.recover(Recovery::DrainAndBump);
                Vec::new()
            }
            ProduceResult::OutOfOrder | ProduceResult::PermanentError => {
                self.recover(if self.is_gapless {
                    Recovery::Stopped
                } else {
                    Recovery::DrainAndBump
                });
                let failed = WriteFailed(format!("{:?}", response.result));
                self.settle(batch, iter::repeat(Err(failed)))
            }
        }
    }

    /// The broker stores batches of a known producer in order, so all batches before a stored one are stored too.
    fn acknowledge_before(&mut self, batch: usize) -> Vec<Report<Tag>> {
        let implied = (0..batch).map(|_| self.settle(0, iter::repeat(Ok(None))));
        implied.flatten().collect()
    }

    fn recover(&mut self, recovery: Recovery) {
        let order = |recovery| match recovery {
            Recovery::None => 0,
            Recovery::Drain => 1,
            Recovery::DrainAndBump => 2,
            Recovery::Stopped => 3,
        };
        if order(recovery) > order(self.recovery) {
            self.recovery = recovery;
        }
    }

    /// Whether the client may send. Ends a recovery that can end.
    fn may_send(&mut self) -> bool {
        if self.recovery == Recovery::None {
            return true;
        }
        if self.recovery == Recovery::Stopped || self.batches.iter().any(|b| b.in_flight) {
            return false;
        }
        if self.recovery == Recovery::DrainAndBump {
            self.epoch += 1;
            self.next_seq = 0;
            for batch in &mut self.batches {
                batch.seq = self.next_seq;
                self.next_seq += batch.records.len() as u64;
            }
        }
        self.recovery = Recovery::None;
        true
    }

    fn make_batch(&mut self, rng: &mut Rng) -> Option<usize> {
        if self.queue.is_empty() || self.batches.len() >= Self::MAX_IN_FLIGHT {
            return None;
        }
        let length = 1 + rng.below(self.queue.len());
        let records: Vec<_> = self.queue.drain(..length).collect();
        self.batches.push(Batch {
            seq: self.next_seq,
            in_flight: false,
            records,
        });
        self.next_seq += length as u64;
        Some(self.batches.len() - 1)
    }

    fn settle(
        &mut self,
        batch: usize,
        results: impl Iterator<Item = Result<Option<i64>, WriteFailed>>,
    ) -> Vec<Report<Tag>> {
        let records = self.batches.remove(batch).records;
        let tags = records.into_iter().map(|(tag, _)| tag);
        tags.zip(results)
            .map(|(tag, result)| Report { tag, result })
            .collect()
    }
}
