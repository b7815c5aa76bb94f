//! What is measured, in the words of Prometheus: what the library says of its locks, and how requests are answered.

use std::time::{Duration, Instant};

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use metrics::{Unit, counter, describe_counter, describe_histogram, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::time::{MissedTickBehavior, interval};

const REQUESTS: &str = "payments_requests_total";
const REQUEST_TIME: &str = "payments_request_seconds";

/// As docs/telemetry.md recommends.
const WAITS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];
const HOLDS: &[f64] = &[
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0,
];
const ROUND_TRIPS: &[f64] = &[
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
];
const RATIOS: &[f64] = &[
    0.05, 0.1, 0.2, 0.33, 0.5, 0.66, 0.8, 0.9, 1.0, 2.0, 5.0, 10.0, 100.0,
];

/// What the recorder keeps of a histogram until somebody asks is put into its buckets so often, also where nobody asks.
const UPKEEP: Duration = Duration::from_secs(5);

/// Everything that is measured from here on is kept for [`PrometheusHandle::render`].
pub(crate) fn install() -> Result<PrometheusHandle, BuildError> {
    let buckets = [
        ("lock_wait_seconds", WAITS),
        ("lock_hold_seconds", HOLDS),
        ("lock_node_round_trip_seconds", ROUND_TRIPS),
        ("lock_hold_ratio", RATIOS),
        (REQUEST_TIME, WAITS),
    ];
    let builder =
        buckets
            .iter()
            .try_fold(PrometheusBuilder::new(), |builder, (name, buckets)| {
                builder.set_buckets_for_metric(Matcher::Full((*name).to_owned()), buckets)
            })?;
    let measured = builder.install_recorder()?;
    describe_counter!(REQUESTS, "Requests of customers, by how they were answered");
    describe_histogram!(REQUEST_TIME, Unit::Seconds, "How long that took");
    Ok(measured)
}

pub(crate) async fn keep_up(measured: PrometheusHandle) {
    let mut ticks = interval(UPKEEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        measured.run_upkeep();
    }
}

/// Not of requests whose clients hang up first: they get no answer.
pub(crate) async fn answered(request: Request, next: Next) -> Response {
    let asked = Instant::now();
    let response = next.run(request).await;
    let status = response.status().as_str().to_owned();
    counter!(REQUESTS, "status" => status.clone()).increment(1);
    histogram!(REQUEST_TIME, "status" => status).record(asked.elapsed());
    response
}
