//! The socket under a connection.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::address::Address;
use super::names::Names;
use super::target::Target;
use super::tls::{self, Connector};
use super::trouble::{DownCause, Trouble};

/// Moves bytes for a connection, until it is closed.
pub(super) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

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
    refusal: Refusal,
}

/// How much a stranger may send: many times what a server answers to the handshake.
const MOST_OF_A_STRANGER: usize = 64 * 1024;

#[derive(Debug)]
enum Socket {
    Tcp(TcpStream),
    Tls(tls::Stream),
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Socket {
    async fn connect(address: &Address, names: &Arc<Names>) -> Result<Self, Trouble> {
        let socket = match address {
            Address::Tcp(host, port) => {
                let addresses = names.addresses(host, *port).await?;
                let stream = TcpStream::connect(&*addresses).await;
                stream.and_then(|stream| stream.set_nodelay(true).map(|()| Self::Tcp(stream)))
            }
            #[cfg(unix)]
            Address::Unix(path) => UnixStream::connect(path).await.map(Self::Unix),
            #[cfg(not(unix))]
            Address::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        };
        socket.map_err(|error| no_connection(&error))
    }

    async fn secured(
        self,
        address: &Address,
        tls: &Arc<Connector>,
        patience: Duration,
    ) -> Result<Self, Trouble> {
        match (self, address) {
            (Self::Tcp(stream), Address::Tcp(host, _)) => {
                let stream = Box::pin(tls.handshake(stream, host, patience)).await?;
                Ok(Self::Tls(stream))
            }
            _ => Err("TLS is for servers with a host".into()),
        }
    }

    fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(stream) => Some(stream),
            Self::Tls(stream) => Some(stream.get_ref().0),
            #[cfg(unix)]
            Self::Unix(_) => None,
        }
    }
}

fn no_connection(error: &io::Error) -> Trouble {
    let cause = match error.kind() {
        // A socket in the file system is not there before somebody listens.
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => DownCause::NotListening,
        io::ErrorKind::TimedOut => DownCause::Silent,
        _ => DownCause::Other,
    };
    cause.because(format!("no connection: {error}"))
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

/// What TLS has against a connection that was made: a server may hear of our certificate, and refuse it, when for us the
/// handshake is over.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusal(Arc<OnceLock<Trouble>>);

impl Refusal {
    pub(super) fn get(&self) -> Option<Trouble> {
        self.0.get().cloned()
    }

    fn note(&self, error: &io::Error) {
        if let Some(trouble) = tls::refusal(error) {
            self.0.get_or_init(|| trouble);
        }
    }
}

impl Wire {
    /// Connects, and speaks TLS from the first byte if so told. Each step of it may take as long as patience lasts: finding the
    /// server, reading certificates again, and the TLS handshake.
    ///
    /// # Errors
    ///
    /// Why not, in an operator's words.
    pub(super) async fn connect(
        address: &Address,
        target: &Target,
        patience: Duration,
    ) -> Result<Self, Trouble> {
        let connecting = Socket::connect(address, &target.names);
        let Ok(connected) = timeout(patience, connecting).await else {
            let silent = format!("no connection in {patience:.0?}");
            return Err(DownCause::Silent.because(silent));
        };
        let mut socket = connected?;
        if let Some(tls) = &target.tls {
            socket = socket.secured(address, tls, patience).await?;
        }
        Ok(Self {
            socket,
            abandoned: Arc::default(),
            first: FirstByte::default(),
            heard: 0,
            trust: Trust::default(),
            greeting: Greeting::default(),
            refusal: Refusal::default(),
        })
    }

    pub(super) fn refusal(&self) -> Refusal {
        self.refusal.clone()
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
            && let Some(stream) = self.socket.tcp()
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
            Socket::Tls($socket) => $call,
            #[cfg(unix)]
            Socket::Unix($socket) => $call,
        }
    };
}

impl Wire {
    fn read_socket(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = on_socket!(self, socket => Pin::new(socket).poll_read(cx, buf));
        if let Poll::Ready(Err(error)) = &read {
            self.refusal.note(error);
        }
        read
    }

    /// A server that says why it refuses our certificate closes the connection behind it. Whoever writes meanwhile hears only
    /// of that, so what came before is read.
    fn ask_why_if_failed<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if let (Socket::Tls(_), Poll::Ready(Err(_))) = (&self.socket, &written) {
            let mut last_words = [0; 256];
            // Its value is of no use any more; what TLS has against the connection is kept.
            let _ = self.read_socket(cx, &mut ReadBuf::new(&mut last_words));
        }
        written
    }
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
        let read = self.read_socket(cx, buf);
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
        let written = on_socket!(self, socket => Pin::new(socket).poll_write(cx, buf));
        self.ask_why_if_failed(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = on_socket!(self, socket => Pin::new(socket).poll_flush(cx));
        self.ask_why_if_failed(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_socket!(self, socket => Pin::new(socket).poll_shutdown(cx))
    }
}
