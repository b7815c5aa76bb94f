//! Numbers that look random, and are the same for the same seed.

/// A stream of them.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        // One step of splitmix64, as neighbouring seeds must not give similar streams, and zero none at all.
        let mut mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Self((mixed ^ (mixed >> 31)).max(1))
    }

    /// Below `sides`, which is not zero.
    pub(crate) fn below(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let sides = u64::try_from(sides).unwrap_or(u64::MAX);
        usize::try_from((self.0 >> 11) % sides).unwrap_or(0)
    }

    pub(crate) fn one_in(&mut self, sides: usize) -> bool {
        self.below(sides) == 0
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    /// Up to `most` characters of these.
    pub(crate) fn text(&mut self, from: &str, most: usize) -> String {
        let characters: Vec<char> = from.chars().collect();
        let length = self.below(most + 1);
        (0..length)
            .map(|_| characters[self.below(characters.len())])
            .collect()
    }
}
