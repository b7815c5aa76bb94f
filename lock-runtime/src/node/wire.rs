//! The socket under a connection.

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

/// A socket that can be given up: what it has not delivered then never arrives.
///
/// An ordinary close leaves unsent bytes with the kernel, which goes on trying to deliver them for minutes. An acquire
/// among them could take the lock long after its release was sent over the next connection.
#[derive(Debug)]
pub(super) struct Wire {
    socket: Socket,
    abandoned: Arc<AtomicBool>,
    first: FirstByte,
    heard: bool,
}

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
            heard: false,
        })
    }

    pub(super) fn first_byte(&self) -> FirstByte {
        self.first.clone()
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
        let before = buf.filled().len();
        let read = on_socket!(self, socket => Pin::new(socket).poll_read(cx, buf));
        if !self.heard
            && let Some(first) = buf.filled().get(before)
        {
            self.heard = true;
            self.first.0.get_or_init(|| *first);
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
        on_socket!(self, socket => Pin::new(socket).poll_write(cx, buf))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_socket!(self, socket => Pin::new(socket).poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_socket!(self, socket => Pin::new(socket).poll_shutdown(cx))
    }
}
