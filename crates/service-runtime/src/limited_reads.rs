//! A connection of which only a limited number of bytes a second are read. Bytes beyond that wait with the sender.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

use crate::Rate;

/// The pause after which a client may send the full burst at once.
const BURST: Duration = Duration::from_secs(10);

pub(crate) struct LimitedReads<S> {
    stream: S,
    rate: Rate,
    /// When the whole burst is available again.
    spent_until: Instant,
    /// The wait before the next read, if more than the burst is spent.
    pause: Option<Pin<Box<Sleep>>>,
}

impl<S> LimitedReads<S> {
    pub(crate) fn new(stream: S, bytes_per_s: u32) -> Self {
        Self {
            stream,
            rate: Rate {
                per_s: bytes_per_s,
                burst: BURST,
            },
            spent_until: Instant::now(),
            pause: None,
        }
    }

    /// Spends `bytes`. If the last read exceeds the burst, the next one waits for the excess.
    fn spend(&mut self, bytes: usize) {
        let now = Instant::now();
        let (spent_until, pause) = self.rate.spend(self.spent_until, bytes as u64, now);
        self.spent_until = spent_until;
        if !pause.is_zero() {
            self.pause = Some(Box::pin(sleep_until(now + pause)));
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LimitedReads<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        self.spend(buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LimitedReads<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
