//! Makes connections with the certificates that there are at the time.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::Tls;
use super::files::{Material, system_roots};
use super::words;
use crate::node::trouble::{DownCause, Trouble};

/// A connection over which TLS is spoken. Boxed, as it is large.
pub(in crate::node) type Stream = Box<TlsStream<TcpStream>>;

/// What a [`Tls`] says, read and understood.
pub(crate) struct Connector {
    tls: Tls,
    /// Where no CA is given.
    system: Option<Arc<RootCertStore>>,
    good: Mutex<Good>,
    reading: OneAtATime,
}

/// The last certificates that could be used.
struct Good {
    configuration: Arc<ClientConfig>,
    made_from: u64,
    /// What is wrong with those that are there now, if they are others.
    trouble: Option<String>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tls.fmt(f)
    }
}

impl Connector {
    /// Reads everything that is given.
    ///
    /// # Errors
    ///
    /// What cannot be read or used, in words without anything of its contents.
    pub(crate) fn open(tls: Tls) -> Result<Arc<Self>, String> {
        let system = match tls.ca {
            Some(_) => None,
            None => Some(system_roots()?),
        };
        let material = Material::read(&tls)?;
        let good = Good {
            configuration: material.configuration(system.as_ref())?,
            made_from: material.fingerprint(),
            trouble: None,
        };
        drop(material);
        Ok(Arc::new(Self {
            tls,
            system,
            good: Mutex::new(good),
            reading: OneAtATime::default(),
        }))
    }

    /// Whether it is what these settings became.
    pub(crate) fn is_of(&self, tls: &Tls) -> bool {
        self.tls == *tls
    }

    /// Whether certificates can name this host.
    pub(crate) fn can_verify(host: &str) -> bool {
        ServerName::try_from(host).is_ok()
    }

    /// Reading certificates may take as long as the handshake that follows.
    pub(in crate::node) async fn handshake(
        self: &Arc<Self>,
        stream: TcpStream,
        host: &str,
        patience: Duration,
    ) -> Result<Stream, Trouble> {
        let Ok(name) = ServerName::try_from(host.to_owned()) else {
            return Err("its host is no name that a certificate could have".into());
        };
        self.look_again(patience).await;
        let connector = TlsConnector::from(Arc::clone(&self.good().configuration));
        match timeout(patience, connector.connect(name, stream)).await {
            Ok(Ok(stream)) => Ok(Box::new(stream)),
            Ok(Err(error)) => Err(words::broken(&error)),
            // Redis waits for the end of a line, and has no idea that it is being greeted.
            Err(_) => Err(DownCause::PortIsPlain.because(format!(
                "no answer to the TLS handshake in {patience:.0?}: it hangs, or the port is one without TLS"
            ))),
        }
    }

    /// Where files are slow, as those of a network may be, the last ones that were read are good enough.
    async fn look_again(self: &Arc<Self>, patience: Duration) {
        if !self.tls.has_files() {
            return;
        }
        let this = Arc::clone(self);
        let read = self.reading.run(move || this.read_again());
        if timeout(patience, read).await.is_err() {
            self.warn_once(&format!("they cannot be read in {patience:.0?}"));
        }
    }

    fn read_again(&self) {
        let read = Material::read(&self.tls).and_then(|material| {
            let made_from = material.fingerprint();
            if made_from == self.good().made_from {
                return Ok(None);
            }
            let configuration = material.configuration(self.system.as_ref())?;
            Ok(Some((made_from, configuration)))
        });
        match read {
            Ok(None) => self.good().trouble = None,
            Ok(Some((made_from, configuration))) => {
                *self.good() = Good {
                    configuration,
                    made_from,
                    trouble: None,
                };
                tracing::info!(tls = ?self.tls, "certificates were renewed");
            }
            Err(reason) => self.warn_once(&reason),
        }
    }

    fn warn_once(&self, reason: &str) {
        let before = self.good().trouble.replace(reason.to_owned());
        if before.as_deref() != Some(reason) {
            tracing::warn!(
                %reason,
                "certificates cannot be read again: the last good ones stay in use"
            );
        }
    }

    fn good(&self) -> MutexGuard<'_, Good> {
        self.good.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Work on a thread that may block. However many wait for it, and however many have given up waiting, there is one at a time.
#[derive(Default)]
struct OneAtATime(sync::Mutex<Option<JoinHandle<()>>>);

impl OneAtATime {
    /// Waits for work that began earlier, if that has not ended, instead of beginning another.
    async fn run(&self, work: impl FnOnce() + Send + 'static) {
        let mut running = self.0.lock().await;
        let work = running.get_or_insert_with(|| spawn_blocking(work));
        // Whether it ended or panicked, there is nothing more to wait for.
        let _ = work.await;
        *running = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn names_and_addresses_can_be_verified() {
        for host in ["host", "node-1.example_x.org", "node.", "10.0.0.1", "::1"] {
            assert!(Connector::can_verify(host), "{host}");
        }
        for host in ["", "-", "a..b", "1.2.3", "h,i"] {
            assert!(!Connector::can_verify(host), "{host}");
        }
    }

    #[tokio::test]
    async fn work_that_hangs_is_not_begun_again_and_not_waited_for() {
        let works = OneAtATime::default();
        let begun = Arc::new(AtomicUsize::new(0));
        let (go_on, told) = mpsc::channel::<()>();
        let told = Arc::new(Mutex::new(told));
        let work = || {
            let (begun, told) = (Arc::clone(&begun), Arc::clone(&told));
            move || {
                begun.fetch_add(1, Ordering::SeqCst);
                let told = told.lock().unwrap_or_else(PoisonError::into_inner);
                // It ends with its sender, too.
                let _ = told.recv();
            }
        };
        for _ in 0..3 {
            let waited = timeout(Duration::from_millis(20), works.run(work())).await;
            assert!(waited.is_err(), "it hangs");
        }
        go_on.send(()).expect("it listens");
        works.run(work()).await;
        assert!(begun.load(Ordering::SeqCst) <= 1);
        drop(go_on);
        works.run(work()).await;
        assert_eq!(begun.load(Ordering::SeqCst), 2);
    }
}
