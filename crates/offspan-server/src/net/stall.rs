//! A stream that gives up on a peer which takes nothing any more, or next to nothing.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Bytes per second that a peer must take when there are more for it. One that takes fewer, in the hope that we wait for ever
/// and hold the answer, runs out of patience as one does that takes nothing.
pub(super) const LEAST_RATE: f64 = 32_768.0;

/// Fails writes to a peer that takes nothing for a time, or too little for longer, and reads of a connection on which
/// nothing came for a time.
pub(crate) struct Stall<S> {
    stream: S,
    patience: Duration,
    /// How long writes may still wait. Bytes that are taken and time without waiting bring it back.
    left: Duration,
    /// Since when no write has waited.
    free_since: Instant,
    /// A write that waits.
    write: Option<Waiting>,
    /// Only where silence means that the peer is gone.
    read: Option<Pin<Box<Sleep>>>,
}

struct Waiting {
    since: Instant,
    timer: Pin<Box<Sleep>>,
}

impl<S> Stall<S> {
    pub(crate) fn new(stream: S, patience: Duration, reads_too: bool) -> Self {
        let read = reads_too.then(|| Box::pin(sleep(patience)));
        let free_since = Instant::now();
        Stall { stream, patience, left: patience, free_since, write: None, read }
    }

    /// Begins to count when a write has to wait, and stops when it went on; `bytes` tells how many were taken.
    fn watch_write<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
        bytes: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(result) = &written {
            let taken = result.as_ref().map_or(0, bytes);
            if let Some(waited) = self.write.take() {
                self.free_since = Instant::now();
                self.left = self.left.saturating_sub(self.free_since - waited.since);
            }
            self.forgive(Duration::from_secs_f64(taken as f64 / LEAST_RATE));
            return written;
        }
        if self.write.is_none() {
            let since = Instant::now();
            self.forgive(since - self.free_since);
            self.write = Some(Waiting { since, timer: Box::pin(sleep(self.left)) });
        }
        let late = self.write.as_mut().is_some_and(|w| w.timer.as_mut().poll(cx).is_ready());
        if late { Poll::Ready(Err(io::ErrorKind::TimedOut.into())) } else { Poll::Pending }
    }

    fn forgive(&mut self, time: Duration) {
        self.left = self.left.saturating_add(time).min(self.patience);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stall<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let patience = self.patience;
        let Some(timer) = &mut self.read else { return read };
        if read.is_ready() {
            timer.as_mut().reset(Instant::now() + patience);
            return read;
        }
        match timer.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stall<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch_write(cx, written, |&count| count)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.watch_write(cx, written, |&count| count)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch_write(cx, flushed, |()| 0)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watch_write(cx, closed, |()| 0)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Writes 4 MiB to a peer that takes so many bytes every tenth of a second.
    async fn write_to_one_that_takes(bytes: usize) -> io::Result<()> {
        let (ours, mut theirs) = tokio::io::duplex(4096);
        let reader = tokio::spawn(async move {
            let mut buffer = vec![0; bytes];
            let mut left = 4 << 20;
            while left > 0 && bytes > 0 {
                sleep(Duration::from_millis(100)).await;
                let wanted = bytes.min(left);
                if theirs.read_exact(&mut buffer[..wanted]).await.is_err() {
                    break;
                }
                left -= wanted;
            }
            // Still there, although it takes nothing.
            sleep(Duration::from_secs(3600)).await;
        });
        let mut stall = Stall::new(ours, Duration::from_secs(30), false);
        let result = stall.write_all(&vec![0; 4 << 20]).await;
        reader.abort();
        result
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_too_little_is_given_up_and_a_modest_one_is_not() {
        for slow in [0, 1, 1000] {
            let begun = Instant::now();
            let error = write_to_one_that_takes(slow).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{slow}");
            assert!(begun.elapsed() < Duration::from_secs(60), "{slow}");
        }
        write_to_one_that_takes(6000).await.unwrap();
    }
}
