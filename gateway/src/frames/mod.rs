//! What goes over a connection: one JSON object a text frame (see the README).

mod from_client;
mod from_server;
mod values;

pub(crate) use self::{
    from_client::{ClientFrame, Hello, ReadFrame, SendFrame, parse},
    from_server::{ServerFrame, event_frame, head_frame},
};
