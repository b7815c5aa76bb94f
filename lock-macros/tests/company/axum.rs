//! Handlers of axum, behind a real router.
// For what `debug_handler` generates.
#![allow(clippy::diverging_sub_expression, clippy::unused_async)]

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, debug_handler};
use lock_runtime::distributed_lock;
use tower::ServiceExt;

use crate::{LockError, LockManager, Outcome, holds};

#[derive(Clone)]
struct App {
    locks: LockManager,
}

/// An error of the service's own, as services have one.
enum Failure {
    Lock(LockError),
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Self::Lock(error) = self;
        error.into_response()
    }
}

#[distributed_lock(key = "order:{id}", ttl = "8s", manager = app.locks)]
async fn plain(Path(id): Path<u64>, State(app): State<App>) -> Result<String, Failure> {
    holds("order:7");
    Ok(id.to_string())
}

#[distributed_lock(key = "order:{id}", ttl = "8s", manager = app.locks)]
#[debug_handler(state = App)]
async fn above_debug(
    Path(id): Path<u64>,
    State(app): State<App>,
) -> Result<impl IntoResponse, Failure> {
    holds("order:7");
    Ok(id.to_string())
}

#[debug_handler(state = App)]
#[distributed_lock(key = "order:{id}", ttl = "8s", manager = app.locks)]
async fn below_debug(
    Path(id): Path<u64>,
    State(app): State<App>,
) -> Result<impl IntoResponse, Failure> {
    holds("order:7");
    Ok(id.to_string())
}

/// The return type hides a `Result`.
#[distributed_lock(key = "order:{id}", ttl = "8s", manager = app.locks)]
async fn hidden(Path(id): Path<u64>, State(app): State<App>) -> impl IntoResponse {
    holds("order:7");
    if id == 0 {
        return Err(Failure::from(
            lock_runtime::installed().expect_err("there is none"),
        ));
    }
    Ok((StatusCode::OK, id.to_string()))
}

#[distributed_lock(key = "order:{id}", ttl = "8s", manager = app.locks)]
async fn response(Path(id): Path<u64>, State(app): State<App>) -> Response {
    holds("order:7");
    id.to_string().into_response()
}

#[distributed_lock(key = "order:{id}", ttl = "8s", manager = app.locks)]
async fn of_two_segments(
    Path((id, name)): Path<(u64, String)>,
    State(app): State<App>,
    Json(mut lines): Json<Vec<u64>>,
) -> Result<Json<Vec<u64>>, LockError> {
    holds("order:7");
    assert_eq!(name, "seven");
    lines.push(id);
    Ok(Json(lines))
}

fn router(app: App) -> Router {
    Router::new()
        .route("/plain/{id}", get(plain))
        .route("/above/{id}", get(above_debug))
        .route("/below/{id}", get(below_debug))
        .route("/hidden/{id}", get(hidden))
        .route("/response/{id}", get(response))
        .route("/two/{id}/{name}", post(of_two_segments))
        .with_state(app)
}

async fn answer(router: &Router, request: Request<Body>) -> (StatusCode, String) {
    let Ok(response) = router.clone().oneshot(request).await;
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), 1024).await;
    let body = body.expect("a short body");
    (status, String::from_utf8_lossy(&body).into_owned())
}

async fn get_from(router: &Router, path: &str) -> (StatusCode, String) {
    let request = Request::get(path).body(Body::empty());
    answer(router, request.expect("a request")).await
}

const HANDLERS: [&str; 5] = ["plain", "above", "below", "hidden", "response"];

#[tokio::test]
async fn handlers_answer_under_their_lock() {
    let locks = LockManager::in_memory();
    let router = router(App {
        locks: locks.clone(),
    });
    for handler in HANDLERS {
        let (status, body) = get_from(&router, &format!("/{handler}/7")).await;
        assert_eq!((status, &*body), (StatusCode::OK, "7"), "{handler}");
    }
    assert_eq!(locks.stats().acquired, HANDLERS.len() as u64);
}

#[tokio::test]
async fn a_busy_lock_is_an_answer_too() -> Outcome<()> {
    let locks = LockManager::in_memory();
    let router = router(App {
        locks: locks.clone(),
    });
    let request = locks.lock("order:7").ttl(std::time::Duration::from_secs(8));
    let _lease = request.acquire().await?;
    for handler in HANDLERS {
        let (status, _) = get_from(&router, &format!("/{handler}/7")).await;
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{handler}");
    }
    Ok(())
}

#[tokio::test]
async fn extractors_in_patterns() {
    let router = router(App {
        locks: LockManager::in_memory(),
    });
    let request = Request::post("/two/7/seven")
        .header("content-type", "application/json")
        .body(Body::from("[1,2]"))
        .expect("a request");
    let answered = answer(&router, request).await;
    assert_eq!(answered, (StatusCode::OK, "[1,2,7]".to_owned()));
}
