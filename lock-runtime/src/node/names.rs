//! From the name of a host to its addresses, as the system knows them.
//!
//! The system is asked on a thread that waits, for as long as the system likes: nothing can end that. Connections are tried again
//! and again meanwhile, so whoever wants a name that is being looked up joins those who wait for it. However long it takes, there
//! is one thread for a name.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::lookup_host;
use tokio::sync::watch;

use super::trouble::{DownCause, Trouble};

/// The names that a manager has looked up.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// What is being looked up now.
    asked: Mutex<HashMap<String, watch::Receiver<Answer>>>,
}

/// `None`: there is none yet.
type Answer = Option<Result<Arc<[IpAddr]>, Trouble>>;

impl Names {
    /// Where a host is. Cancel-safe: the look-up goes on, and the next one who asks gets its answer.
    ///
    /// # Errors
    ///
    /// In words for an operator.
    pub(super) async fn addresses(
        self: &Arc<Self>,
        host: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, Trouble> {
        let at = |address: &IpAddr| SocketAddr::new(*address, port);
        if let Ok(address) = host.parse() {
            return Ok(vec![at(&address)]);
        }
        let look_up = async |host: String| {
            let found = lookup_host((host, 0)).await?;
            Ok(found.map(|found| found.ip()).collect())
        };
        let addresses = self.joined(host, look_up).await?;
        Ok(addresses.iter().map(at).collect())
    }

    async fn joined<F>(
        self: &Arc<Self>,
        host: &str,
        look_up: impl FnOnce(String) -> F,
    ) -> Result<Arc<[IpAddr]>, Trouble>
    where
        F: Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static,
    {
        let known = self.asked().get(host).cloned();
        let mut answer = known.unwrap_or_else(|| {
            let (answered, answer) = watch::channel(None);
            self.asked().insert(host.to_owned(), answer.clone());
            let asked = Asked {
                names: Arc::clone(self),
                host: host.to_owned(),
            };
            let found = look_up(host.to_owned());
            tokio::spawn(async move {
                let found = found.await;
                drop(asked);
                answered.send_replace(Some(in_words(found)));
            });
            answer
        });
        match answer.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(found)) => found.clone(),
            Ok(None) | Err(_) => Err("its host's name was not looked up to the end".into()),
        }
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<String, watch::Receiver<Answer>>> {
        // A panic elsewhere cannot have left it half written: nothing in between can panic.
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A look-up, until it ends in whichever way.
struct Asked {
    names: Arc<Names>,
    host: String,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.names.asked().remove(&self.host);
    }
}

fn in_words(found: io::Result<Vec<IpAddr>>) -> Result<Arc<[IpAddr]>, Trouble> {
    match found {
        Ok(addresses) if addresses.is_empty() => {
            Err(DownCause::UnknownHost.because("no connection: its host has no address"))
        }
        Ok(addresses) => Ok(addresses.into()),
        Err(error) => Err(DownCause::UnknownHost.because(format!("no connection: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use futures_util::FutureExt;
    use tokio::sync::oneshot;
    use tokio::time::timeout;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[tokio::test]
    async fn an_address_is_asked_of_nobody() {
        let names = Arc::new(Names::default());
        for (host, address) in [("127.0.0.1", "127.0.0.1:7"), ("::1", "[::1]:7")] {
            let found = names.addresses(host, 7).now_or_never();
            let found = found.expect("at once").expect("it is one");
            assert_eq!(found, [address.parse().expect("an address")]);
        }
    }

    #[tokio::test]
    async fn a_name_is_looked_up() {
        let names = Arc::new(Names::default());
        let found = names.addresses("localhost", 7).await.expect("everybody's");
        assert!(found.iter().all(|at| at.ip().is_loopback()), "{found:?}");
        let unknown = names.addresses("no-such-host.invalid", 7).await;
        let unknown = unknown.expect_err("there is none by that name");
        assert_eq!(unknown.cause, DownCause::UnknownHost);
        assert!(names.asked().is_empty());
    }

    /// However often it is given up and asked for again.
    #[tokio::test(start_paused = true)]
    async fn a_name_that_hangs_is_looked_up_once() {
        let names = Arc::new(Names::default());
        let begun = Arc::new(AtomicUsize::new(0));
        let (answer, hangs) = oneshot::channel::<Vec<IpAddr>>();
        let hangs = hangs.shared();
        let look_up = || {
            let (begun, hangs) = (Arc::clone(&begun), hangs.clone());
            async move |_: String| {
                begun.fetch_add(1, Ordering::SeqCst);
                hangs.await.map_err(|_| io::ErrorKind::Other.into())
            }
        };
        for _ in 0..1000 {
            let patience = Duration::from_millis(500);
            let given_up = timeout(patience, names.joined("a", look_up())).await;
            given_up.expect_err("it hangs");
        }
        assert_eq!(begun.load(Ordering::SeqCst), 1);
        let other = names.joined("b", async |_: String| Ok(vec![HERE])).await;
        assert_eq!(&*other.expect("nobody waits for another"), [HERE]);

        answer.send(vec![HERE]).expect("it is waited for");
        assert_eq!(&*names.joined("a", look_up()).await.expect("found"), [HERE]);
        assert!(names.asked().is_empty(), "what is over is forgotten");
        names.joined("a", look_up()).await.expect("found");
        assert_eq!(begun.load(Ordering::SeqCst), 2, "nothing is remembered");
    }

    #[tokio::test]
    async fn a_look_up_that_panics_is_begun_again() {
        let names = Arc::new(Names::default());
        let panics = names.joined("a", async |_: String| panic!("on purpose"));
        panics.await.expect_err("nothing was found");
        let found = names.joined("a", async |_: String| Ok(vec![HERE])).await;
        assert_eq!(&*found.expect("found"), [HERE]);
    }
}
