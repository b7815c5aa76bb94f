//! What a node says whose server has replicas.

use super::*;

const ASKED: usize = 2;

fn of(server: &Server) -> Arc<RedisNode> {
    let place = Place::Server(server.address());
    node_with(ASKED, place, RedisConnectionInfo::default())
}

fn waits(server: &Server) -> Vec<String> {
    let is_wait = |command: &&String| command.starts_with("WAIT");
    server.knows(|state| state.seen.iter().filter(is_wait).cloned().collect())
}

#[tokio::test]
async fn a_grant_counts_once_the_replicas_have_it() {
    let server = Server::default();
    let node = of(&server);
    let refused = reason(take(&node).await);
    assert_eq!(&*refused, "2 replicas asked for, 0 have it");
    server.knows(|state| state.replicas = 2);
    assert_eq!(take(&node).await, Ok(Acquired::Granted(0)));
    // The first is whether it may be asked for at all; a third of five seconds.
    assert_eq!(waits(&server), ["WAIT 0 1", "WAIT 2 1666", "WAIT 2 1666"]);
}

/// Then nothing was written now, and a server says of nothing that all replicas have it.
#[tokio::test]
async fn what_was_granted_before_does_not_count() {
    let server = Server::default();
    server.knows(|state| (state.has_granted, state.replicas) = (true, 2));
    let refused = reason(take(&of(&server)).await);
    assert_eq!(
        &*refused,
        "it had granted this before, and its replicas may not have it"
    );
    assert_eq!(waits(&server).len(), 1);
    let without = server.node(RedisConnectionInfo::default());
    assert_eq!(take(&without).await, Ok(Acquired::Granted(0)));
}

#[tokio::test]
async fn a_server_that_says_that_it_is_a_replica_is_asked_again_who_it_is() {
    let server = Server::default();
    let node = of(&server);
    server.knows(|state| state.replicas = 2);
    assert_eq!(take(&node).await, Ok(Acquired::Granted(0)));
    server.knows(|state| state.is_replica = true);
    assert!(reason(take(&node).await).starts_with("READONLY"));
    server
        .eventually("another connection", |state| {
            let asked = state
                .seen
                .iter()
                .filter(|command| *command == "INFO replication");
            asked.count() > 1
        })
        .await;
}
