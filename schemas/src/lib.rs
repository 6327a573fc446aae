#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

#[macro_use]
mod as_text;
mod applied_command;
mod columns;
pub mod command;
mod conversation;
pub mod dead_letter;
mod device;
pub mod event;
mod fast_decoder;
mod hash_key;
mod ids;
pub mod kind;
mod log_position;
mod malformed;
mod partition;
mod partition_map;
pub mod sync;
mod sync_token;
mod table;
pub mod topics;
#[cfg(test)]
mod wire_tests;
mod word_verdict;

pub use applied_command::AppliedCommand;
pub use columns::{Column, ColumnValue};
pub use conversation::{ConversationId, DirectConversation, GroupId, Recipient, Side};
pub use device::{DeviceClass, DeviceId, PerDevice, device_class};
pub use hash_key::HashKey;
pub use ids::{
    ChangeSeq, ClientMsgId, CommandId, Excerpt, InvalidValue, Mid, Ordinal, TimestampMs, UserId,
};
pub use kind::CommandScope;
pub use kind::{contact_change::*, group_change::*, message_change::*, profile::*};
pub use log_position::{LogPosition, NextOffset, OffsetRange, SourceWatermark};
pub use partition::{EventPosition, InboundPosition, PARTITIONS, Partition};
pub use partition_map::PartitionMap;
pub use sync_token::{SyncPage, SyncToken};
pub use table::TableNumber;
pub use word_verdict::WordVerdict;

/// The generated types of `proto/chat/v1`, as they are encoded.
#[allow(missing_docs, reason = "the .proto files carry the documentation")]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/chat.v1.rs"));
}

/// An encoded `google.protobuf.FileDescriptorSet` of `proto/chat/v1`, for tools that decode topics.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/chat.v1.bin"));

/// The files of `proto/`, by their paths as they import each other.
pub const PROTO_FILES: &[(&str, &str)] = &[
    (
        "chat/v1/event.proto",
        include_str!("../proto/chat/v1/event.proto"),
    ),
    (
        "chat/v1/inbound.proto",
        include_str!("../proto/chat/v1/inbound.proto"),
    ),
    (
        "chat/v1/ingest.proto",
        include_str!("../proto/chat/v1/ingest.proto"),
    ),
    (
        "chat/v1/snapshot.proto",
        include_str!("../proto/chat/v1/snapshot.proto"),
    ),
];
