//! Wall clocks that differ.

use super::*;
use crate::node::facts::Reading;

#[test]
fn clocks_are_compared_at_one_moment_and_as_well_as_they_are_known() {
    let now = Instant::now();
    let secs = Duration::from_secs;
    // Each was asked at another moment, which is no difference of clocks.
    let clock = |asked_before: u64, ahead: i64, uncertain: u64| {
        let said = (DAY.as_secs() - asked_before).checked_add_signed(ahead);
        changed(|facts| {
            facts.clock = Some(Reading {
                at: now.checked_sub(secs(asked_before)).expect("in range"),
                said: secs(said.expect("in range")),
                uncertain: secs(uncertain),
            });
        })
    };
    let look = |clocks: Vec<Found>| Deployment {
        own_clock: (now, DAY),
        ..deployment(clocks)
    };
    let apart = |by, ahead| FindingKind::ClockApart {
        by: secs(by),
        ahead,
    };

    assert_eq!(
        of(&look(vec![clock(0, 0, 0), clock(3, 1, 0), clock(7, -1, 0)])),
        []
    );
    for (ahead, expected) in [(30, apart(30, true)), (-30, apart(30, false))] {
        let found = only(&look(vec![
            clock(5, ahead, 0),
            clock(0, 0, 0),
            clock(2, 0, 0),
        ]));
        assert_eq!(
            found,
            (Severity::Warning, expected, vec!["node-1:6379".to_owned()])
        );
        let unsure = look(vec![clock(5, ahead, 30), clock(0, 0, 0), clock(2, 0, 0)]);
        assert_eq!(of(&unsure), [], "the answer was on its way for too long");
    }
    let two = of(&look(vec![clock(0, 0, 0), clock(0, 30, 0)]));
    assert!(
        two.iter().any(|finding| finding.kind == apart(30, false)),
        "{two:?}"
    );

    let ours = only(&look(vec![
        clock(0, -30, 0),
        clock(0, -30, 0),
        clock(0, -30, 0),
    ]));
    let by = secs(30);
    assert_eq!(
        ours,
        (
            Severity::Note,
            FindingKind::OwnClockApart { by, ahead: true },
            vec![]
        )
    );
}
