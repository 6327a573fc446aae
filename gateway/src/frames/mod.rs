//! What goes over a connection: one JSON object a text frame (see the README).

mod from_client;
mod from_server;

pub(crate) use self::{
    from_client::{ClientFrame, Hello, ReadFrame, SendFrame, parse},
    from_server::{PresenceBody, ServerFrame, event_frame, head_frame, ping_frame},
};
