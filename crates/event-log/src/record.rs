use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};
use schemas::{
    Partition, TimestampMs,
    event::{Event, PassedOver},
};

/// A record as it lies on a topic, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its partition.
    pub partition: Partition,
    /// Its offset there.
    pub offset: i64,
    /// Its time, whoever set it (the topic's `message.timestamp.type` says).
    pub timestamp: TimestampMs,
    /// The leader epoch of the batch it came in; −1 where the broker does not say.
    pub leader_epoch: i32,
    /// Its key, where it has one.
    pub key: Option<Vec<u8>>,
    /// Its value, where it has one.
    pub value: Option<Vec<u8>>,
    /// Its headers, in order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl Record {
    pub(crate) fn from_message(message: &BorrowedMessage<'_>) -> Self {
        // SAFETY: the pointer is valid for as long as `message` lives, and the call only reads.
        let leader_epoch =
            unsafe { rdkafka::bindings::rd_kafka_message_leader_epoch(message.ptr()) };
        let headers = message.headers().map_or_else(Vec::new, |headers| {
            headers
                .iter()
                .map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec)))
                .collect()
        });
        Self {
            partition: i64::from(message.partition())
                .try_into()
                .expect("every topic has 64 partitions, which `topics apply` sees to"),
            offset: message.offset(),
            timestamp: TimestampMs(message.timestamp().to_millis().unwrap_or(0)),
            leader_epoch,
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers,
        }
    }

    /// The event that a record of `chat.events` is.
    ///
    /// # Errors
    /// [`PassedOver`]: no reader takes it for one.
    pub fn event(&self) -> Result<Event, PassedOver> {
        Event::read(self.partition, self.bytes(), self.timestamp)
    }

    /// The value's bytes; empty where there is none.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.value.as_deref().unwrap_or_default()
    }

    /// The text of the last header of this name, where it is there and UTF-8.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().rfind(|(key, _)| key == name)?;
        std::str::from_utf8(value.as_deref()?).ok()
    }
}
