//! What goes over a connection: one JSON object a text frame, or one protobuf message a binary frame (see the README).

mod format;
mod from_client;
mod from_server;
mod json;
mod of_hub;
mod proto;
mod values;

#[cfg(test)]
mod tests;

pub(crate) use self::{
    from_client::{ClientFrame, Hello, NoFrame, ReadFrame, Resume, SendFrame, Since},
    from_server::{PresenceBody, ServerFrame, event_frame, head_frame},
    values::{ShortText, Time},
};
pub(crate) use crate::encoded::Format;
