//! The metrics of the gateway.

use std::{sync::Arc, time::Duration};

use metrics::Unit;
use tokio::time::interval;

use crate::state::Gateway;

const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

const CONNECTIONS: &str = "tidemark_gateway_connections";
const STREAMS: &str = "tidemark_gateway_streams";
const HELLOS: &str = "tidemark_gateway_hellos_total";
const CLOSED: &str = "tidemark_gateway_closed_total";
const WRITTEN: &str = "tidemark_gateway_frames_written_total";
const RING: &str = "tidemark_gateway_ring_bytes";
const DROPPED: &str = "tidemark_gateway_ring_dropped_total";
const NOTICES: &str = "tidemark_gateway_notices_total";
const REDIS: &str = "tidemark_gateway_redis_up";
const LEASES: &str = "tidemark_gateway_leases";
const UNSAVED: &str = "tidemark_gateway_unsaved_devices";

pub(crate) fn describe() {
    metrics::describe_gauge! { CONNECTIONS, "Connections, those without a stream too" }
    metrics::describe_gauge! { STREAMS, "Connections with a stream" }
    metrics::describe_counter! { HELLOS, "What hellos and resumes were answered with: resumed, sync_required, memberships_behind or log_end_unknown" }
    metrics::describe_counter! { CLOSED, "Connections that the gateway closed, by code" }
    metrics::describe_counter! { WRITTEN, "Frames written: events, heads in place of events, pings and others" }
    metrics::describe_gauge! { RING, Unit::Bytes, "What the rings hold" }
    metrics::describe_counter! { DROPPED, "Events that left the rings before gateway.ring_seconds, since gateway.ring_bytes was reached" }
    metrics::describe_counter! { NOTICES, "What gateways told each other and this one heard, by kind: typing, presence, replaced" }
    metrics::describe_gauge! { REDIS, "Whether this gateway hears the others; without it there is no typing" }
    metrics::describe_gauge! { LEASES, "Slots of Redis in which this gateway's lease holds and it knows who is away: 1, or 64 of a cluster" }
    metrics::describe_gauge! { UNSAVED, "Devices whose newest token is not in MySQL yet" }
}

pub(crate) fn hello(outcome: &'static str) {
    metrics::counter!(HELLOS, "outcome" => outcome).increment(1);
}

pub(crate) fn closed(code: u16) {
    metrics::counter!(CLOSED, "code" => code.to_string()).increment(1);
}

pub(crate) fn written(kind: &'static str, count: u64) {
    metrics::counter!(WRITTEN, "kind" => kind).increment(count);
}

/// Shows the gateway's size until the shutdown.
pub(crate) async fn sample(gateway: Arc<Gateway>) -> anyhow::Result<()> {
    let mut ticks = interval(SAMPLE_INTERVAL);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = gateway.shutdown.soft().cancelled() => return Ok(()),
        }
        {
            let hub = gateway.hub();
            metrics::gauge!(STREAMS).set(hub.stream_count() as f64);
            metrics::gauge!(RING).set(hub.ring_bytes() as f64);
            metrics::counter!(DROPPED).absolute(hub.dropped_for_room());
        }
        metrics::gauge!(CONNECTIONS).set(gateway.connection_count() as f64);
        metrics::gauge!(LEASES).set(gateway.presence.lease_count() as f64);
        metrics::gauge!(UNSAVED).set(gateway.devices.unsaved_count() as f64);
    }
}

pub(crate) fn notice(kind: &'static str) {
    metrics::counter!(NOTICES, "kind" => kind).increment(1);
}

pub(crate) fn redis_up(is_up: bool) {
    metrics::gauge!(REDIS).set(f64::from(u8::from(is_up)));
}
