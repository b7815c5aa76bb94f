//! Three processes of the example `cron` over five servers, with a tick every second, and what happens to one of them in the
//! middle of its job: each tick that can be run is run exactly once, and nobody goes on with a job that another has.

mod all_three;
mod crashes;
mod killed;
mod late;
mod paused;
mod told_to_stop;

use lock_tests::cron::Ended;

/// A job that is in hand for most of a period: time enough to do something to its process.
const JOB: [&str; 2] = ["--job", "800ms"];

/// A lock that ends between two ticks, so that it is clear which is the first after it; never renewed by such a job.
const TTL: [&str; 2] = ["--ttl", "2500ms"];

/// It ended by itself, with its summary, and its exit code says whether there was a tick that it could not decide.
#[track_caller]
fn assert_orderly(ended: &Ended) {
    assert!(ended.summary().is_some(), "{ended:#?}");
    let code = i32::from(!ended.logged("ERROR").is_empty());
    assert_eq!(ended.code, Some(code), "{ended:#?}");
}
