#![doc = include_str!("../README.md")]

mod config;
mod connection;
mod error;
mod inspect;
mod keys;
mod mark;
mod marks;
mod ordinals;
mod plan;
mod read;
mod rebuild;
mod scripts;
mod shared;
mod state;
mod update;
mod wanted;

pub use config::RedisConfig;
pub use connection::{Connection, Node};
pub use error::UnreadError;
pub use inspect::{RawKey, RawUser, ScanPage};
pub use keys::KeyNames;
pub use mark::{Generation, Mark, MarkMove, Marks};
pub use ordinals::PeerOrdinals;
pub use plan::{MarkPlan, plan};
pub use read::{Expiry, FreshView, UnreadView, UserView};
pub use rebuild::{Begin, Rebuild};
pub use shared::SharedConnection;
pub use state::UserState;
pub use update::{BatchOutcome, PeerUpdate, UserUpdate};
