//! The log of clients that are not polled, which librdkafka keeps in a queue.

use std::{
    ffi::{CStr, c_char, c_int},
    ptr,
};

use rdkafka::bindings::{
    RD_KAFKA_EVENT_LOG, rd_kafka_event_destroy, rd_kafka_event_log, rd_kafka_event_t,
    rd_kafka_event_type, rd_kafka_queue_destroy, rd_kafka_queue_get_main, rd_kafka_queue_poll,
    rd_kafka_t,
};

use crate::context;

/// Takes the queued messages.
///
/// # Safety
/// The client lives.
pub(crate) unsafe fn drain_log(client: *mut rd_kafka_t, name: &str) {
    // SAFETY: the client lives; the queue and each event are given back below, once.
    unsafe {
        let queue = rd_kafka_queue_get_main(client);
        loop {
            let event = rd_kafka_queue_poll(queue, 0);
            if event.is_null() {
                break;
            }
            if rd_kafka_event_type(event) == RD_KAFKA_EVENT_LOG {
                read_line(event, name);
            }
            rd_kafka_event_destroy(event);
        }
        rd_kafka_queue_destroy(queue);
    }
}

/// # Safety
/// `event` is an event of a log, and lives.
unsafe fn read_line(event: *mut rd_kafka_event_t, name: &str) {
    let (mut facility, mut line): (*const c_char, *const c_char) = (ptr::null(), ptr::null());
    let mut level: c_int = 0;
    // SAFETY: as the caller promises; both texts live as long as the event.
    let line = unsafe {
        if rd_kafka_event_log(event, &mut facility, &mut line, &mut level) != 0 || line.is_null() {
            return;
        }
        CStr::from_ptr(line).to_string_lossy()
    };
    context::log(name, context::level(level), &line);
}
