//! The socket under a connection.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(String, u16),
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// A socket that can be given up: what it has not delivered then never arrives.
///
/// An ordinary close leaves unsent bytes with the kernel, which goes on trying to deliver them for minutes. An acquire
/// among them could take the lock long after its release was sent over the next connection.
#[derive(Debug)]
pub(super) struct Wire {
    socket: Socket,
    abandoned: Arc<AtomicBool>,
    first: FirstByte,
    /// How many bytes came.
    heard: usize,
    trust: Trust,
    greeting: Greeting,
}

/// How much a stranger may send: many times what a server answers to the handshake.
const MOST_OF_A_STRANGER: usize = 64 * 1024;

#[derive(Debug)]
enum Socket {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

/// Gives up a [`Wire`] that somebody else drives.
#[derive(Clone, Debug)]
pub(super) struct Abandon(Arc<AtomicBool>);

impl Abandon {
    /// When the wire is dropped, its connection is reset instead of closed.
    pub(super) fn abandon(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Whether the server at the end of a [`Wire`] is known, and may send as much as it likes.
#[derive(Clone, Debug, Default)]
pub(super) struct Trust(Arc<Known>);

#[derive(Debug, Default)]
struct Known {
    trusted: AtomicBool,
    broken: AtomicBool,
}

impl Trust {
    pub(super) fn trust(&self) {
        self.0.trusted.store(true, Ordering::Release);
    }

    /// It sent too much before.
    pub(super) fn is_broken(&self) -> bool {
        self.0.broken.load(Ordering::Acquire)
    }

    fn allows(&self, bytes: usize) -> bool {
        let allowed = bytes <= MOST_OF_A_STRANGER || self.0.trusted.load(Ordering::Acquire);
        if !allowed {
            self.0.broken.store(true, Ordering::Release);
        }
        allowed
    }
}

/// Until it is over, what is written to a [`Wire`] is thrown away, and each read gives the answer to one command.
///
/// The client library takes what a server says unasked only over connections that it has greeted itself. Its greeting comes
/// before the login, which is ours, and where it is refused the connection is of no use to it. So it greets nobody, and the
/// server is greeted by the handshake.
#[derive(Clone, Debug, Default)]
pub(super) struct Greeting(Arc<AtomicBool>);

impl Greeting {
    const ANSWER: &[u8] = b"+OK\r\n";

    pub(super) fn end(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_over(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The first byte that came over a [`Wire`], for whoever did not understand the rest.
#[derive(Clone, Debug, Default)]
pub(super) struct FirstByte(Arc<OnceLock<u8>>);

impl FirstByte {
    pub(super) fn get(&self) -> Option<u8> {
        self.0.get().copied()
    }
}

impl Wire {
    pub(super) async fn connect(address: &Address) -> io::Result<Self> {
        let socket = match address {
            Address::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                Socket::Tcp(stream)
            }
            #[cfg(unix)]
            Address::Unix(path) => Socket::Unix(UnixStream::connect(path).await?),
            #[cfg(not(unix))]
            Address::Unix(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        Ok(Self {
            socket,
            abandoned: Arc::default(),
            first: FirstByte::default(),
            heard: 0,
            trust: Trust::default(),
            greeting: Greeting::default(),
        })
    }

    pub(super) fn first_byte(&self) -> FirstByte {
        self.first.clone()
    }

    pub(super) fn greeting(&self) -> Greeting {
        self.greeting.clone()
    }

    pub(super) fn trust(&self) -> Trust {
        self.trust.clone()
    }

    pub(super) fn abandon_handle(&self) -> Abandon {
        Abandon(Arc::clone(&self.abandoned))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if self.abandoned.load(Ordering::Acquire)
            && let Socket::Tcp(stream) = &self.socket
        {
            // Where the system refuses, the lock's TTL ends what may still arrive.
            let _ = stream.set_zero_linger();
        }
    }
}

macro_rules! on_socket {
    ($self:ident, $socket:ident => $call:expr) => {
        match &mut $self.socket {
            Socket::Tcp($socket) => $call,
            #[cfg(unix)]
            Socket::Unix($socket) => $call,
        }
    };
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.greeting.is_over() && buf.remaining() >= Greeting::ANSWER.len() {
            buf.put_slice(Greeting::ANSWER);
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let read = on_socket!(self, socket => Pin::new(socket).poll_read(cx, buf));
        let came = buf.filled().get(before..).unwrap_or_default();
        if let (0, Some(first)) = (self.heard, came.first()) {
            self.first.0.get_or_init(|| *first);
        }
        self.heard = self.heard.saturating_add(came.len());
        // An answer without an end would be kept in memory until the time for the handshake is over.
        if !self.trust.allows(self.heard) {
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        read
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.greeting.is_over() {
            return Poll::Ready(Ok(buf.len()));
        }
        on_socket!(self, socket => Pin::new(socket).poll_write(cx, buf))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_socket!(self, socket => Pin::new(socket).poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_socket!(self, socket => Pin::new(socket).poll_shutdown(cx))
    }
}
