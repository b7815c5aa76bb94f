//! A TCP proxy in front of a server that does to connections what networks do.
//!
//! It runs on a thread of its own, so a test whose runtime is busy, or has a single thread, does not slow it down.

mod link;

use crate::port::ReservedPort;
use crate::server::RedisServer;
use crate::wait::{DEADLINE, eventually};
use link::Link;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// What a [`Proxy`] does to its connections, those that are open and those to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Everything passes.
    Pass,
    /// Nobody listens: a connect is refused. Open connections are reset, as when a server dies.
    Refuse,
    /// Connects succeed and then nothing passes. What was sent meanwhile arrives late, when the mode changes: TCP
    /// does not lose bytes in the middle of a connection.
    Blackhole,
    /// Requests pass; their answers arrive late, when the mode changes.
    HoldAnswers,
    /// Requests pass; their answers are lost. Leaving this mode resets the connections, which are out of step.
    DropAnswers,
    /// Everything passes this much later, in order, and without limiting how much is on its way.
    Delay {
        /// On the way to the server.
        requests: Duration,
        /// On the way back.
        answers: Duration,
    },
    /// A request with this word among its arguments (`SET`, a key) is carried out by the server, then its
    /// connection is reset without an answer. After so many times everything passes.
    CutAfter {
        /// The whole of one argument, the command's name included, in any case.
        word: String,
        /// How often, [`usize::MAX`] for always.
        times: usize,
    },
}

/// A proxy in front of one server, on a loopback port of its own.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    url: String,
    counts: Arc<Counts>,
    orders: Option<mpsc::UnboundedSender<Order>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Counts {
    connections: AtomicU64,
    open: AtomicU64,
    bytes_to_server: AtomicU64,
    bytes_to_client: AtomicU64,
    cuts: AtomicU64,
}

/// What the proxy's thread is to do, and whom to tell when it is done.
#[derive(Debug)]
struct Order {
    action: Action,
    done: std::sync::mpsc::Sender<()>,
}

#[derive(Debug)]
enum Action {
    Set(Mode),
    Reset,
    Forget,
    LeadTo(SocketAddr),
}

impl Proxy {
    /// A proxy in front of a server, which need not be running.
    pub fn start(server: &RedisServer) -> Self {
        let port = ReservedPort::new();
        let number = port.number();
        let url = server.url_through(&port.address().to_string());
        let counts = Arc::new(Counts::default());
        let (orders, received) = mpsc::unbounded_channel();
        let gateway = Gateway {
            port,
            server: server.address(),
            counts: Arc::clone(&counts),
            mode: watch::Sender::new(Mode::Pass),
            resets: watch::Sender::new(()),
            forgets: watch::Sender::new(()),
            listener: None,
            links: JoinSet::new(),
        };
        let thread = std::thread::Builder::new()
            .name(format!("proxy {number}"))
            .spawn(move || {
                tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime for the proxy")
                    .block_on(gateway.run(received));
            })
            .expect("a thread for the proxy");
        let proxy = Self {
            port: number,
            url,
            counts,
            orders: Some(orders),
            thread: Some(thread),
        };
        proxy.set(Mode::Pass);
        proxy
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `127.0.0.1:PORT` of the proxy.
    pub fn name(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The server's URL, through the proxy.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Changes the mode; in force for every connection when this returns.
    pub fn set(&self, mode: Mode) {
        self.order(Action::Set(mode));
    }

    /// Resets (RST) every open connection; none is left when this returns. The mode stays.
    pub fn reset(&self) {
        self.order(Action::Reset);
    }

    /// Forgets the open connections without telling their clients, as a router does that was restarted: they stay open,
    /// and nothing passes over them any more. The server's side is reset. Connections to come are as good as ever.
    pub fn forget(&self) {
        self.order(Action::Forget);
    }

    /// Leads to something else than the server from now on. Open connections are reset.
    pub fn lead_to(&self, address: SocketAddr) {
        self.order(Action::LeadTo(address));
    }

    /// How many connections were accepted so far.
    pub fn connections(&self) -> u64 {
        self.counts.connections.load(Ordering::SeqCst)
    }

    /// How many connections are open now.
    pub fn open_connections(&self) -> u64 {
        self.counts.open.load(Ordering::SeqCst)
    }

    /// Bytes written to the server so far.
    pub fn bytes_to_server(&self) -> u64 {
        self.counts.bytes_to_server.load(Ordering::SeqCst)
    }

    /// Bytes written to clients so far.
    pub fn bytes_to_client(&self) -> u64 {
        self.counts.bytes_to_client.load(Ordering::SeqCst)
    }

    /// How many connections [`Mode::CutAfter`] has cut.
    pub fn cuts(&self) -> u64 {
        self.counts.cuts.load(Ordering::SeqCst)
    }

    fn order(&self, action: Action) {
        let (done, carried_out) = std::sync::mpsc::channel();
        let orders = self
            .orders
            .as_ref()
            .expect("orders are taken until the drop");
        orders
            .send(Order { action, done })
            .expect("the proxy's thread runs");
        carried_out.recv().expect("the proxy's thread runs");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// The side of the proxy that lives on its thread.
#[derive(Debug)]
struct Gateway {
    port: ReservedPort,
    server: SocketAddr,
    counts: Arc<Counts>,
    mode: watch::Sender<Mode>,
    resets: watch::Sender<()>,
    forgets: watch::Sender<()>,
    listener: Option<TcpListener>,
    links: JoinSet<()>,
}

impl Gateway {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        loop {
            tokio::select! {
                biased;
                order = orders.recv() => {
                    let Some(Order { action, done }) = order else { return };
                    self.carry_out(action).await;
                    // Nobody waits any more when the test was cancelled.
                    done.send(()).ok();
                }
                client = accept(self.listener.as_ref()) => self.link(client),
                Some(ended) = self.links.join_next() => ended.expect("a connection's task does not panic"),
            }
        }
    }

    async fn carry_out(&mut self, action: Action) {
        match action {
            Action::Set(mode) => {
                let was = self.mode.send_replace(mode.clone());
                if mode == Mode::Refuse {
                    self.listener = None;
                } else if self.listener.is_none() {
                    self.listener = Some(listen(self.port.address()).await);
                }
                if mode == Mode::Refuse || (was == Mode::DropAnswers && mode != was) {
                    self.reset().await;
                }
            }
            Action::Reset => self.reset().await,
            Action::Forget => {
                self.forgets.send_replace(());
            }
            Action::LeadTo(address) => {
                self.server = address;
                self.reset().await;
            }
        }
    }

    async fn reset(&mut self) {
        self.resets.send_replace(());
        while let Some(ended) = self.links.join_next().await {
            ended.expect("a connection's task does not panic");
        }
    }

    fn link(&mut self, client: TcpStream) {
        self.counts.connections.fetch_add(1, Ordering::SeqCst);
        self.counts.open.fetch_add(1, Ordering::SeqCst);
        let link = Link {
            mode: self.mode.clone(),
            counts: Arc::clone(&self.counts),
            cut: AtomicBool::new(false),
        };
        let counts = Arc::clone(&self.counts);
        let resets = self.resets.subscribe();
        let forgets = self.forgets.subscribe();
        let server = self.server;
        self.links.spawn(async move {
            link.run(client, server, resets, forgets).await;
            counts.open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

/// The port is reserved for this proxy. But a child process that is being spawned elsewhere in this one has a copy of the
/// listener that was closed, for as long as it takes to become another program.
async fn listen(address: SocketAddr) -> TcpListener {
    let listening = || {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(1024)
    };
    eventually(DEADLINE, "a proxy listens on its port", listening).await
}

async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    match listener {
        Some(listener) => listener.accept().await.expect("accept on loopback").0,
        None => std::future::pending().await,
    }
}
