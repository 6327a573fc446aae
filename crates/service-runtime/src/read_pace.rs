//! How fast a connection is read, at most. Bytes beyond that wait with the sender.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

use crate::Rate;

/// The pause after which a client may send the full burst at once.
const BURST: Duration = Duration::from_secs(10);

pub(crate) struct ReadPace {
    rate: Rate,
    /// When the whole burst is available again.
    spent_until: Instant,
    /// The wait before the next read, if more than the burst is spent.
    pause: Option<Pin<Box<Sleep>>>,
}

impl ReadPace {
    pub(crate) fn new(bytes_per_s: u32) -> Self {
        Self {
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

    /// Reads after the pause, and spends what was read.
    pub(crate) fn poll_read(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        let before = buffer.filled().len();
        ready!(Pin::new(stream).poll_read(context, buffer))?;
        self.spend(buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}
