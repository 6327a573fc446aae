#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod cluster;
mod config;
mod connection;
mod error;
mod inspect;
mod keys;
mod notices;
mod ordinals;
mod positions;
mod presence;
mod profiles;
mod read;
mod rebuild;
mod requests;
mod resume_plan;
mod scripts;
mod shared;
mod state;
mod store;
mod stored_position;
mod update;

pub use config::RedisConfig;
pub use connection::Connection;
pub use error::UnreadError;
pub use inspect::{MemoryLimit, RawKey, RawUser, ScanPage};
pub use keys::KeyNames;
pub use notices::{Notice, Subscription};
pub use ordinals::PeerOrdinals;
pub use positions::lowest_positions;
pub use presence::{AddedConnection, ConnectionId, PresentConnection, UserPresence};
pub use profiles::{CachedProfiles, ProfileUpdate};
pub use read::{Expiry, UnreadView, UserView, ViewWithPositions};
pub use rebuild::{BeginOutcome, Rebuild};
pub use resume_plan::ResumePlan;
pub use shared::SharedConnections;
pub use state::UserState;
pub use store::{Slot, UnreadStore, slot_index};
pub use stored_position::{Generation, PositionMove, StoredPosition, StoredPositions};
pub use update::{BatchOutcome, PeerUpdate, UserUpdate};
