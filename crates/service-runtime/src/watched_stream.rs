//! A connection that is watched while its request is handled: whether the client is still there, and takes the answer.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use crate::{
    connection_slots::Activity,
    read_pace::ReadPace,
    request_heads::{RequestHeads, Requests},
};

/// How long the answer may take once the client has closed its sending side: it may have closed the whole connection.
const CLOSED_FOR: Duration = Duration::from_secs(2);
/// How long a client may go without taking anything of an answer.
const TAKES_NOTHING_FOR: Duration = Duration::from_secs(30);

pub(crate) struct WatchedStream<S> {
    stream: S,
    pace: Option<ReadPace>,
    activity: Activity,
    heads: RequestHeads,
    requests: Arc<Requests>,
    /// Set once the client sends no more. While a request is in progress, hyper learns of this only when the time is up, since it would drop the request.
    closed: Option<Pin<Box<Sleep>>>,
    /// Until when the client has to take part of the answer.
    untaken: Option<Pin<Box<Sleep>>>,
    /// Whether more of a request's body is awaited.
    is_owed: bool,
}

impl<S> WatchedStream<S> {
    pub(crate) fn new(
        stream: S,
        pace: Option<ReadPace>,
        activity: Activity,
        requests: Arc<Requests>,
    ) -> Self {
        Self {
            stream,
            pace,
            activity,
            heads: RequestHeads::default(),
            requests,
            closed: None,
            untaken: None,
            is_owed: false,
        }
    }

    /// Notes whether the connection waits for its client. Returns whether the connection still has its slot.
    fn note_stall(&self) -> bool {
        match self.is_owed || self.untaken.is_some() {
            true => self.activity.stall(),
            false => self.activity.go_on(),
        }
    }

    /// Notes whether more of a body is awaited.
    fn owe(&mut self, is_owed: bool) {
        if self.is_owed != is_owed {
            self.is_owed = is_owed;
            self.note_stall();
        }
    }

    /// Ends a write of an answer that makes no progress for too long.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            if self.untaken.take().is_some() {
                self.note_stall();
            }
            return written;
        }
        if self.untaken.is_none() && self.activity.stall() {
            self.untaken = Some(Box::pin(sleep(TAKES_NOTHING_FOR)));
        }
        match &mut self.untaken {
            Some(until) => ready!(until.as_mut().poll(context)),
            None => return Poll::Pending,
        }
        let why = "the client takes nothing of the answer";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.closed.is_none() {
            let before = buffer.filled().len();
            let polled = match &mut this.pace {
                Some(pace) => pace.poll_read(&mut this.stream, context, buffer),
                None => Pin::new(&mut this.stream).poll_read(context, buffer),
            };
            this.owe(polled.is_pending() && this.heads.is_in_body());
            ready!(polled)?;
            let read = &buffer.filled()[before..];
            this.heads.read(read, &this.requests);
            if !read.is_empty() || buffer.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            this.closed = Some(Box::pin(sleep(CLOSED_FOR)));
        }
        if let Some(until) = &mut this.closed
            && (this.untaken.is_some() || this.activity.is_busy())
        {
            ready!(until.as_mut().poll(context));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
