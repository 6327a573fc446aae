#![doc = include_str!("../README.md")]

mod at;
mod compare;
mod dead_letters;
mod ends;
mod error;
mod fold;
mod options;
mod read;
mod report;
mod run;
mod shadow;
mod stream;
mod wait;

pub use at::{ConversationAt, MemberAt, StateAt, ViewAt};
pub use error::AuditError;
pub use fold::differences_in_logs;
pub use options::{Options, Progress, Scope, Sources};
pub use report::{Area, Check, Finding, InboundAccount, Kind, Report};
pub use run::run;
pub use shadow::ShadowAudit;
pub use wait::until_sequenced;
