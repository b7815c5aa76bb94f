//! What is going to happen in a world, as far as it does not depend on what its clients do: drawn from the seed, before
//! anything runs. Times are milliseconds from the start.

use super::chance::Chance;

/// The longest lease, and how long a node that restarted abstains.
pub(super) const MAX_TTL: u64 = 800;

pub(super) const NODE_TIMEOUT: u64 = 40;

/// From when on nothing goes wrong any more.
pub(super) const CALM: u64 = 2_500;

/// From when on every node has its vote again, so that everybody who waits must get the lock.
pub(super) const BENIGN: u64 = CALM + 3 * MAX_TTL;

/// How long a client may wait then.
pub(super) const PATIENCE: u64 = 1_500;

/// How often each client asks then.
pub(super) const BENIGN_ROUNDS: u64 = 1;

/// When all clients have gone.
pub(super) const GONE: u64 = BENIGN + BENIGN_ROUNDS * (PATIENCE + 500);

/// Nothing may be left then.
pub(super) const END: u64 = GONE + 2 * MAX_TTL;

/// From this seed on, worlds begin with nodes that all are new, and crash while clients that are often paused find out
/// about it.
pub(super) const FOUNDINGS: u64 = 1_000_000;

/// What is broken in a world on purpose, for the recorder to notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// A node that restarted grants at once.
    YoungNodesVote,
    /// A node that restarted grants before the longest lease is over.
    YoungNodesVoteEarly,
    /// Nodes do not store fencing tokens.
    FencesAreForgotten,
    /// Nodes' clocks run a tenth fast, which is more than is allowed for.
    ClocksRunFast,
    /// Nodes answer releases and do nothing.
    ReleasesAreLost,
    /// Nodes do not look at who releases.
    AnybodyReleases,
    /// Nodes do not look at the TTL of what they are asked to keep.
    NothingExpires,
    /// A lock that is taken by force is deleted.
    TakenIsDeleted,
    /// A lock that is taken by force is left where it is.
    TakingDoesNothing,
}

/// One life of a node, from a start to a crash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    pub(super) from: u64,
    pub(super) to: u64,
    /// What was stored before the crash is there.
    pub(super) remembers: bool,
    /// It does not vote before.
    pub(super) votes_from: u64,
}

/// For a while nothing gets through from a client to a node, or back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    client: usize,
    node: usize,
    from: u64,
    to: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) seed: u64,
    pub(super) mutant: Option<Mutant>,
    pub(super) clients: usize,
    pub(super) nodes: usize,
    pub(super) keys: usize,
    /// Clocks of clients and nodes keep to the drift that leases leave out.
    pub(super) within_drift: bool,
    /// How much of a TTL passes at the node until it is over, in thousandths, by client and node.
    pub(super) rates: Vec<Vec<u64>>,
    pub(super) lives: Vec<Vec<Life>>,
    pub(super) silences: Vec<Silence>,
    /// When each client does not run, in order.
    pub(super) pauses: Vec<Vec<(u64, u64)>>,
    /// One in so many requests has its client paused in the middle of what it does; 0: none.
    pub(super) sudden_pauses: u64,
    /// From when on nothing is heard of a client any more.
    pub(super) cut: Vec<Option<u64>>,
    /// By how much the wall clock of each client is off, from when on.
    pub(super) skews: Vec<Vec<(u64, i64)>>,
    /// Everybody asks for the longest lease, renews nothing, and holds on to it until it is lost.
    pub(super) stubborn: bool,
    /// One in so many requests meets a fault of its connection; 0: none.
    pub(super) faults: u64,
}

impl Scenario {
    pub(super) fn of(seed: u64, mutant: Option<Mutant>) -> Self {
        let mut chance = Chance::new(seed, 1);
        let nodes = if chance.one_in(3) { 5 } else { 3 };
        let clients = 2 + chance.index(2);
        let keys = 1 + chance.index(2);
        let within_drift = !chance.one_in(5) || mutant.is_some();
        let rates = rates(&mut chance, clients, nodes, within_drift, mutant);
        let crashes = !chance.one_in(3);
        let founding = seed >= FOUNDINGS;
        let is_new = chance.one_in(4) || founding;
        // In one seed of three the nodes crash at about the same time.
        let storm = chance.one_in(3).then(|| chance.between(20, CALM / 2));
        let storm = if founding {
            Some(chance.between(20, 120))
        } else {
            storm
        };
        let crashes = Crashes {
            mutant,
            is_new,
            storm,
            any: crashes || founding,
        };
        let lives = crashes.lives(&mut chance, nodes, &rates);
        let forgets = lives
            .iter()
            .flatten()
            .any(|life| !life.remembers && life.from > 0);
        let skews = skews(&mut chance, clients, forgets);
        let silences = (0..chance.index(4))
            .map(|_| {
                let from = chance.between(0, CALM - 1);
                Silence {
                    client: chance.index(clients),
                    node: chance.index(nodes),
                    from,
                    to: (from + chance.between(20, 600)).min(CALM),
                }
            })
            .collect();
        let pauses = (0..clients).map(|_| pauses(&mut chance)).collect();
        let cut = (0..clients)
            .map(|client| {
                let cut = client > 0 && chance.one_in(12);
                cut.then(|| chance.between(0, CALM))
            })
            .collect();
        let stubborn = chance.one_in(4);
        let rarity = [0, 60, 25, 12];
        let sudden_pauses = rarity[chance.index(2)] * 3;
        Self {
            seed,
            mutant,
            clients,
            nodes,
            keys,
            within_drift,
            rates,
            lives,
            silences,
            pauses,
            sudden_pauses: if founding { 25 } else { sudden_pauses },
            cut,
            skews,
            stubborn,
            faults: rarity[chance.index(4)],
        }
    }

    /// The life that a node is in. `None`: it is down.
    pub(super) fn life(&self, node: usize, at: u64) -> Option<usize> {
        let alive = |life: &Life| (life.from..life.to).contains(&at);
        self.lives[node].iter().position(alive)
    }

    pub(super) fn is_silent(&self, client: usize, node: usize, at: u64) -> bool {
        let concerns = |silence: &Silence| silence.client == client && silence.node == node;
        let mut silences = self.silences.iter().filter(|silence| concerns(silence));
        silences.any(|silence| (silence.from..silence.to).contains(&at)) || self.is_cut(client, at)
    }

    pub(super) fn is_cut(&self, client: usize, at: u64) -> bool {
        self.cut[client].is_some_and(|cut| cut <= at)
    }

    pub(super) fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}

fn rates(
    chance: &mut Chance,
    clients: usize,
    nodes: usize,
    within_drift: bool,
    mutant: Option<Mutant>,
) -> Vec<Vec<u64>> {
    // One seed in three has clocks as far apart as they may be; the others have them anywhere between.
    let extreme = chance.one_in(3);
    let mut rate = || match (mutant, within_drift, extreme) {
        (Some(Mutant::ClocksRunFast), ..) => 900,
        (_, true, true) => 990,
        (_, true, false) => chance.between(990, 1_010),
        (_, false, _) => chance.between(500, 1_300),
    };
    (0..clients)
        .map(|_| (0..nodes).map(|_| rate()).collect())
        .collect()
}

/// How nodes crash.
struct Crashes {
    mutant: Option<Mutant>,
    /// The deployment is.
    is_new: bool,
    /// When all of them do, more or less.
    storm: Option<u64>,
    any: bool,
}

impl Crashes {
    fn lives(&self, chance: &mut Chance, nodes: usize, rates: &[Vec<u64>]) -> Vec<Vec<Life>> {
        (0..nodes)
            .map(|node| {
                let slowest = rates.iter().map(|rates| rates[node]).min();
                let abstains = MAX_TTL * slowest.unwrap_or(1_000) / 1_000;
                let abstains = match self.mutant {
                    Some(Mutant::YoungNodesVote) => 0,
                    Some(Mutant::YoungNodesVoteEarly) => abstains / 2,
                    _ => abstains,
                };
                self.lives_of(chance, self.never_forgets(node, nodes), abstains)
            })
            .collect()
    }

    /// A deployment never loses all that it knows at once. A new one, not all of whose nodes may have been told yet that
    /// they vote, keeps a majority that forgets nothing.
    fn never_forgets(&self, node: usize, nodes: usize) -> bool {
        node == 0 || (self.is_new && node <= nodes / 2)
    }

    fn lives_of(&self, chance: &mut Chance, never_forgets: bool, abstains: u64) -> Vec<Life> {
        let mut lives = vec![Life {
            from: 0,
            to: u64::MAX,
            remembers: false,
            votes_from: if self.is_new { abstains } else { 0 },
        }];
        let mut at = match self.storm {
            Some(storm) => storm + chance.between(0, 100),
            None => chance.between(20, CALM),
        };
        while self.any && at + 200 < CALM && lives.len() < 3 {
            if let Some(last) = lives.last_mut() {
                last.to = at;
            }
            let from = at + chance.between(1, 60) * (1 + 2 * chance.between(0, 1));
            lives.push(Life {
                from,
                to: u64::MAX,
                remembers: never_forgets || chance.one_in(4),
                votes_from: from + abstains,
            });
            at = from + chance.between(1, CALM);
        }
        lives
    }
}

/// Where a node may forget, clocks are apart by less than what keeps fences growing all the same: the longest lease less
/// the time that an acquire takes.
fn skews(chance: &mut Chance, clients: usize, forgets: bool) -> Vec<Vec<(u64, i64)>> {
    let most = if forgets { MAX_TTL / 5 } else { 600_000 };
    (0..clients)
        .map(|_| {
            let mut at = 0;
            let mut skews = Vec::new();
            while at < GONE && skews.len() < 4 {
                let skew = i64::try_from(chance.between(0, 2 * most)).unwrap_or(0);
                skews.push((at, skew - i64::try_from(most).unwrap_or(0)));
                at += chance.between(1, CALM);
            }
            skews
        })
        .collect()
}

fn pauses(chance: &mut Chance) -> Vec<(u64, u64)> {
    let mut pauses = Vec::new();
    if chance.one_in(2) {
        let mut at = chance.between(1, CALM);
        while at < CALM && pauses.len() < 3 {
            let to = (at + chance.between(5, MAX_TTL * 3 / 2)).min(CALM);
            pauses.push((at, to));
            at = to + chance.between(1, CALM);
        }
    }
    pauses
}
