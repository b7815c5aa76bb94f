//! Asking a service, with a connection for each request.

use crate::wait::DEADLINE;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// What a service answered.
#[derive(Debug)]
pub struct Response {
    /// As in 200.
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    /// All of it.
    pub body: String,
}

impl Response {
    /// The value of a header, whose name may be written in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.lines().filter_map(|line| line.split_once(": "));
        let found = headers.find(|header| header.0.eq_ignore_ascii_case(name))?;
        Some(found.1)
    }
}

/// Sends a request, as `GET /path` or `POST /path` with JSON, and waits for the answer.
pub async fn ask(address: &str, what: &str, body: &str) -> Response {
    answer(send(address, what, body).await).await
}

/// [`ask`] of a service that perhaps starts or ends at this moment.
///
/// # Errors
/// Nobody listens, or whoever does hangs up or takes too long.
pub async fn try_ask(address: &str, what: &str, body: &str) -> io::Result<Response> {
    try_answer(try_send(address, what, body).await?).await
}

/// Sends a whole request, on a connection of its own.
pub async fn send(address: &str, what: &str, body: &str) -> TcpStream {
    let sent = try_send(address, what, body).await;
    sent.expect("the service listens")
}

/// Waits for the answer to the request that was sent on a connection.
pub async fn answer(stream: TcpStream) -> Response {
    try_answer(stream).await.expect("an answer")
}

async fn try_send(address: &str, what: &str, body: &str) -> io::Result<TcpStream> {
    let length = body.len();
    // In HTTP/1.0 an answer comes in one piece.
    let request = format!(
        "{what} HTTP/1.0\r\nHost: {address}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    Ok(stream)
}

async fn try_answer(mut stream: TcpStream) -> io::Result<Response> {
    let mut text = String::new();
    timeout(DEADLINE, stream.read_to_string(&mut text)).await??;
    let unreadable = || io::Error::new(io::ErrorKind::InvalidData, text.clone());
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(unreadable)?;
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    Ok(Response {
        status: status.ok_or_else(unreadable)?,
        head: head.to_owned(),
        body: body.to_owned(),
    })
}
