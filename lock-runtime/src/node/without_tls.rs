//! In the place of TLS where it is not compiled in. Nobody has any of it, so nothing of it is ever called.

use std::future::Ready;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::trouble::Trouble;

#[derive(Debug)]
pub(crate) enum Connector {}

#[derive(Debug)]
pub(super) enum Stream {}

impl Connector {
    pub(super) fn handshake(
        self: &Arc<Self>,
        _: TcpStream,
        _: &str,
        _: Duration,
    ) -> Ready<Result<Stream, Trouble>> {
        match **self {}
    }
}

impl Stream {
    pub(super) fn get_ref(&self) -> (&TcpStream, ()) {
        match *self {}
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match *self {}
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        match *self {}
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }
}

pub(super) fn refusal(_: &io::Error) -> Option<Trouble> {
    None
}
