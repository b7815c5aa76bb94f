//! All randomness of a simulated world, from its seed: `SplitMix64` (Steele, Lea and Flood, 2014).

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Chance(u64);

impl Chance {
    /// Streams of the same seed do not depend on how much is drawn from the others.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut chance = Self(seed ^ stream.rotate_left(32));
        chance.0 = chance.draw();
        chance
    }

    pub(super) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Both included.
    pub(super) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.draw() % (most - least + 1)
    }

    pub(super) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.draw() % len as u64).unwrap_or(0)
    }

    pub(super) fn one_in(&mut self, times: u64) -> bool {
        self.draw().is_multiple_of(times)
    }
}
