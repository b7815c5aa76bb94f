//! A port that stays ours while nobody listens on it.

use socket2::{Domain, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr};

/// A loopback port, bound for as long as this lives and not listened on.
///
/// A server is killed and comes back on its port, and a proxy closes its listener and opens it again. In between, the
/// kernel may give the port to another test's connection. A bound socket prevents that; because it has `SO_REUSEADDR`
/// and does not listen, our server (which sets the same option) may bind the port next to it, and while no server does,
/// a connection is refused.
#[derive(Debug)]
pub struct ReservedPort {
    number: u16,
    _socket: Socket,
}

impl ReservedPort {
    /// One that nobody else has.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self::bind(0).expect("the kernel has a free loopback port")
    }

    /// A port and the one that is so much higher.
    pub(crate) fn with_higher(by: u16) -> (Self, Self) {
        const TRIES: u32 = 1000;
        let mut refused = Vec::new();
        for _ in 0..TRIES {
            let port = Self::new();
            let higher = port.number.checked_add(by).map(Self::bind);
            if let Some(Ok(higher)) = higher {
                return (port, higher);
            }
            // Kept until there is one, or the kernel could give it again.
            refused.push(port);
        }
        panic!("no two loopback ports {by} apart are free");
    }

    fn bind(number: u16) -> std::io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        // Bound without the option: the kernel then gives only a port that nobody else has in any way.
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, number)).into())?;
        socket.set_reuse_address(true)?;
        let number = socket
            .local_addr()?
            .as_socket()
            .map_or(0, |address| address.port());
        Ok(Self {
            number,
            _socket: socket,
        })
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}
