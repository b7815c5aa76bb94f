//! The shop on the web.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use metrics_exporter_prometheus::PrometheusHandle;
use serde::{Deserialize, Serialize};
use tokio_util::task::TaskTracker;

use crate::measure;
use crate::shop::{Refusal, Shop};

#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) shop: Arc<Shop>,
    /// The checkouts that are under way.
    pub(crate) checkouts: TaskTracker,
}

pub(crate) fn routes(service: Service, measured: PrometheusHandle) -> Router {
    Router::new()
        .route("/v1/checkout", post(checkout))
        .route("/v1/products/{id}", get(product))
        .route_layer(from_fn(measure::answered))
        .route("/ready", get(ready))
        .with_state(service)
        .merge(observed(measured))
}

/// What remains while the service ends.
pub(crate) fn closing(measured: PrometheusHandle) -> Router {
    observed(measured).fallback(async || (StatusCode::SERVICE_UNAVAILABLE, "the service ends\n"))
}

/// What needs neither a lock node nor the database.
fn observed(measured: PrometheusHandle) -> Router {
    Router::new()
        .route("/live", get(live))
        .route("/metrics", get(metrics))
        .with_state(measured)
}

#[derive(Deserialize)]
struct Order {
    product_id: i64,
    user_id: i64,
}

#[derive(Serialize)]
struct Receipt {
    product_id: i64,
    user_id: i64,
    stock: i64,
}

#[derive(Serialize)]
struct Product {
    stock: i64,
    sold: i64,
}

/// A task of its own, as axum drops the handler when the client hangs up: the stock would be written and the sale not.
async fn checkout(
    State(service): State<Service>,
    Json(Order {
        product_id,
        user_id,
    }): Json<Order>,
) -> Result<Json<Receipt>, Response> {
    let shop = service.shop;
    let checkout = async move { shop.checkout(product_id, user_id).await };
    match service.checkouts.spawn(checkout).await {
        Ok(Ok(stock)) => Ok(Json(Receipt {
            product_id,
            user_id,
            stock,
        })),
        Ok(Err(refusal)) => Err(refusal.into_response()),
        Err(error) => {
            tracing::error!(%error, "checkout did not end");
            Err(StatusCode::INTERNAL_SERVER_ERROR.into_response())
        }
    }
}

async fn product(
    State(service): State<Service>,
    Path(id): Path<i64>,
) -> Result<Json<Product>, Refusal> {
    let store = &service.shop.store;
    let stock = store.stock(id).await?.ok_or(Refusal::NoSuchProduct)?;
    let sold = store.sold(id).await?;
    Ok(Json(Product { stock, sold }))
}

async fn ready(State(service): State<Service>) -> (StatusCode, &'static str) {
    if service.shop.locks.ready().await {
        (StatusCode::OK, "ready\n")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "too few lock nodes answer\n",
        )
    }
}

/// Whoever is restarted while the lock nodes or the database are down is no better afterwards.
async fn live() -> &'static str {
    "live\n"
}

async fn metrics(State(measured): State<PrometheusHandle>) -> impl IntoResponse {
    let format = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, format)], measured.render())
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::NoSuchProduct => (StatusCode::NOT_FOUND, "no such product\n").into_response(),
            Self::SoldOut => (StatusCode::CONFLICT, "sold out\n").into_response(),
            Self::Lock(error) => error.into_response(),
            Self::Database(error) => {
                tracing::error!(%error, "database");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}
