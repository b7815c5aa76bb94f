//! One connection through the proxy: two directions, each a reader, a queue, and a writer behind a gate.

use super::{Counts, Mode};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// Chunks on their way in one direction; more are left to the sockets.
const IN_FLIGHT: usize = 1024;
const CHUNK: usize = 16 * 1024;

pub(super) struct Link {
    pub(super) mode: watch::Sender<Mode>,
    pub(super) counts: Arc<Counts>,
    /// Set once a request to be cut was seen: from then on no answer reaches the client.
    pub(super) cut: AtomicBool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Requests,
    Answers,
}

/// Bytes and when they may be written.
struct Chunk {
    due: Instant,
    bytes: Vec<u8>,
}

/// How a connection ends that neither side closed.
enum Broken {
    /// By the proxy, after a request that was carried out.
    Cut,
    /// By an error on one of its sides.
    Error,
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Self {
        Self::Error
    }
}

impl Link {
    pub(super) async fn run(
        self,
        mut client: TcpStream,
        server: SocketAddr,
        mut resets: watch::Receiver<()>,
        mut forgets: watch::Receiver<()>,
    ) {
        let mut upstream = None;
        let outcome = tokio::select! {
            biased;
            _ = resets.changed() => None,
            _ = forgets.changed() => {
                if let Some(upstream) = upstream.take() {
                    // Fails only on a socket that is dead already.
                    upstream.set_zero_linger().ok();
                }
                swallow(&mut client, resets).await;
                None
            }
            outcome = self.carry(&mut client, server, &mut upstream) => Some(outcome),
        };
        match outcome {
            Some(Ok(())) => return,
            Some(Err(Broken::Cut)) => {
                self.counts.cuts.fetch_add(1, Ordering::SeqCst);
            }
            Some(Err(Broken::Error)) | None => {}
        }
        for stream in [Some(client), upstream].into_iter().flatten() {
            // Fails only on a socket that is dead already.
            stream.set_zero_linger().ok();
        }
    }

    /// Carries both directions until both sides have closed.
    async fn carry(
        &self,
        client: &mut TcpStream,
        server: SocketAddr,
        upstream: &mut Option<TcpStream>,
    ) -> Result<(), Broken> {
        client.set_nodelay(true)?;
        self.open_gate(Direction::Requests).await;
        let upstream = upstream.insert(TcpStream::connect(server).await?);
        upstream.set_nodelay(true)?;

        let (from_client, to_client) = client.split();
        let (from_server, to_server) = upstream.split();
        tokio::try_join!(
            self.one_way(Direction::Requests, from_client, to_server),
            self.one_way(Direction::Answers, from_server, to_client),
        )?;
        Ok(())
    }

    async fn one_way(
        &self,
        direction: Direction,
        from: ReadHalf<'_>,
        to: WriteHalf<'_>,
    ) -> Result<(), Broken> {
        let (queue, arrivals) = mpsc::channel(IN_FLIGHT);
        tokio::try_join!(
            async {
                self.read(direction, from, queue)
                    .await
                    .map_err(Broken::from)
            },
            self.write(direction, arrivals, to),
        )?;
        Ok(())
    }

    async fn read(
        &self,
        direction: Direction,
        mut from: ReadHalf<'_>,
        queue: mpsc::Sender<Chunk>,
    ) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK];
        loop {
            let length = from.read(&mut buffer).await?;
            if length == 0 {
                return Ok(());
            }
            let due = Instant::now() + self.delay(direction);
            let chunk = Chunk {
                due,
                bytes: buffer[..length].to_vec(),
            };
            if queue.send(chunk).await.is_err() {
                return Ok(());
            }
        }
    }

    async fn write(
        &self,
        direction: Direction,
        mut arrivals: mpsc::Receiver<Chunk>,
        mut to: WriteHalf<'_>,
    ) -> Result<(), Broken> {
        let mut recent = Vec::new();
        while let Some(Chunk { due, bytes }) = arrivals.recv().await {
            tokio::time::sleep_until(due).await;
            self.open_gate(direction).await;
            match direction {
                Direction::Answers if self.loses_answers() => continue,
                Direction::Requests if self.takes_cut(&mut recent, &bytes) => {
                    return self.deliver_last(&bytes, to).await;
                }
                Direction::Answers | Direction::Requests => {}
            }
            to.write_all(&bytes).await?;
            self.written(direction)
                .fetch_add(bytes.len() as u64, Ordering::SeqCst);
        }
        if direction == Direction::Answers && self.cut.load(Ordering::SeqCst) {
            return Err(Broken::Cut);
        }
        self.open_gate(direction).await;
        to.shutdown().await?;
        Ok(())
    }

    /// Delivers a request and the end of the connection. A server closes its side only after it has carried out what
    /// came before that end, so the other direction cuts the client when it sees the server close.
    async fn deliver_last(&self, request: &[u8], mut to: WriteHalf<'_>) -> Result<(), Broken> {
        self.cut.store(true, Ordering::SeqCst);
        to.write_all(request).await?;
        self.counts
            .bytes_to_server
            .fetch_add(request.len() as u64, Ordering::SeqCst);
        to.shutdown().await?;
        std::future::pending().await
    }

    async fn open_gate(&self, direction: Direction) {
        let mut mode = self.mode.subscribe();
        mode.wait_for(|mode| mode.lets_through(direction))
            .await
            .expect("this connection keeps a sender of the mode");
    }

    fn loses_answers(&self) -> bool {
        self.cut.load(Ordering::SeqCst) || *self.mode.borrow() == Mode::DropAnswers
    }

    /// Whether these bytes complete a request that is to be cut, which uses up one of its times.
    fn takes_cut(&self, recent: &mut Vec<u8>, bytes: &[u8]) -> bool {
        let mut found = false;
        self.mode.send_if_modified(|mode| {
            let Mode::CutAfter { word, times } = mode else {
                recent.clear();
                return false;
            };
            // An argument on the wire, so that `SET` is neither `SETINFO` nor a part of a value.
            let wanted = format!("${}\r\n{word}\r\n", word.len()).to_ascii_lowercase();
            recent.extend(bytes.to_ascii_lowercase());
            found = recent
                .windows(wanted.len())
                .any(|window| window == wanted.as_bytes());
            recent.drain(..recent.len().saturating_sub(wanted.len() - 1));
            if found && *times != usize::MAX {
                *times -= 1;
                if *times == 0 {
                    *mode = Mode::Pass;
                }
            }
            found
        });
        found
    }

    fn delay(&self, direction: Direction) -> Duration {
        match (&*self.mode.borrow(), direction) {
            (Mode::Delay { requests, .. }, Direction::Requests) => *requests,
            (Mode::Delay { answers, .. }, Direction::Answers) => *answers,
            _ => Duration::ZERO,
        }
    }

    fn written(&self, direction: Direction) -> &AtomicU64 {
        match direction {
            Direction::Requests => &self.counts.bytes_to_server,
            Direction::Answers => &self.counts.bytes_to_client,
        }
    }
}

/// Takes what the client sends, so that only the missing answers tell, until the client goes away or is reset.
async fn swallow(client: &mut TcpStream, mut resets: watch::Receiver<()>) {
    let mut buffer = vec![0; CHUNK];
    let reading = async {
        while client
            .read(&mut buffer)
            .await
            .is_ok_and(|length| length > 0)
        {}
    };
    tokio::select! {
        _ = resets.changed() => {}
        () = reading => {}
    }
}

impl Mode {
    fn lets_through(&self, direction: Direction) -> bool {
        match self {
            Self::Refuse | Self::Blackhole => false,
            Self::HoldAnswers => direction == Direction::Requests,
            Self::Pass | Self::DropAnswers | Self::Delay { .. } | Self::CutAfter { .. } => true,
        }
    }
}
