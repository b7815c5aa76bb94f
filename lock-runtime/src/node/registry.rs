//! Which server is behind which node of a manager.
//!
//! Two names may lead to one server. Its vote would count twice, and two clients could both have a majority. Names do not
//! tell, but the server does: its `run_id` is its own. So a connection is used only once its server is entered here for its
//! node. The node that comes later is refused, and tries again: by then it may be led to another server, or the first
//! node may have left this one.
//!
//! A node may have several servers here, as a cluster has, and several connections to each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::trouble::Unfit;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Registry {
    servers: Mutex<HashMap<Arc<str>, Entry>>,
    settling: Duration,
}

#[derive(Debug)]
struct Entry {
    node: Arc<str>,
    connections: usize,
    /// When the last of them ended, while there is none.
    left: Instant,
}

impl Registry {
    /// A server that a node has left is not given to another one for so long: the time in which a vote that came from it may
    /// still be counted, as the first node's.
    pub(crate) fn settling(settling: Duration) -> Self {
        Self {
            servers: Mutex::default(),
            settling,
        }
    }

    /// What there is now. A panic elsewhere cannot have left it half written: nothing in between can panic.
    fn servers(&self) -> MutexGuard<'_, HashMap<Arc<str>, Entry>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a node in a [`Registry`]. Clones are the same node's.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    registry: Arc<Registry>,
    node: Arc<str>,
}

impl Seat {
    /// For the node that has this name; another one may have the same.
    pub(crate) fn new(registry: &Arc<Registry>, node: &Arc<str>) -> Self {
        Self {
            registry: Arc::clone(registry),
            node: Arc::clone(node),
        }
    }

    /// Enters a server that the node has a connection to.
    ///
    /// # Errors
    ///
    /// Another node has it: which one.
    pub(super) fn take(&self, run_id: &str) -> Result<Presence, Unfit> {
        let now = Instant::now();
        let settling = self.registry.settling;
        let mut servers = self.registry.servers();
        servers.retain(|_, entry| {
            entry.connections > 0 || now.saturating_duration_since(entry.left) < settling
        });
        let run_id: Arc<str> = run_id.into();
        let entry = servers.entry(Arc::clone(&run_id)).or_insert_with(|| Entry {
            node: Arc::clone(&self.node),
            connections: 0,
            left: now,
        });
        if !Arc::ptr_eq(&entry.node, &self.node) {
            let node = Arc::clone(&entry.node);
            return Err(Unfit::SameServer { node });
        }
        entry.connections += 1;
        Ok(Presence {
            registry: Arc::clone(&self.registry),
            run_id,
        })
    }
}

/// One connection of a node to a server.
#[derive(Debug)]
pub(super) struct Presence {
    registry: Arc<Registry>,
    run_id: Arc<str>,
}

impl Drop for Presence {
    fn drop(&mut self) {
        if let Some(entry) = self.registry.servers().get_mut(&self.run_id) {
            entry.connections -= 1;
            entry.left = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTLING: Duration = Duration::from_millis(500);

    fn seats() -> (Arc<Registry>, [Seat; 2]) {
        let registry = Arc::new(Registry::settling(SETTLING));
        // Of one name, and not one node.
        let seats = [(), ()].map(|()| Seat::new(&registry, &"a:1".into()));
        (registry, seats)
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_belongs_to_one_node_for_as_long_as_its_votes_may_count() {
        let (registry, [first, second]) = seats();
        let mine = first.take("x").expect("nobody has it");
        let another = first.clone().take("x").expect("it is ours");
        let refused = second.take("x").expect_err("it is the first node's");
        assert_eq!(
            refused.to_string(),
            "it is the server of node a:1 too: its vote would count twice"
        );
        let other = second.take("y").expect("nobody has it");

        drop(mine);
        tokio::time::advance(SETTLING).await;
        second.take("x").expect_err("there is one connection left");
        drop(another);
        tokio::time::advance(Duration::from_millis(499)).await;
        second.take("x").expect_err("its votes may still count");
        drop(first.take("x").expect("it comes back to its own"));
        tokio::time::advance(SETTLING).await;
        let theirs = second.take("x").expect("it has been left");
        first.take("x").expect_err("it is the second node's");
        drop((theirs, other));
        tokio::time::advance(SETTLING).await;
        drop(first.take("z").expect("nobody has it"));
        assert_eq!(registry.servers().len(), 1, "what is over is forgotten");
    }

    #[test]
    fn of_nodes_that_come_at_once_one_has_the_server() {
        for _ in 0..100 {
            let (_registry, seats) = seats();
            let threads = seats.map(|seat| std::thread::spawn(move || seat.take("x")));
            let taken = threads.map(|thread| thread.join().expect("no panic"));
            assert_eq!(taken.iter().filter(|taken| taken.is_ok()).count(), 1);
        }
    }
}
