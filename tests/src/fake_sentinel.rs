//! A Sentinel that says what a test has it say, for what real ones do once in a blue moon.

use crate::server::RedisServer;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// See the [module](self). It says the same of every group.
#[derive(Debug)]
pub struct FakeSentinel {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    /// The number of the configuration, and the port of the primary.
    says: Mutex<(u64, u16)>,
    is_silent: AtomicBool,
    is_over: AtomicBool,
    connections: AtomicUsize,
}

impl FakeSentinel {
    /// One that says that this server is the primary, in the configuration of this number.
    pub fn start(epoch: u64, primary: &RedisServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the kernel has a free port");
        let address = listener.local_addr().expect("it is bound");
        let state = Arc::new(State {
            says: Mutex::new((epoch, primary.port())),
            is_silent: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
        });
        let serving = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if serving.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let state = Arc::clone(&serving);
                state.connections.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || {
                    // Whoever is gone need not be answered.
                    let _ = state.serve(&stream);
                    state.connections.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, state }
    }

    /// Says something else from now on.
    pub fn says(&self, epoch: u64, primary: &RedisServer) {
        *self.state.says() = (epoch, primary.port());
    }

    /// Whether it answers from now on.
    pub fn answers(&self, answers: bool) {
        self.state.is_silent.store(!answers, Ordering::SeqCst);
    }

    /// `127.0.0.1:PORT`.
    pub fn name(&self) -> String {
        self.address.to_string()
    }

    /// How many connections it has.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }
}

impl Drop for FakeSentinel {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        // Wakes whoever waits for connections.
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn says(&self) -> std::sync::MutexGuard<'_, (u64, u16)> {
        self.says.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut stream: &TcpStream) -> std::io::Result<()> {
        let mut from = BufReader::new(stream.try_clone()?);
        while let Some(command) = read(&mut from) {
            if self.is_over.load(Ordering::SeqCst) {
                return Ok(());
            }
            let (epoch, port) = *self.says();
            let fields = match command.get(1).map(String::as_str) {
                Some("MASTER") => ["config-epoch".to_owned(), epoch.to_string()],
                _ => ["127.0.0.1".to_owned(), port.to_string()],
            };
            if !self.is_silent.load(Ordering::SeqCst) {
                let bulk = |text: &String| format!("${}\r\n{text}\r\n", text.len());
                let fields: String = fields.iter().map(bulk).collect();
                stream.write_all(format!("*2\r\n{fields}").as_bytes())?;
            }
        }
        Ok(())
    }
}

/// A command as clients send it. `None`: there are no more.
fn read(from: &mut impl BufRead) -> Option<Vec<String>> {
    let mut part = |first: char| {
        let mut line = String::new();
        from.read_line(&mut line).ok()?;
        let number = line.trim().strip_prefix(first)?.parse::<usize>().ok()?;
        let mut text = String::new();
        if first == '$' {
            let with_line_break = u64::try_from(number).ok()?.checked_add(2)?;
            from.take(with_line_break).read_to_string(&mut text).ok()?;
            text.truncate(number);
        }
        Some((number, text))
    };
    let (count, _) = part('*')?;
    (0..count).map(|_| Some(part('$')?.1)).collect()
}
