//! Clients that reconnect after they have lost all brokers.
//!
//! librdkafka drops every broker that a metadata response does not name. A single broker that the controller has just
//! fenced, after a pause or under load, answers and names none, not even itself: the client is left without any broker
//! and stays so (seen with 2.12.1; confluentinc/librdkafka issue 5301). Adding the bootstrap brokers once
//! more brings it back.

use std::{
    collections::BTreeMap, ffi::CString, ops::Deref, ptr, sync::OnceLock, thread, time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use rdkafka::{
    ClientContext,
    admin::AdminClient,
    bindings::{rd_kafka_brokers_add, rd_kafka_controllerid, rd_kafka_t},
    consumer::{BaseConsumer, Consumer as _, ConsumerContext},
    producer::{Producer as _, ProducerContext},
};

use crate::reporting::ReportingProducer;

/// How often clients are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A client with a librdkafka handle, the same one for as long as it lives.
pub(crate) trait Native {
    fn native(&self) -> *mut rd_kafka_t;
}

impl<C: ConsumerContext> Native for BaseConsumer<C> {
    fn native(&self) -> *mut rd_kafka_t {
        self.client().native_ptr()
    }
}

impl<C: ProducerContext + 'static> Native for ReportingProducer<C> {
    fn native(&self) -> *mut rd_kafka_t {
        self.client().native_ptr()
    }
}

impl<C: ClientContext + 'static> Native for AdminClient<C> {
    fn native(&self) -> *mut rd_kafka_t {
        self.inner().native_ptr()
    }
}

/// A client to which its bootstrap brokers are added again whenever it knows no broker.
pub(crate) struct ReconnectingClient<T> {
    // Declared before the client, so that it is dropped first.
    _registration: Registration,
    client: T,
}

impl<T: Native> ReconnectingClient<T> {
    pub(crate) fn new(client: T, bootstrap: &str) -> Self {
        let handle = Handle {
            native: ptr::NonNull::new(client.native()).expect("a client has a handle"),
            bootstrap: CString::new(bootstrap).expect("librdkafka took it as a string"),
        };
        Self {
            _registration: Registration::register(handle),
            client,
        }
    }
}

impl<T> Deref for ReconnectingClient<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.client
    }
}

struct Handle {
    native: ptr::NonNull<rd_kafka_t>,
    bootstrap: CString,
}

// SAFETY: librdkafka's handles may be used from any thread.
unsafe impl Send for Handle {}

impl Handle {
    /// Whether the last metadata response named any broker: it has a controller's id then. Makes no request.
    fn knows_brokers(&self) -> bool {
        // SAFETY: the client lives, since it is registered; with no time to wait the call only reads.
        unsafe { rd_kafka_controllerid(self.native.as_ptr(), 0) >= 0 }
    }

    /// Brokers that the client still knows are not added twice.
    fn add_bootstrap_brokers(&self) {
        // SAFETY: the client lives, since it is registered, and the string is copied.
        unsafe { rd_kafka_brokers_add(self.native.as_ptr(), self.bootstrap.as_ptr()) };
    }
}

/// A registration with the thread that checks all clients of the process.
struct Registration(u64);

#[derive(Default)]
struct Registry {
    last: u64,
    handles: BTreeMap<u64, Handle>,
}

impl Registration {
    fn register(handle: Handle) -> Self {
        let mut registry = registry();
        registry.last += 1;
        let number = registry.last;
        registry.handles.insert(number, handle);
        Self(number)
    }
}

impl Drop for Registration {
    /// Returns when the checking thread no longer uses the handle.
    fn drop(&mut self) {
        registry().handles.remove(&self.0);
    }
}

fn registry() -> MutexGuard<'static, Registry> {
    static REGISTRY: OnceLock<Mutex<Registry>> = OnceLock::new();
    REGISTRY
        .get_or_init(|| {
            thread::Builder::new()
                .name("kafka-brokers".to_owned())
                .spawn(|| {
                    loop {
                        thread::sleep(CHECK_INTERVAL);
                        check_all();
                    }
                })
                .expect("the system has a thread to spare at start");
            Mutex::default()
        })
        .lock()
}

fn check_all() {
    for handle in registry().handles.values() {
        if !handle.knows_brokers() {
            handle.add_bootstrap_brokers();
        }
    }
}
