//! Simhash of shingles: `tests/reference/fingerprints.py`.
//!
//! All 64 bits are counted at once: plane j of the counters holds bit j of each of the 64 counts, and eight values are
//! added in one go by carry-save adders (Harley and Seal).

#[inline(always)]
fn add(first: u64, second: u64, third: u64) -> (u64, u64) {
    let half = first ^ second;
    (half ^ third, first & second | half & third)
}

/// Bit i is set where more than half of the values have bit i set.
#[inline(never)]
pub fn simhash(values: &[u64]) -> u64 {
    let mut planes = [0u64; 64];
    // Planes that so many values can reach; at least the first three, which are counted apart.
    let used = (64 - values.len().leading_zeros() as usize).max(3);
    let planes = &mut planes[..used];
    let (mut ones, mut twos, mut fours) = (0, 0, 0);
    let mut chunks = values.chunks_exact(8);
    for chunk in &mut chunks {
        let (sum, carry_a) = add(ones, chunk[0], chunk[1]);
        let (sum, carry_b) = add(sum, chunk[2], chunk[3]);
        let (pair, four_a) = add(twos, carry_a, carry_b);
        let (sum, carry_a) = add(sum, chunk[4], chunk[5]);
        let (sum, carry_b) = add(sum, chunk[6], chunk[7]);
        let (pair, four_b) = add(pair, carry_a, carry_b);
        let (quad, eights) = add(fours, four_a, four_b);
        (ones, twos, fours) = (sum, pair, quad);
        carry(&mut planes[3..], eights);
    }
    (planes[0], planes[1], planes[2]) = (ones, twos, fours);
    for &value in chunks.remainder() {
        carry(planes, value);
    }
    // All 64 counts are compared with half the number of values at once, from their highest bit down.
    let half = values.len() as u64 / 2;
    let (mut above, mut equal) = (0, u64::MAX);
    for (place, &plane) in planes.iter().enumerate().rev() {
        let bit = (half >> place & 1).wrapping_neg();
        above |= equal & plane & !bit;
        equal &= !(plane ^ bit);
    }
    above
}

/// Add a value to the planes; to all of them, because where it stops is up to chance.
#[inline(always)]
fn carry(planes: &mut [u64], mut value: u64) {
    for plane in planes {
        let next = *plane & value;
        *plane ^= value;
        value = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_follow_the_majority_for_every_count() {
        let mut state = 1u64;
        let mut values: Vec<u64> = Vec::new();
        for length in 0..400 {
            let plainly = (0..64).fold(0u64, |found, bit| {
                let ones = values.iter().filter(|&&value| value >> bit & 1 == 1).count();
                found | u64::from(2 * ones > length) << bit
            });
            assert_eq!(simhash(&values), plainly, "{length}");
            state = crate::shingle::fold(&[state], 1);
            values.push(state);
        }
    }
}
