use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};
use schemas::{
    Partition, TimestampMs,
    event::{Event, ReadError},
};

/// A record of a topic, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The record's partition.
    pub partition: Partition,
    /// The record's offset in the partition.
    pub offset: i64,
    /// Set by the producer or the broker, according to the topic's `message.timestamp.type`.
    pub timestamp: TimestampMs,
    /// The leader epoch of the record's batch; −1 if the broker does not say.
    pub leader_epoch: i32,
    /// The key, if there is one.
    pub key: Option<Vec<u8>>,
    /// The value, if there is one.
    pub value: Option<Vec<u8>>,
    /// The headers, in order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

/// A record of a topic, borrowed from the client that read it.
#[derive(Clone, Debug)]
pub struct RecordRef<'a> {
    /// The record's partition.
    pub partition: Partition,
    /// The record's offset in the partition.
    pub offset: i64,
    /// Set by the producer or the broker, according to the topic's `message.timestamp.type`.
    pub timestamp: TimestampMs,
    /// The leader epoch of the record's batch; −1 if the broker does not say.
    pub leader_epoch: i32,
    /// The key, if there is one.
    pub key: Option<&'a [u8]>,
    /// The value, if there is one.
    pub value: Option<&'a [u8]>,
    headers: Headers<'a>,
}

/// The source of the headers. librdkafka makes a list of them on first use, which costs more than all the rest.
#[derive(Clone, Copy, Debug)]
enum Headers<'a> {
    OfMessage(&'a BorrowedMessage<'a>),
    OfRecord(&'a Record),
}

impl<'a> RecordRef<'a> {
    pub(crate) fn of_message(message: &'a BorrowedMessage<'a>) -> Self {
        // SAFETY: the pointer is valid for as long as `message` lives, and the call only reads.
        let leader_epoch =
            unsafe { rdkafka::bindings::rd_kafka_message_leader_epoch(message.ptr()) };
        Self {
            partition: i64::from(message.partition())
                .try_into()
                .expect("every topic has 64 partitions, which `topics apply` sees to"),
            offset: message.offset(),
            timestamp: TimestampMs(message.timestamp().to_millis().unwrap_or(0)),
            leader_epoch,
            key: message.key(),
            value: message.payload(),
            headers: Headers::OfMessage(message),
        }
    }

    /// An owned copy.
    #[must_use]
    pub fn to_record(&self) -> Record {
        Record {
            partition: self.partition,
            offset: self.offset,
            timestamp: self.timestamp,
            leader_epoch: self.leader_epoch,
            key: self.key.map(<[u8]>::to_vec),
            value: self.value.map(<[u8]>::to_vec),
            headers: self.headers(),
        }
    }

    /// A copy of the headers, in order.
    #[must_use]
    pub fn headers(&self) -> Vec<(String, Option<Vec<u8>>)> {
        match self.headers {
            Headers::OfRecord(record) => record.headers.clone(),
            Headers::OfMessage(message) => message.headers().map_or_else(Vec::new, |headers| {
                headers
                    .iter()
                    .map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec)))
                    .collect()
            }),
        }
    }

    /// The event of a record of `chat.events`.
    ///
    /// # Errors
    /// [`ReadError`]: readers skip the record, or stop before it.
    pub fn event(&self) -> Result<Event, ReadError> {
        Event::read(self.partition, self.bytes(), self.timestamp)
    }

    /// The value's bytes; empty if there is none.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.value.unwrap_or_default()
    }
}

impl Record {
    /// The same record, borrowed.
    #[must_use]
    pub fn by_ref(&self) -> RecordRef<'_> {
        RecordRef {
            partition: self.partition,
            offset: self.offset,
            timestamp: self.timestamp,
            leader_epoch: self.leader_epoch,
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers: Headers::OfRecord(self),
        }
    }

    /// The event of a record of `chat.events`.
    ///
    /// # Errors
    /// [`ReadError`]: readers skip the record, or stop before it.
    pub fn event(&self) -> Result<Event, ReadError> {
        Event::read(self.partition, self.bytes(), self.timestamp)
    }

    /// The value's bytes; empty if there is none.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.value.as_deref().unwrap_or_default()
    }

    /// The text of the last header of this name, if it exists and is UTF-8.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().rfind(|(key, _)| key == name)?;
        std::str::from_utf8(value.as_deref()?).ok()
    }
}
