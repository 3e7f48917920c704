//! Numbers of a seed, for the loops that fuzz on the stable toolchain.

/// Splitmix64: one number from another.
pub struct Chance(pub u64);

impl Chance {
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound.max(1) as u64) as usize
    }
}

/// Executions and seed of a long loop, as FUZZ_EXECUTIONS and FUZZ_SEED say.
pub fn asked_for(executions: u64) -> (u64, u64) {
    let number =
        |name: &str, default: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    (number("FUZZ_EXECUTIONS", executions), number("FUZZ_SEED", 1))
}
