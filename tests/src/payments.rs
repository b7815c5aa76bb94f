//! The example `payments`: a service that sells from a stock, which can be killed and comes back at its address.

use crate::port::ReservedPort;
use crate::processes::{Peer, example};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longer than by default, which is 50: these machines are busy, and a node that is slow for once is not what is meant here.
const NODE_TIMEOUT_MS: u32 = 250;

/// One process of the service, on a loopback port of its own, the same over all its lives. It is killed when this is dropped.
#[derive(Debug)]
pub struct Payments {
    port: ReservedPort,
    database: String,
    lock_nodes: Option<String>,
    stock: u32,
    log: PathBuf,
    process: Option<Peer>,
}

impl Payments {
    /// A service on a PostgreSQL database. Without lock nodes it locks nobody but itself. What it logs is added to a file.
    pub fn new(database: String, lock_nodes: Option<String>, stock: u32, log: &Path) -> Self {
        Self {
            port: ReservedPort::new(),
            database,
            lock_nodes,
            stock,
            log: log.to_owned(),
            process: None,
        }
    }

    /// Where it is asked.
    pub fn url(&self) -> String {
        format!("http://{}", self.port.address())
    }

    /// Starts it, and waits until it listens.
    pub async fn start(&mut self) {
        let log = File::options().create(true).append(true).open(&self.log);
        let mut command = self.command();
        command.stderr(log.unwrap_or_else(|error| panic!("{}: {error}", self.log.display())));
        let mut process = Peer::start(command);
        let listening = format!("listening on {}", self.port.address());
        process.expect(&listening).await;
        self.process = Some(process);
    }

    /// Ends it at once with `SIGKILL`.
    pub fn kill(&mut self) {
        self.running().kill();
        self.process = None;
    }

    /// Asks it to end with `SIGTERM`, and waits until it has.
    pub async fn stop(&mut self) {
        let process = self.running();
        process.terminate();
        let (status, lines) = process.finish_within(3 * crate::DEADLINE).await;
        assert_eq!((status.code(), lines), (Some(0), Vec::new()));
        self.process = None;
    }

    /// Whether it says that it is ready: a majority of its lock nodes answers.
    ///
    /// # Errors
    /// Nobody answers, or something else than a status.
    pub async fn is_ready(&self) -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(self.port.address()).await?;
        let request = "GET /ready HTTP/1.1\r\nHost: payments\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer.starts_with("HTTP/1.1 200 "))
    }

    fn command(&self) -> Command {
        let mut command = example("payments");
        command
            .args(["--listen", &self.port.address().to_string()])
            .args(["--stock", &self.stock.to_string()])
            .env("DATABASE_URL", &self.database)
            .env_remove("LOCK_NODES");
        if let Some(nodes) = &self.lock_nodes {
            command
                .env("LOCK_NODES", nodes)
                .env("LOCK_NODE_TIMEOUT_MS", NODE_TIMEOUT_MS.to_string());
        }
        command
    }

    fn running(&mut self) -> &mut Peer {
        self.process
            .as_mut()
            .unwrap_or_else(|| panic!("the service on {:?} does not run", self.port))
    }
}
