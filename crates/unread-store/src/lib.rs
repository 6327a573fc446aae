#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod config;
mod connection;
mod error;
mod inspect;
mod keys;
mod ordinals;
mod plan;
mod read;
mod rebuild;
mod scripts;
mod shared;
mod state;
mod update;
mod wanted;
mod watermark;
mod watermarks;

pub use config::RedisConfig;
pub use connection::{Connection, Node};
pub use error::UnreadError;
pub use inspect::{RawKey, RawUser, ScanPage};
pub use keys::KeyNames;
pub use ordinals::PeerOrdinals;
pub use plan::{WatermarkPlan, plan};
pub use read::{Expiry, FreshView, UnreadView, UserView};
pub use rebuild::{Begin, Rebuild};
pub use shared::SharedConnection;
pub use state::UserState;
pub use update::{BatchOutcome, PeerUpdate, UserUpdate};
pub use watermark::{Generation, Watermark, WatermarkMove, Watermarks};
