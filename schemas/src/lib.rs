#![doc = include_str!("../README.md")]

mod canonical;
pub mod command;
pub mod dead_letter;
pub mod event;
mod ids;
mod mismatch;
mod partition;
pub mod topics;

pub use ids::{
    ClientMsgId, ConversationId, DeviceClass, InvalidId, Mid, Ordinal, TimestampMs, UserId,
};
pub use partition::{InboundPosition, PARTITIONS, Partition};

/// The generated types of `proto/chat/v1`, as they travel.
#[allow(missing_docs, reason = "the .proto files carry the documentation")]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/chat.v1.rs"));
}

/// An encoded `google.protobuf.FileDescriptorSet` of `proto/chat/v1`, for tools that decode topics.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/chat.v1.bin"));
