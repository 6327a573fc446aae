#![doc = include_str!("../README.md")]

mod audit;
pub mod chaos;
mod circle;
mod client;
mod events;
mod kept_logs;
mod load;
mod model;
mod passage;
mod patience;
mod program;
mod redis;
mod service;
mod settings;
mod turn;
mod world;

pub use audit::Audited;
pub use client::{Answer, Client};
pub use events::EventLog;
pub use load::{Load, Settled};
pub use model::{Device, Model, Sent};
pub use patience::{PATIENCE, until};
pub use program::{Outcome, path as program};
pub use redis::Redis;
pub use service::SERVICES;
pub use settings::Settings;
pub use turn::{Servers, run};
pub use world::{World, new_users};
