//! A web service that sells from a stock, and needs no database transaction for it: one lock per product.

mod http;
mod measure;
mod shop;
mod store;

use std::error::Error;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use lexopt::prelude::*;
use lock_examples::{has_lock_nodes, locks, log_to_stderr, options, stop_signal};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use http::Service;
use shop::Shop;
use store::Store;

const HELP: &str = "\
A web service that sells product 9921 from a stock. Start several on one database: the locks keep the stock right.

Usage: payments [OPTIONS]
       LOCK_NODES=redis://…,redis://… payments [OPTIONS]

  --listen ADDRESS  where to listen; port 0 takes a free one [default: 127.0.0.1:8081]
  --stock N         how much of product 9921 there is, if the database does not know it yet [default: 50]
  --database PATH   the SQLite file, created if missing [default: payments.db]
  --help            this text

POST /v1/checkout {\"product_id\": 9921, \"user_id\": 7}
                  200 sold · 404 no such product · 409 sold out · 429 busy, with Retry-After · 503 no lock service
GET /v1/products/9921
                  {\"stock\": 49, \"sold\": 1}
GET /ready        200 when a majority of the lock nodes answers, else 503
GET /live         200 as long as the process answers
GET /metrics      for Prometheus: what becomes of locks and of requests

Environment: DATABASE_URL=postgres://… uses PostgreSQL, unless --database is given. LOCK_NODES lists the Redis servers to
lock on; without it the locks are embedded, and only good for a single process. With it LOCK_PREFIX is put before every key,
LOCK_HOLDER names this process to whoever looks for a lock's holder, and LOCK_NODE_TIMEOUT_MS is how long a node may take to
answer. It is this example that reads them all, and not the library.

Standard output has one line, 'listening on 127.0.0.1:8081'. On SIGTERM and Ctrl-C it answers the open requests and
stops: after 23 seconds at the latest, and then with no lock held. What is asked meanwhile is 503, except for /live and /metrics.
";

/// How long the open requests have to be answered, and then the checkouts to end: together less than the 30 seconds after
/// which Kubernetes kills (`terminationGracePeriodSeconds`).
const GRACE: Duration = Duration::from_secs(10);

/// How long the database's connections have to be given back. One that is asked something and does not answer, as it hangs
/// itself, would keep the process for ever.
const LEAVE: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> ExitCode {
    let options = match options(HELP, Options::parse) {
        Ok(options) => options,
        Err(code) => return code.into(),
    };
    log_to_stderr();
    match serve(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(options: Options) -> Result<(), Box<dyn Error>> {
    let Options {
        listen,
        stock,
        database,
    } = options;
    let measured = measure::install()?;
    tokio::spawn(measure::keep_up(measured.clone()));
    if !has_lock_nodes() {
        tracing::warn!("without LOCK_NODES, stock is only right while this is the only process");
    }
    let locks = locks()?;
    let store = open_store(&database, stock)
        .await
        .map_err(|error| format!("the database cannot be used: {error}"))?;
    let stopped = stop_signal()?;
    let listener = TcpListener::bind(listen)
        .await
        .map_err(|error| format!("cannot listen on {listen}: {error}"))?;
    writeln!(io::stdout(), "listening on {}", listener.local_addr()?)?;
    let [open, closing] = twice(listener)?;

    let shop = Arc::new(Shop { locks, store });
    let checkouts = TaskTracker::new();
    let service = Service {
        shop: Arc::clone(&shop),
        checkouts: checkouts.clone(),
    };
    let stopping = CancellationToken::new();
    let serving = axum::serve(open, http::routes(service, measured.clone()))
        .with_graceful_shutdown(stopping.clone().cancelled_owned());
    // Until the process ends: what it does last is seen, and who comes late is told.
    let ending = stopping.clone();
    tokio::spawn(async move {
        ending.cancelled().await;
        axum::serve(closing, http::closing(measured)).await
    });
    let told = async {
        stopped.await;
        stopping.cancel();
        // A client that neither sends nor hangs up does not keep it.
        sleep(GRACE).await;
    };
    tokio::select! {
        served = serving => served?,
        () = told => tracing::warn!("some requests were not answered"),
    }
    // Those whose clients have hung up, also where they still wait for their lock.
    checkouts.close();
    let _ = timeout(GRACE, checkouts.wait()).await;
    let shutdown = shop.locks.shutdown(Duration::ZERO).await;
    if shutdown.stopped > 0 {
        tracing::error!("{} checkouts were cut off", shutdown.stopped);
    }
    if timeout(LEAVE, shop.store.close()).await.is_err() {
        tracing::warn!("the database still owes answers");
    }
    Ok(())
}

/// The same socket for two servers, of which one takes over from the other.
fn twice(listener: TcpListener) -> io::Result<[TcpListener; 2]> {
    let one = listener.into_std()?;
    let other = one.try_clone()?;
    Ok([TcpListener::from_std(one)?, TcpListener::from_std(other)?])
}

async fn open_store(database: &Database, stock: u32) -> sqlx::Result<Store> {
    let store = match database {
        Database::File(path) => Store::sqlite(path).await?,
        Database::Postgres(url) => Store::postgres(url).await?,
    };
    store.set_up(stock).await?;
    Ok(store)
}

/// What the command line and the environment say.
struct Options {
    listen: SocketAddr,
    stock: u32,
    database: Database,
}

enum Database {
    File(PathBuf),
    Postgres(String),
}

impl Options {
    fn parse(mut parser: lexopt::Parser) -> Result<Option<Self>, lexopt::Error> {
        let (mut listen, mut stock, mut file) =
            (SocketAddr::from(([127, 0, 0, 1], 8081)), 50, None);
        while let Some(argument) = parser.next()? {
            match argument {
                Long("listen") => listen = parser.value()?.parse()?,
                Long("stock") => stock = parser.value()?.parse()?,
                Long("database") => file = Some(parser.value()?.into()),
                Long("help") => return Ok(None),
                other => return Err(other.unexpected()),
            }
        }
        let database = match (file, std::env::var("DATABASE_URL")) {
            (Some(file), _) => Database::File(file),
            (None, Err(std::env::VarError::NotPresent)) => Database::File("payments.db".into()),
            (None, Ok(url))
                if url.starts_with("postgres://") || url.starts_with("postgresql://") =>
            {
                Database::Postgres(url)
            }
            // It is not shown: there may be a password in it.
            (None, _) => return Err("DATABASE_URL must start with postgres://".into()),
        };
        Ok(Some(Self {
            listen,
            stock,
            database,
        }))
    }
}
