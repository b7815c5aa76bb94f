//! Counting votes. Pure: it knows neither time nor Redis.

/// How many of `nodes` make a majority. Counted from the configured nodes, never from those that happen to answer.
pub(crate) const fn quorum(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// What one node said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ballot<O> {
    /// The lock is ours there.
    Granted,
    /// The lock is somebody else's there.
    Held(O),
    /// Nobody has the lock there (the answer to a look, which takes nothing).
    Free,
    /// No usable answer.
    Failed,
}

/// What the votes amount to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision<O> {
    /// A majority granted.
    Granted,
    /// This owner has a majority.
    Busy(O),
    /// Too few nodes answered for anybody to have a majority.
    NoQuorum,
    /// Enough nodes answered, and nobody has a majority.
    Split,
}

/// The votes on one request.
#[derive(Debug)]
pub(crate) struct Tally<O> {
    ballots: Vec<Option<Ballot<O>>>,
}

impl<O: PartialEq + Clone> Tally<O> {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            ballots: std::iter::repeat_with(|| None).take(nodes).collect(),
        }
    }

    pub(crate) fn record(&mut self, node: usize, ballot: Ballot<O>) {
        if let Some(slot) = self.ballots.get_mut(node) {
            *slot = Some(ballot);
        }
    }

    /// Takes a node's vote back: it is about to be asked again.
    pub(crate) fn forget(&mut self, node: usize) {
        if let Some(slot) = self.ballots.get_mut(node) {
            *slot = None;
        }
    }

    pub(crate) fn ballot(&self, node: usize) -> Option<&Ballot<O>> {
        self.ballots.get(node)?.as_ref()
    }

    /// The nodes that said `ballot`, by position.
    pub(crate) fn nodes_saying<'a>(
        &'a self,
        ballot: &'a Ballot<O>,
    ) -> impl Iterator<Item = usize> + 'a {
        (0..self.ballots.len()).filter(move |&node| self.ballot(node) == Some(ballot))
    }

    /// The decision, as soon as no answer still to come can change it.
    pub(crate) fn decide(&self) -> Option<Decision<O>> {
        let nodes = self.ballots.len();
        let needed = quorum(nodes);
        let count = |wanted: &Ballot<O>| self.nodes_saying(wanted).count();

        let granted = count(&Ballot::Granted);
        if granted >= needed {
            return Some(Decision::Granted);
        }
        let (rival, rival_votes) = self.strongest_rival();
        if let Some(rival) = rival
            && rival_votes >= needed
        {
            return Some(Decision::Busy(rival.clone()));
        }
        let failed = count(&Ballot::Failed);
        if nodes - failed < needed {
            return Some(Decision::NoQuorum);
        }
        let pending = self.ballots.iter().filter(|vote| vote.is_none()).count();
        // Busy, split and no quorum are answered differently, so what may still become one of the others is waited for.
        let may_be_won = granted.max(rival_votes) + pending >= needed;
        let may_be_lost = nodes - failed - pending < needed;
        (pending == 0 || !(may_be_won || may_be_lost)).then_some(Decision::Split)
    }

    fn strongest_rival(&self) -> (Option<&O>, usize) {
        let owners = || {
            self.ballots.iter().filter_map(|vote| match vote {
                Some(Ballot::Held(owner)) => Some(owner),
                _ => None,
            })
        };
        owners()
            .map(|owner| {
                (
                    Some(owner),
                    owners().filter(|&other| other == owner).count(),
                )
            })
            .max_by_key(|&(_, votes)| votes)
            .unwrap_or((None, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(votes: &str) -> Tally<char> {
        let mut tally = Tally::new(votes.len());
        for (node, vote) in votes.chars().enumerate() {
            match vote {
                '?' => {}
                '+' => tally.record(node, Ballot::Granted),
                'x' => tally.record(node, Ballot::Failed),
                '0' => tally.record(node, Ballot::Free),
                owner => tally.record(node, Ballot::Held(owner)),
            }
        }
        tally
    }

    #[test]
    fn a_majority_of_the_configured_nodes() {
        let majorities: Vec<_> = (1..=9).map(quorum).collect();
        assert_eq!(majorities, [1, 2, 2, 3, 3, 4, 4, 5, 5]);
    }

    /// `+` granted, a letter: held by that owner, `x` failed, `0` free, `?` not answered yet.
    #[test]
    fn decided_at_the_earliest_moment_and_not_before() {
        use Decision::{Busy, Granted, NoQuorum, Split};
        let table = [
            ("+", Some(Granted)),
            ("A", Some(Busy('A'))),
            ("x", Some(NoQuorum)),
            ("?", None),
            ("+A", Some(Split)),
            ("+?", None),
            ("Ax", Some(NoQuorum)),
            ("++?", Some(Granted)),
            ("+A?", None),
            ("AA?", Some(Busy('A'))),
            ("AB?", None),
            ("ABC", Some(Split)),
            ("xx?", Some(NoQuorum)),
            ("x?A", None),
            ("++AA", Some(Split)),
            ("++A?", None),
            ("+AB?", Some(Split)),
            ("xAB?", None),
            ("+++??", Some(Granted)),
            ("AAA??", Some(Busy('A'))),
            ("AAB??", None),
            ("AABB?", None),
            ("AABBC", Some(Split)),
            ("++AA?", None),
            ("++AB?", None),
            ("++ABC", Some(Split)),
            ("xxx??", Some(NoQuorum)),
            ("xxAA?", None),
            ("xxAAB", Some(Split)),
            ("xx++A", Some(Split)),
            ("00A0?", Some(Split)),
            ("000A0", Some(Split)),
            ("+ABC???", None),
            ("+ABCD??", Some(Split)),
        ];
        for (votes, decision) in table {
            assert_eq!(tally(votes).decide(), decision, "{votes}");
        }
    }

    /// Whatever is still to come, a decision that was made stays.
    #[test]
    fn later_votes_never_change_a_decision() {
        const VOTES: [char; 5] = ['?', '+', 'A', 'B', 'x'];
        let all = |nodes: u32| {
            (0..5_usize.pow(nodes)).map(move |mut code| {
                let mut votes = String::new();
                for _ in 0..nodes {
                    votes.push(VOTES[code % 5]);
                    code /= 5;
                }
                votes
            })
        };
        let mut decided = 0;
        for votes in (1..=5).flat_map(all) {
            let Some(decision) = tally(&votes).decide() else {
                assert!(votes.contains('?'), "{votes} is complete and undecided");
                continue;
            };
            decided += 1;
            for vote in &VOTES[1..] {
                let later = votes.replacen('?', &vote.to_string(), 1);
                assert_eq!(
                    tally(&later).decide(),
                    Some(decision.clone()),
                    "{votes} then {later}"
                );
            }
        }
        assert!(decided > 1_000, "{decided}");
    }

    /// Of a list of nodes, one bit for each: the smallest sets that are a majority of it.
    fn majorities(list: u32) -> impl Iterator<Item = u32> {
        let size = |set: u32| usize::try_from(set.count_ones()).unwrap();
        let needed = quorum(size(list));
        (1..=list).filter(move |&set| set & !list == 0 && size(set) == needed)
    }

    /// Whether two clients with these lists can never hold the same lock.
    fn always_meet(one: u32, other: u32) -> bool {
        majorities(one).all(|mine| majorities(other).all(|theirs| mine & theirs != 0))
    }

    /// What `deploy/runbook.md` says of other lists of nodes, which clients are given one after the other.
    #[test]
    fn majorities_of_lists_that_differ_by_one_node_more_or_less_always_meet() {
        let first = |nodes: u32| (1 << nodes) - 1;
        for nodes in 1..=7_u32 {
            let list = first(nodes);
            assert!(always_meet(list, list), "{nodes}");
            assert!(always_meet(list, first(nodes + 1)), "{nodes} → +1");
            let is_even = nodes.is_multiple_of(2);
            assert_eq!(always_meet(list, first(nodes + 2)), is_even, "{nodes} → +2");
            let last_replaced = first(nodes - 1) | 1 << nodes;
            assert_eq!(always_meet(list, last_replaced), is_even, "{nodes}: one");
            // However many are replaced, if those take no part any more.
            for gone in 1..nodes {
                let left = first(nodes - gone);
                let with_new = left | first(gone) << nodes;
                let meet = majorities(list)
                    .filter(|mine| mine & !left == 0)
                    .all(|mine| majorities(with_new).all(|theirs| mine & theirs != 0));
                assert!(meet, "{nodes}: {gone} replaced that have gone");
            }
        }
        let ways_in = |one: u32, other: u32| {
            let alone = |mine: &u32| majorities(other).any(|theirs| mine & theirs == 0);
            (
                majorities(one).filter(alone).count(),
                majorities(one).count(),
            )
        };
        assert_eq!(ways_in(0b111, 0b11111), (3, 3));
        assert_eq!(ways_in(0b11111, 0b111), (3, 10));
        assert_eq!(ways_in(0b0111, 0b1011), (2, 3));
        assert_eq!(ways_in(0b01_1111, 0b10_1111), (6, 10));
    }

    #[test]
    fn a_vote_taken_back_counts_no_more() {
        let mut votes = tally("++A");
        assert_eq!(votes.decide(), Some(Decision::Granted));
        votes.forget(0);
        assert_eq!(votes.decide(), None);
        votes.record(0, Ballot::Failed);
        assert_eq!(votes.decide(), Some(Decision::Split));
        assert_eq!(
            votes.nodes_saying(&Ballot::Granted).collect::<Vec<_>>(),
            [1]
        );
    }
}
