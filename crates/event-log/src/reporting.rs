//! A producer with a thread that sleeps until there is something to report.
//!
//! rdkafka's own thread waits for 100 ms at a time, and spins through the last millisecond of it, since its deadlines are finer than the milliseconds that
//! librdkafka takes: 1 % of a core for each idle producer (seen with 0.39.0).

use std::{
    ffi::c_int,
    io::{self, ErrorKind, Read as _, Write as _},
    ops::Deref,
    os::{fd::AsRawFd as _, unix::net::UnixStream},
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rdkafka::{
    bindings::{
        rd_kafka_queue_destroy, rd_kafka_queue_get_main, rd_kafka_queue_io_event_enable,
        rd_kafka_queue_length, rd_kafka_queue_t,
    },
    client::Client,
    error::KafkaError,
    producer::{BaseProducer, Producer as _, ProducerContext},
};

/// The thread looks this often even if it was not woken, so that a lost wake-up cannot hold a report back for good.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A producer whose context gets its reports from a thread of its own, until it is dropped.
pub(crate) struct ReportingProducer<C: ProducerContext + 'static> {
    producer: Arc<BaseProducer<C>>,
    is_dropped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Wakes the thread. librdkafka writes to this stream as well, so the field is declared after the producer, which is dropped first.
    wake: UnixStream,
}

impl<C: ProducerContext + 'static> ReportingProducer<C> {
    /// # Errors
    /// [`KafkaError::ClientCreation`] if the system has no descriptor or no thread to spare.
    pub(crate) fn new(producer: BaseProducer<C>) -> Result<Self, KafkaError> {
        Self::start(Arc::new(producer)).map_err(|e| KafkaError::ClientCreation(e.to_string()))
    }

    fn start(producer: Arc<BaseProducer<C>>) -> io::Result<Self> {
        let (woken, wake) = UnixStream::pair()?;
        woken.set_read_timeout(Some(LOOK_AGAIN))?;
        wake.set_nonblocking(true)?;
        let mut started = Self {
            producer,
            is_dropped: Arc::default(),
            thread: None,
            wake,
        };
        let reports = MainQueue::of(started.producer.client());
        reports.write_to(&started.wake);
        let producer = Arc::clone(&started.producer);
        let is_dropped = Arc::clone(&started.is_dropped);
        let report = move || {
            while !is_dropped.load(Ordering::Acquire) {
                // Before the first wait: reports that came before `write_to` have woken nobody.
                while !reports.is_empty() {
                    producer.poll(Duration::ZERO);
                }
                wait(&woken);
            }
        };
        let thread = thread::Builder::new().name("kafka-reports".to_owned());
        started.thread = Some(thread.spawn(report)?);
        Ok(started)
    }
}

/// Waits until something was written, or it is time to look again.
fn wait(mut woken: &UnixStream) {
    match woken.read(&mut [0; 64]) {
        Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            tracing::error!(%error, "waiting for reports of a producer");
            thread::sleep(LOOK_AGAIN);
        }
        _ => {}
    }
}

impl<C: ProducerContext + 'static> Deref for ReportingProducer<C> {
    type Target = BaseProducer<C>;

    fn deref(&self) -> &BaseProducer<C> {
        &self.producer
    }
}

impl<C: ProducerContext + 'static> Drop for ReportingProducer<C> {
    /// Waits for the thread. rdkafka then drops the queue, and reports that.
    fn drop(&mut self) {
        self.is_dropped.store(true, Ordering::Release);
        // If the stream is full, the thread is woken already.
        let _ = (&self.wake).write(&[0]);
        if self
            .thread
            .take()
            .is_some_and(|thread| thread.join().is_err())
        {
            tracing::error!("the thread that reports deliveries has panicked");
        }
    }
}

/// The queue of a client that has its reports, errors and log lines.
struct MainQueue(NonNull<rd_kafka_queue_t>);

// SAFETY: librdkafka's queues may be used from any thread.
unsafe impl Send for MainQueue {}

impl MainQueue {
    fn of<C: ProducerContext>(client: &Client<C>) -> Self {
        // SAFETY: the handle is a client's. The reference to the queue is given back when this is dropped.
        let queue = unsafe { rd_kafka_queue_get_main(client.native_ptr()) };
        Self(NonNull::new(queue).expect("a client has a main queue"))
    }

    /// From now on librdkafka writes a byte whenever something arrives in an empty queue.
    fn write_to(&self, wake: &UnixStream) {
        let descriptor: c_int = wake.as_raw_fd();
        // SAFETY: the queue is referenced, the byte is copied, and the descriptor is open until the client is dropped.
        unsafe {
            rd_kafka_queue_io_event_enable(self.0.as_ptr(), descriptor, [1_u8].as_ptr().cast(), 1);
        }
    }

    fn is_empty(&self) -> bool {
        // SAFETY: the queue is referenced.
        unsafe { rd_kafka_queue_length(self.0.as_ptr()) == 0 }
    }
}

impl Drop for MainQueue {
    fn drop(&mut self) {
        // SAFETY: the reference belongs to this value.
        unsafe { rd_kafka_queue_destroy(self.0.as_ptr()) };
    }
}
