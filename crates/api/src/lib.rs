#![doc = include_str!("../README.md")]

mod accepted;
mod contact;
mod conversation;
mod device;
mod event;
mod fields;
mod from_device;
mod from_gateway;
mod group;
mod group_change;
mod inbound;
mod message;
mod message_change;
mod profile;
mod read_ack;
mod sync;
mod unread;
mod values;

pub use accepted::*;
pub use contact::*;
pub use conversation::*;
pub use device::*;
pub use event::*;
pub use from_device::*;
pub use from_gateway::*;
pub use group::*;
pub use group_change::*;
pub use inbound::*;
pub use message::*;
pub use message_change::*;
pub use profile::*;
pub use read_ack::*;
pub use sync::*;
pub use unread::*;
pub use values::{Object, RawJson, ShortText, utc};
