//! The protobuf bodies. The generated types say what is in them; a missing client_msg_id is an empty one.

use problem::Problem;
use prost::Message;
use schemas::{
    command::ingest_event,
    proto::{self, ingest_event::Event},
};

use crate::post::{EventKind, Post};

/// Reads the body of `POST /v1/messages`: a `SendMessage`.
pub(crate) fn message(body: &[u8], max_msg_bytes: usize) -> Result<Post, Problem> {
    into_post(decode(body, "SendMessage")?, max_msg_bytes)
}

/// Reads the body of `POST /v1/read-acks`: a `ReadAck`.
pub(crate) fn read_ack(body: &[u8]) -> Result<Post, Problem> {
    Post::read_ack(decode(body, "ReadAck")?)
}

/// Reads one item of `POST /v1/events`: an `IngestEvent` without its length.
pub(crate) fn event(item: &[u8], max_msg_bytes: usize) -> Result<Post, Problem> {
    let event =
        ingest_event(item).map_err(|error| Problem::invalid_protobuf("IngestEvent", error))?;
    match event.event {
        Some(Event::Message(send)) => into_post(send, max_msg_bytes)
            .map_err(|problem| problem.within(EventKind::Message.member())),
        Some(Event::ReadAck(ack)) => {
            Post::read_ack(ack).map_err(|problem| problem.within(EventKind::ReadAck.member()))
        }
        None => Err(Problem::invalid_field(
            "event",
            "is missing",
            "message or read_ack",
        )),
    }
}

fn into_post(mut send: proto::SendMessage, max_msg_bytes: usize) -> Result<Post, Problem> {
    let given = std::mem::take(&mut send.client_msg_id);
    let client_msg_id = (!given.is_empty()).then_some(given);
    Post::message(send, client_msg_id, max_msg_bytes)
}

fn decode<T: Message + Default>(bytes: &[u8], name: &str) -> Result<T, Problem> {
    T::decode(bytes).map_err(|error| Problem::invalid_protobuf(name, error))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_item_names_the_field_at_fault() {
        let field = |event| {
            let item = proto::IngestEvent { event }.encode_to_vec();
            super::event(&item, 16).unwrap_err().errors.remove(0).field
        };
        let send = proto::SendMessage {
            by_user: false,
            srcid: 1,
            destid: 0,
            client_msg_id: String::new(),
            msg: "a".to_owned(),
        };
        let ack = proto::ReadAck {
            uid: 1,
            peer: 2,
            device: 0,
            mid: None,
        };
        assert_eq!(field(Some(Event::Message(send))), "message.destid");
        assert_eq!(field(Some(Event::ReadAck(ack))), "read_ack.device");
        assert_eq!(field(None), "event");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(item in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = event(&item, 16);
        }
    }
}
