//! A model of one partition of `chat.events` and of idempotent producers.
//!
//! What matters of Kafka is here: a broker takes the next sequence number of a producer id it knows, answers a retry of
//! one of the last five batches with the old offset, refuses anything else, and takes any number from an id that it
//! does not know. A client has up to five batches in flight, retries in order, and may lose its connection with
//! requests still on the way; those may land later, after its process has died too.

use std::collections::{BTreeMap, VecDeque};

use schemas::TimestampMs;

use super::rng::Rng;
use crate::shell::Failed;

#[derive(Clone, Debug)]
pub(crate) struct LogRecord {
    pub(crate) ts: TimestampMs,
    pub(crate) value: Vec<u8>,
}

#[derive(Debug)]
struct Request {
    connection: u64,
    pid: u64,
    seq: u64,
    records: Vec<LogRecord>,
}

#[derive(Clone, Copy, Debug)]
enum Verdict {
    Stored {
        base: i64,
    },
    /// As by a broker that is no longer leader: nothing is written, the client tries again.
    Refused,
    OutOfOrder,
    /// As for a record that is too large: nothing is written, the client gives up.
    Denied,
}

#[derive(Debug)]
pub(crate) struct Response {
    connection: u64,
    seq: u64,
    verdict: Verdict,
}

impl Response {
    pub(crate) fn is_for(&self, connection: u64) -> bool {
        self.connection == connection
    }
}

#[derive(Debug)]
struct Producer {
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

    /// Handles the oldest request of one connection. With `faults`, it may be refused or, rarely, denied.
    pub(crate) fn handle_one(&mut self, rng: &mut Rng, faults: bool) -> Option<Response> {
        let any = self
            .requests
            .get(rng.below(self.requests.len().max(1)))?
            .connection;
        let oldest = self.requests.iter().position(|r| r.connection == any)?;
        let request = self.requests.remove(oldest)?;
        let (connection, seq) = (request.connection, request.seq);
        let verdict = if faults && rng.chance(15) {
            Verdict::Refused
        } else if faults && rng.below(400) == 0 {
            Verdict::Denied
        } else {
            self.store(request)
        };
        Some(Response {
            connection,
            seq,
            verdict,
        })
    }

    /// Drops what a connection that is gone had sent.
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

    /// As after 30 days without a record of this producer.
    fn forget(&mut self, pid: u64) {
        if !self.requests.iter().any(|request| request.pid == pid) {
            self.producers.remove(&pid);
        }
    }

    fn store(&mut self, request: Request) -> Verdict {
        let base = self.log.len() as i64;
        let (seq, length) = (request.seq, request.records.len() as u64);
        if let Some(producer) = self.producers.get(&request.pid) {
            if let Some((_, base)) = producer.recent.iter().find(|(first, _)| *first == seq) {
                return Verdict::Stored { base: *base };
            }
            if producer.next_seq != seq {
                return Verdict::OutOfOrder;
            }
        }
        let producer = self.producers.entry(request.pid).or_insert(Producer {
            next_seq: 0,
            recent: VecDeque::new(),
        });
        producer.next_seq = seq + length;
        producer.recent.push_back((seq, base));
        if producer.recent.len() > 5 {
            producer.recent.pop_front();
        }
        self.log.extend(request.records);
        Verdict::Stored { base }
    }
}

/// A delivery report.
pub(crate) struct Report<Tag> {
    pub(crate) tag: Tag,
    pub(crate) result: Result<i64, Failed>,
}

struct Batch<Tag> {
    seq: u64,
    records: Vec<(Tag, LogRecord)>,
    on_the_way: bool,
}

/// A process's idempotent producer, with infinite retries.
pub(crate) struct Client<Tag> {
    pid: u64,
    connection: u64,
    next_seq: u64,
    queue: VecDeque<(Tag, LogRecord)>,
    /// Not acknowledged, oldest first.
    batches: Vec<Batch<Tag>>,
}

impl<Tag: Copy> Client<Tag> {
    const MAX_IN_FLIGHT: usize = 5;

    pub(crate) fn new(broker: &mut Broker) -> Self {
        Self {
            pid: broker.new_id(),
            connection: broker.new_id(),
            next_seq: 0,
            queue: VecDeque::new(),
            batches: Vec::new(),
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

    /// Sends the oldest batch that is not on its way, or makes one of some of the queue.
    pub(crate) fn send(&mut self, broker: &mut Broker, rng: &mut Rng) {
        let unsent = self.batches.iter().position(|batch| !batch.on_the_way);
        let Some(batch) = unsent.or_else(|| self.make_batch(rng)) else {
            return;
        };
        let batch = &mut self.batches[batch];
        batch.on_the_way = true;
        broker.requests.push_back(Request {
            connection: self.connection,
            pid: self.pid,
            seq: batch.seq,
            records: batch
                .records
                .iter()
                .map(|(_, record)| record.clone())
                .collect(),
        });
    }

    /// The connection breaks: what was on the way may land or not, and is sent again on a new one.
    pub(crate) fn reconnect(&mut self, broker: &mut Broker) {
        self.connection = broker.new_id();
        for batch in &mut self.batches {
            batch.on_the_way = false;
        }
    }

    /// The broker forgets this producer, if it has been idle.
    pub(crate) fn be_forgotten(&self, broker: &mut Broker) {
        if self.batches.is_empty() {
            broker.forget(self.pid);
        }
    }

    /// Takes an answer in; what it settles is reported.
    pub(crate) fn on_response(
        &mut self,
        response: &Response,
        broker: &mut Broker,
    ) -> Vec<Report<Tag>> {
        let batch = self
            .batches
            .iter()
            .position(|batch| batch.seq == response.seq);
        let Some(batch) = batch.filter(|_| response.connection == self.connection) else {
            return Vec::new();
        };
        match response.verdict {
            Verdict::Stored { base } => self.settle(batch, Ok(base)),
            Verdict::Refused => {
                self.batches[batch].on_the_way = false;
                Vec::new()
            }
            // Something before it is missing: it is sent again behind that.
            Verdict::OutOfOrder if batch > 0 => {
                self.batches[batch].on_the_way = false;
                Vec::new()
            }
            Verdict::OutOfOrder | Verdict::Denied => {
                let failed = Failed(format!("{:?}", response.verdict));
                let reports = self.settle(batch, Err(failed));
                self.go_on_as_another(broker);
                reports
            }
        }
    }

    fn make_batch(&mut self, rng: &mut Rng) -> Option<usize> {
        if self.queue.is_empty() || self.batches.len() >= Self::MAX_IN_FLIGHT {
            return None;
        }
        let length = 1 + rng.below(self.queue.len());
        let records: Vec<_> = self.queue.drain(..length).collect();
        self.batches.push(Batch {
            seq: self.next_seq,
            on_the_way: false,
            records,
        });
        self.next_seq += length as u64;
        Some(self.batches.len() - 1)
    }

    fn settle(&mut self, batch: usize, base: Result<i64, Failed>) -> Vec<Report<Tag>> {
        let records = self.batches.remove(batch).records;
        let tags = records.into_iter().zip(0..);
        tags.map(|((tag, _), i)| Report {
            tag,
            result: base.clone().map(|base| base + i),
        })
        .collect()
    }

    /// As librdkafka does after a batch failed for good: a new producer identity for what is left.
    fn go_on_as_another(&mut self, broker: &mut Broker) {
        self.pid = broker.new_id();
        self.next_seq = 0;
        for batch in &mut self.batches {
            batch.seq = self.next_seq;
            batch.on_the_way = false;
            self.next_seq += batch.records.len() as u64;
        }
        // Answers to what was sent before are no longer ours.
        self.connection = broker.new_id();
    }
}
