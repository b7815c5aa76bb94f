//! What a client does. What it makes of the answers is decided by the product's own code.

use std::time::{Duration, UNIX_EPOCH};

use crate::fence::{Block, Settled, proposal, settle};
use crate::message::{Kind, Message};
use crate::protocol::{Flaw, Protocol};
use crate::quorum::{Ballot, Decision, Tally, quorum};
use crate::state::{Answer, Client, Forgotten, Link, List, Phase, State};

impl Client {
    /// Whether it believes, rightly by its own clock, that the lock is its.
    pub(crate) fn holds(&self, lease: u8) -> bool {
        self.phase == Phase::Held && self.age < lease
    }

    /// Whether what it holds may go to the next in line.
    pub(crate) fn can_hand_over(&self, protocol: &Protocol, lease: u8) -> bool {
        let in_time = self.age < lease || protocol.has(Flaw::HandedOverLate);
        let takes_what_is_not_reserved = protocol.has(Flaw::FenceHandedOver)
            || protocol.has(Flaw::BlockNotMoved)
            || protocol.has(Flaw::OldBlockGoesOn);
        let has_fence = !protocol.fenced() || self.fence < self.top || takes_what_is_not_reserved;
        self.phase == Phase::Held && in_time && self.handovers < protocol.handovers && has_fence
    }
}

/// Steps of one client.
pub(crate) struct Step<'a, const C: usize, const N: usize> {
    pub(crate) protocol: &'a Protocol,
    pub(crate) lease: u8,
    pub(crate) state: &'a mut State<C, N>,
    pub(crate) client: usize,
}

impl<const C: usize, const N: usize> Step<'_, C, N> {
    fn me(&mut self) -> &mut Client {
        &mut self.state.clients[self.client]
    }

    fn list(&self) -> List {
        self.protocol.list::<N>(self.client)
    }

    /// The ways to its nodes.
    fn links(&self) -> impl Iterator<Item = &Link> {
        self.state.listed(self.list(), self.client)
    }

    fn send(&mut self, kind: Kind, to: impl Fn(&Link) -> bool) {
        let me = *self.me();
        let is_release = kind == Kind::Release;
        let fence = match kind {
            Kind::Release => 0,
            Kind::Extend if self.protocol.has(Flaw::HoldersFenceRenewed) => me.fence,
            Kind::Acquire | Kind::Raise if self.protocol.has(Flaw::FirstOfBlockStored) => me.fence,
            // Without the flaw that leaves the block where it was, its last is the larger one.
            Kind::Acquire | Kind::Raise | Kind::Extend => me.top.max(me.fence),
        };
        let message = Message {
            kind,
            attempt: me.attempt,
            round: if is_release { 0 } else { me.round },
            fence,
        };
        let list = self.list();
        let links = self.state.links_mut(self.client).enumerate();
        for (_, link) in links.filter(|(node, link)| list.has(*node) && to(link)) {
            link.queue.push(message);
        }
    }

    fn forget_answers(&mut self) {
        for link in self.state.links_mut(self.client) {
            link.answer = Answer::None;
        }
    }

    /// The lease, should there be one, counts from now.
    pub(crate) fn ask(&mut self) {
        let clock = self.clock();
        let floor = if self.protocol.deadlines {
            0
        } else {
            self.state.last_fence()
        };
        let me = self.me();
        me.phase = Phase::Asking;
        me.floor = floor;
        if let Some(clock) = clock {
            let now = UNIX_EPOCH + Duration::from_micros(clock.into());
            let first = narrow(proposal(now, me.seen.into(), 1).token());
            self.propose(first);
        }
        self.send(Kind::Acquire, |_| true);
    }

    /// What its clock says.
    fn clock(&self) -> Option<u8> {
        let clock = self.protocol.clocks.get(self.client)?;
        Some(clock + self.state.time * self.protocol.pace)
    }

    /// A block is reserved that begins with this token.
    fn propose(&mut self, first: u8) {
        let from = match self.clock() {
            Some(clock) if self.protocol.blocks_end_by_the_clock => clock,
            _ => first,
        };
        let top = first.max(from + self.protocol.handovers);
        let me = self.me();
        me.fence = first;
        me.top = top;
        me.seen = me.seen.max(top);
    }

    /// Takes an answer that a node has just given. A refusal is heard at once: hearing it later changes nothing but that
    /// the client would give up later, and it may give up at any time, and what it sends then may be late.
    pub(crate) fn answered(&mut self, node: usize, to: Message, answer: Answer) {
        let me = *self.me();
        let asked = match to.kind {
            Kind::Acquire => me.phase == Phase::Asking,
            Kind::Raise => me.phase == Phase::Raising,
            Kind::Extend => me.renewing.is_some(),
            Kind::Release => false,
        };
        if !asked || to.attempt != me.attempt || to.round != me.round {
            return;
        }
        let young = self.state.nodes[node].young > 0;
        let link = &mut self.state.nodes[node].links[self.client];
        match answer {
            Answer::No => {
                link.answer = answer;
                link.struck |= to.kind == Kind::Acquire;
                self.decide();
            }
            // Nothing is made of what a renewal finds stored.
            Answer::Yes(_) if to.kind == Kind::Extend => {
                link.answer = Answer::Yes(0);
                if !young {
                    self.hear_unless_it_decides(node);
                }
            }
            _ => {
                link.answer = answer;
                if to.kind == Kind::Acquire && !self.protocol.fenced() {
                    self.hear_unless_it_decides(node);
                }
            }
        }
    }

    /// A yes that does not decide yet is heard at once, where all of them are alike: only when the one that decides is heard
    /// makes a difference. Of fencing tokens it matters which answers are heard.
    fn hear_unless_it_decides(&mut self, node: usize) {
        let counts = |link: &&Link| matches!(link.answer, Answer::Counts(_));
        let heard = self.links().filter(counts).count();
        if heard + 1 < self.list().majority() {
            self.hear(node);
        }
    }

    /// Hears what a node has said.
    pub(crate) fn hear(&mut self, node: usize) {
        let renewing = self.me().renewing.is_some();
        let node = &mut self.state.nodes[node];
        let young_votes = [Flaw::YoungNodesVote, Flaw::YoungNodesCountForRenewals]
            .into_iter()
            .any(|flaw| self.protocol.has(flaw));
        let answer = &mut node.links[self.client].answer;
        *answer = match *answer {
            Answer::Yes(_) if renewing && node.young > 0 && !young_votes => Answer::No,
            Answer::Yes(stored) | Answer::YesBeforeCrash(stored) => Answer::Counts(stored),
            answer => answer,
        };
        self.decide();
    }

    fn decide(&mut self) {
        match self.me().phase {
            Phase::Idle => {}
            Phase::Asking => match self.votes() {
                Some(Decision::Granted) => self.settle_fence(),
                Some(_) => self.give_up(),
                None => {}
            },
            Phase::Raising => self.settle_raise(false),
            Phase::Held => {
                if self.votes() == Some(Decision::Granted) {
                    self.renewed();
                }
            }
        }
    }

    /// Who refused is not told apart: it decides only when a client gives up, which it may do at any time.
    fn votes(&self) -> Option<Decision<()>> {
        let mut tally = Tally::new(self.list().len());
        for (node, link) in self.links().enumerate() {
            match link.answer {
                Answer::Counts(_) => tally.record(node, Ballot::Granted),
                Answer::No => tally.record(node, Ballot::Held(())),
                Answer::None | Answer::Yes(_) | Answer::YesBeforeCrash(_) => {}
            }
        }
        tally.decide()
    }

    /// Waits no longer for answers to an acquire, and takes those that came for all there are. Only a flaw does.
    pub(crate) fn take_majority_of_reachable(&mut self) {
        let answers = || self.links().map(|link| link.answer);
        let heard = answers().filter(|answer| matches!(answer, Answer::Counts(_) | Answer::No));
        let granted = answers().filter(|answer| matches!(answer, Answer::Counts(_)));
        if granted.count() >= quorum(heard.count()) {
            self.settle_fence();
        }
    }

    fn stored(&self) -> impl Iterator<Item = u64> {
        let stored = |link: &Link| match link.answer {
            Answer::Counts(stored) => Some(stored.into()),
            _ => None,
        };
        self.links().filter_map(stored)
    }

    fn settle_fence(&mut self) {
        if !self.protocol.fenced() || self.protocol.has(Flaw::FenceNotRaised) {
            return self.hold();
        }
        match self.settle() {
            Settled::Accepted => self.hold(),
            Settled::Raise(next) if self.protocol.raises > 0 => self.raise(next),
            Settled::Raise(_) => self.give_up(),
        }
    }

    /// A majority has to have had less than the first of the block. What is proposed next is larger than the last, which
    /// nodes have stored.
    fn settle(&mut self) -> Settled {
        let Client { fence, top, .. } = *self.me();
        // Where a flaw left the block where it was, nothing of it is left.
        let block = |first: u8, last: u8| {
            let tokens = last.saturating_sub(first) + 1;
            Block::new(first.into(), tokens.into())
        };
        let proposal = match self.protocol.flaw {
            Some(Flaw::BlockMeasuredByItsLast) => block(top, top),
            Some(Flaw::BlockRaisedIntoItself) => block(fence, fence),
            _ => block(fence, top),
        };
        settle(proposal, self.stored(), self.list().majority())
    }

    fn raise(&mut self, first: u64) {
        let old_top = self.me().top;
        self.propose(narrow(first));
        let stays =
            self.protocol.has(Flaw::BlockNotMoved) || self.protocol.has(Flaw::OldBlockGoesOn);
        let me = self.me();
        me.top = if stays { old_top } else { me.top };
        me.phase = Phase::Raising;
        me.round += 1;
        self.forget_answers();
        self.send(Kind::Raise, |link| !link.struck);
    }

    /// Looks at the answers to a raised token. `over`: no more of them are waited for.
    pub(crate) fn settle_raise(&mut self, over: bool) {
        let me = *self.me();
        let pending = |link: &Link| {
            !link.struck
                && matches!(
                    link.answer,
                    Answer::None | Answer::Yes(_) | Answer::YesBeforeCrash(_)
                )
        };
        let complete = over || !self.links().any(pending);
        match self.settle() {
            Settled::Accepted => self.hold(),
            Settled::Raise(next) if complete && me.round < self.protocol.raises => self.raise(next),
            Settled::Raise(_) if complete => self.give_up(),
            Settled::Raise(_) => {}
        }
    }

    /// Has all it needs, if it is still in time.
    fn hold(&mut self) {
        if self.me().age >= self.lease {
            return self.give_up();
        }
        if self.protocol.has(Flaw::ValidFromAnswer) {
            self.me().age = 0;
        }
        self.me().phase = Phase::Held;
        self.forget_answers();
        for client in &mut self.state.clients {
            client.overtaken = client.phase == Phase::Held;
        }
        self.me().overtaken = false;
        if self.state.forgotten != Forgotten::Nothing {
            self.state.forgotten = Forgotten::Granted;
        }
        self.take_fence();
    }

    /// Is given the fencing token that is its.
    fn take_fence(&mut self) {
        if !self.protocol.fenced() {
            return;
        }
        let Client { fence, floor, .. } = *self.me();
        let given = 1 << fence;
        // Without deadlines a client may hear long after it was granted the lock, when others have had it meanwhile. What
        // must be larger is the token of whoever asks after another was given one; and no two are the same.
        let least = if self.protocol.deadlines {
            self.state.last_fence()
        } else {
            floor
        };
        self.state.fence_fell |= fence <= least || self.state.fences & given != 0;
        self.state.fences |= given;
    }

    /// Its holder is done, and the next one of the same client has the claim: the same token, the same deadline.
    pub(crate) fn hand_over(&mut self) {
        if self.protocol.has(Flaw::FormerHolderReleases) {
            self.send(Kind::Release, |link| !link.struck);
        }
        if self.protocol.has(Flaw::ValidFromHandover) {
            self.me().age = 0;
        }
        if !self.protocol.has(Flaw::NewsHandedOver) {
            self.me().renewing = None;
            self.forget_answers();
        }
        self.me().handovers += 1;
        if self.protocol.fenced() {
            if self.protocol.has(Flaw::HandedToLatecomers) {
                self.me().floor = self.state.last_fence();
            }
            self.me().fence = self.next_of_block();
            self.take_fence();
        }
    }

    fn next_of_block(&mut self) -> u8 {
        let Client {
            fence,
            top,
            handovers,
            ..
        } = *self.me();
        match self.protocol.flaw {
            Some(Flaw::FenceHandedOver) => fence,
            Some(Flaw::OldBlockGoesOn) => top - self.protocol.handovers + handovers,
            _ => fence + 1,
        }
    }

    /// Asks all nodes, those too that refused.
    pub(crate) fn renew(&mut self) {
        let me = self.me();
        me.round += 1;
        me.renewals += 1;
        me.renewing = Some(0);
        if self.state.forgotten == Forgotten::SinceCrash {
            self.state.forgotten = Forgotten::BeingRenewed;
        }
        self.forget_answers();
        for link in self.state.links_mut(self.client) {
            link.struck = false;
        }
        self.send(Kind::Extend, |_| true);
    }

    fn renewed(&mut self) {
        let me = self.me();
        me.age = me.renewing.take().unwrap_or(me.age);
        if self.state.forgotten == Forgotten::BeingRenewed {
            self.state.forgotten = Forgotten::Nothing;
        }
        self.forget_answers();
    }

    /// Releases what it has, or may have. The attempt is over.
    pub(crate) fn give_up(&mut self) {
        self.send(Kind::Release, |link| !link.struck);
        if self.protocol.has(Flaw::RenewedAfterRelease) {
            self.send(Kind::Extend, |_| true);
        }
        for link in self.state.links_mut(self.client) {
            link.answer = Answer::None;
            link.struck = false;
        }
        let me = self.me();
        *me = Client {
            attempt: me.attempt + 1,
            seen: me.seen,
            ..Client::default()
        };
    }

    /// Releases on one node what the last attempt had, once more.
    pub(crate) fn release_again(&mut self, node: usize) {
        let attempt = self.me().attempt - 1;
        self.state.nodes[node].links[self.client]
            .queue
            .push(Message {
                kind: Kind::Release,
                attempt,
                round: 0,
                fence: 0,
            });
    }

    pub(crate) fn tick(&mut self) {
        if !self.protocol.deadlines || self.me().phase == Phase::Idle {
            return;
        }
        let lease = self.lease;
        let me = self.me();
        me.age = (me.age + 1).min(lease);
        me.renewing = me.renewing.map(|age| (age + 1).min(lease));
        if me.age < lease {
            return;
        }
        let me = *me;
        if self.protocol.has(Flaw::HandedOverLate) && me.can_hand_over(self.protocol, lease) {
            // Nothing goes on but that.
            self.me().renewing = None;
            self.forget_answers();
            return;
        }
        let may_be_renewed = me.phase == Phase::Held && me.renewing.is_some_and(|age| age < lease);
        // Whoever has lost the lock, or waits for it in vain, may as well say so at once, as that may be heard late.
        if !(may_be_renewed && self.protocol.has(Flaw::LapsedGoesOn)) {
            self.give_up();
        }
    }
}

fn narrow(fence: u64) -> u8 {
    fence.try_into().expect("tokens stay small")
}
