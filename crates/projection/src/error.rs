use event_log::EventLogError;

/// Why a projection ended.
#[derive(Debug, thiserror::Error)]
pub enum ProjectionError {
    /// A Kafka client could not be created.
    #[error(transparent)]
    Kafka(#[from] EventLogError),
    /// The log cannot be read any further. The text says why, and for some causes what an operator can do about it.
    #[error("reading chat.events: {0}")]
    Reading(String),
    /// This process is no longer a member of Kafka's consumer group.
    #[error("consumer group: {0}")]
    Group(String),
    /// A sink cannot continue.
    #[error("{0}")]
    Sink(String),
}
