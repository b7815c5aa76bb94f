//! The record of who was inside.

use crate::{child, failure};
use lock_tests::Recorder;
use lock_tests::processes::Peer;
use lock_tests::recorder::{Act, Overlap};

#[test]
fn finds_overlaps_and_only_those() {
    let recorder = Recorder::new();
    for owner in ["a", "b", "a"] {
        recorder.enter("quiet", owner).step("works");
    }
    assert_eq!(recorder.assert_exclusive("quiet"), 3);
    assert_eq!(
        (recorder.max_inside("quiet"), recorder.late_steps("quiet")),
        (1, vec![])
    );

    let first = recorder.enter("busy", "a");
    let second = recorder.enter("busy", "b");
    first.step("too late");
    second.step("in time");
    assert_eq!(recorder.inside("busy"), ["a", "b"]);
    drop(first);
    drop(recorder.enter("busy", "b"));
    drop(second);
    let overlap = |entered: &str, inside: &[&str]| Overlap {
        entered: entered.to_owned(),
        inside: inside.iter().map(ToString::to_string).collect(),
    };
    assert_eq!(
        recorder.overlaps("busy"),
        [overlap("b", &["a"]), overlap("b", &["b"])]
    );
    assert_eq!(recorder.max_inside("busy"), 2);
    let late: Vec<Act> = recorder
        .late_steps("busy")
        .into_iter()
        .map(|event| event.act)
        .collect();
    assert_eq!(late, [Act::Step("too late".to_owned())]);
    let message = failure(|| recorder.assert_exclusive("busy"));
    assert!(
        message.contains("more than one inside") && message.contains("a step too late"),
        "{message}"
    );
    assert!(failure(|| recorder.assert_exclusive("empty")).contains("nobody was ever inside"));
}

#[test]
fn sees_a_body_end_by_a_panic() {
    let recorder = Recorder::new();
    failure(|| {
        let _inside = recorder.enter("job", "a");
        panic!("{}", "the body fails");
    });
    assert_eq!(recorder.inside("job"), Vec::<String>::new());
}

#[tokio::test]
async fn orders_what_several_processes_do() {
    let recorder = Recorder::new();
    let record = recorder.path().display().to_string();
    let visit = |owner| Peer::start(child(&["visit", &record, "job", owner]));
    let mut first = visit("first");
    first.expect("inside").await;
    let mut second = visit("second");
    second.expect("inside").await;
    first.say("leave");
    first.expect("outside").await;
    assert_eq!(recorder.inside("job"), ["second"]);
    second.kill();
    recorder.gone("job", "second");
    assert_eq!(recorder.inside("job"), Vec::<String>::new());
    assert_eq!(
        (recorder.entries("job"), recorder.max_inside("job")),
        (2, 2)
    );
    assert_eq!(recorder.late_steps("job").len(), 1);
}
