//! A client that sees what the network does, without a library between.

use crate::SILENCE;
use lock_tests::{DEADLINE, Proxy};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;

/// One connection and the answers on it.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn connect(port: u16) -> std::io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(DEADLINE))?;
        Ok(Self(BufReader::new(stream)))
    }

    pub(crate) fn to(proxy: &Proxy) -> Self {
        Self::connect(proxy.port()).expect("the proxy listens")
    }

    pub(crate) fn send(&mut self, words: &[&str]) {
        let arguments = words
            .iter()
            .map(|word| format!("${}\r\n{word}\r\n", word.len()));
        let request = format!("*{}\r\n{}", words.len(), arguments.collect::<String>());
        self.0
            .get_mut()
            .write_all(request.as_bytes())
            .expect("the connection takes a request");
    }

    pub(crate) fn answer(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    pub(crate) fn ask(&mut self, words: &[&str]) -> std::io::Result<String> {
        self.send(words);
        self.answer()
    }

    pub(crate) fn is_silent(&mut self) -> bool {
        self.0
            .get_ref()
            .set_read_timeout(Some(SILENCE))
            .expect("a timeout");
        let outcome = self.0.read(&mut [0]).map_err(|error| error.kind());
        self.0
            .get_ref()
            .set_read_timeout(Some(DEADLINE))
            .expect("a timeout");
        matches!(outcome, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut))
    }

    pub(crate) fn is_reset(&mut self) -> bool {
        self.answer()
            .is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
    }
}
