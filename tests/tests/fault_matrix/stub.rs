//! Something that listens on a node's port and is not Redis.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// What it answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Manner {
    /// As a web server does.
    Http,
    /// Bytes that are no text.
    Binary,
    /// What it was sent, one answer late: so what it says of one command is what another one told it, the password too.
    Echo,
}

/// A thread that answers until this is dropped.
#[derive(Debug)]
pub(crate) struct Stub {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Stub {
    pub(crate) fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
        let address = listener.local_addr().expect("it is bound");
        let ended = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&ended);
        let thread = std::thread::spawn(move || {
            for client in listener.incoming() {
                if end.load(Ordering::SeqCst) {
                    return;
                }
                let client = client.expect("accept on loopback");
                // Ends with its connection.
                std::thread::spawn(move || manner.answer(client));
            }
        });
        Self {
            address,
            ended,
            thread: Some(thread),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        // Wakes the thread. Should it have ended, there is nobody to wake.
        TcpStream::connect(self.address).ok();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

impl Manner {
    /// Until the client goes away, or has been told to.
    fn answer(self, mut client: TcpStream) {
        let mut buffer = vec![0; 16 * 1024];
        let mut first = true;
        while let Ok(length @ 1..) = client.read(&mut buffer) {
            let answer = match self {
                Self::Http => b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n".to_vec(),
                Self::Binary => vec![0x00, 0x16, 0xff, 0x80, 0x0d, 0x0a],
                Self::Echo if first => [b"+OK\r\n", &buffer[..length]].concat(),
                Self::Echo => buffer[..length].to_vec(),
            };
            first = false;
            if client.write_all(&answer).is_err() || matches!(self, Self::Http) {
                return;
            }
        }
    }
}
