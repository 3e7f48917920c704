//! Min-wise sketch of a shingle set, and its band keys: `tests/reference/fingerprints.py`.

use std::sync::OnceLock;

use crate::shingle::{fold, START};

pub const BINS: usize = 256;
/// Two bins a byte; the scheme byte is not counted.
pub const SKETCH_BYTES: usize = BINS / 2;
pub const BANDS: usize = 16;
const BAND_WIDTH: usize = 5;
/// Bins of a band at each depth.
const WIDTHS: [usize; 6] = [BAND_WIDTH, 7, 10, 14, 20, 28];
/// All keys of the bands of a text.
pub const BAND_KEYS: usize = BANDS * WIDTHS.len();
/// Bins as they come; see `bands.band_keys`.
pub const IN_ORDER: [u8; BINS] = {
    let mut order = [0; BINS];
    let mut bin = 0;
    while bin < BINS {
        order[bin] = bin as u8;
        bin += 1;
    }
    order
};
const PROBES: usize = 512;

/// The probe sequences of all bins, and where in them each bin comes first.
struct Probes {
    /// By empty bin and probe: the bin looked at.
    lenders: Vec<u8>,
    /// By empty bin and lender: number of the first probe that finds it; `NEVER` for none.
    ranks: Vec<u16>,
}

const NEVER: u16 = u16::MAX;

/// With fewer filled bins than this, it is cheaper to ask for each of them when its turn comes.
const FEW_FILLED: usize = 16;

fn probes() -> &'static Probes {
    static TABLE: OnceLock<Probes> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = Probes { lenders: vec![0; BINS * PROBES], ranks: vec![NEVER; BINS * BINS] };
        for bin in 0..BINS {
            for probe in 0..PROBES {
                let mut mixed = (((bin as u64) << 32) + probe as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                mixed ^= mixed >> 32;
                let lender = (mixed.wrapping_mul(0xff51_afd7_ed55_8ccd) >> 56) as usize;
                table.lenders[bin * PROBES + probe] = lender as u8;
                let rank = &mut table.ranks[bin * BINS + lender];
                *rank = (*rank).min(probe as u16);
            }
        }
        table
    })
}

/// Smallest value of each bin, empty ones filled; `set` is ascending and not empty.
#[inline(never)]
pub fn minima(set: &[u64]) -> [u64; BINS] {
    let mut minima = [u64::MAX; BINS];
    let mut filled = [false; BINS];
    // From the largest down, so that the smallest of a bin is written last.
    for &value in set.iter().rev() {
        let bin = (value >> 56) as usize;
        minima[bin] = value;
        filled[bin] = true;
    }
    // Filled bins and empty ones, both ascending; without a branch that chance decides.
    let (mut lenders, mut empty) = ([0; BINS], [0; BINS]);
    let (mut count, mut empty_count) = (0, 0);
    for (bin, &is_filled) in filled.iter().enumerate() {
        lenders[count % BINS] = bin;
        empty[empty_count % BINS] = bin;
        count += usize::from(is_filled);
        empty_count += usize::from(!is_filled);
    }
    let (lenders, empty) = (&lenders[..count], &empty[..empty_count]);
    if empty.is_empty() {
        return minima;
    }
    let probes = probes();
    for &bin in empty {
        let found = if lenders.len() < FEW_FILLED {
            let ranks = &probes.ranks[bin * BINS..(bin + 1) * BINS];
            lenders.iter().copied().min_by_key(|&lender| ranks[lender]).filter(|&lender| ranks[lender] != NEVER)
        } else {
            let sequence = &probes.lenders[bin * PROBES..(bin + 1) * PROBES];
            sequence.iter().map(|&lender| lender as usize).find(|&lender| filled[lender])
        };
        // Without a hit, the next filled bin upwards, around the end.
        let upwards = || lenders.get(lenders.partition_point(|&lender| lender < bin)).or(lenders.first()).copied();
        if let Some(lender) = found.or_else(upwards) {
            minima[bin] = minima[lender];
        }
    }
    minima
}

/// The lowest 4 bits of each minimum: bin i with bin i + 128 in one byte.
pub fn sketch(minima: &[u64; BINS]) -> [u8; SKETCH_BYTES] {
    std::array::from_fn(|place| minima[place] as u8 & 0x0f | (minima[place + SKETCH_BYTES] as u8) << 4)
}

/// The lowest 4 bits of each minimum, a byte each: what `sketch` packs.
pub fn bins(minima: &[u64; BINS]) -> [u8; BINS] {
    minima.map(|minimum| minimum as u8 & 0x0f)
}

/// The keys of all bands, depth by depth.
pub fn band_keys(minima: &[u64; BINS], order: &[u8; BINS]) -> [u64; BAND_KEYS] {
    const OWN: usize = BANDS * BAND_WIDTH;
    let mut keys = [0; BAND_KEYS];
    for band in 0..BANDS {
        let bin = |place: usize| match place.checked_sub(BAND_WIDTH) {
            None => band * BAND_WIDTH + place,
            Some(place) => OWN + (band * ((BINS - OWN) / BANDS) + place) % (BINS - OWN),
        };
        let values: [u64; WIDTHS[WIDTHS.len() - 1]] = std::array::from_fn(|place| minima[order[bin(place)] as usize]);
        for (depth, &width) in WIDTHS.iter().enumerate() {
            let number = depth * BANDS + band;
            keys[number] = fold(&values[..width], START.wrapping_add(number as u64));
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_filled_bins_borrow_by_the_same_rule() {
        for count in 1..40u64 {
            let mut values: Vec<u64> = (1..=count).map(|each| fold(&[each], count)).collect();
            values.sort_unstable();
            let found = minima(&values);
            let filled: Vec<bool> =
                (0..BINS).map(|bin| values.iter().any(|value| (value >> 56) as usize == bin)).collect();
            for bin in (0..BINS).filter(|&bin| !filled[bin]) {
                let sequence = &probes().lenders[bin * PROBES..][..PROBES];
                if let Some(&lender) = sequence.iter().find(|&&lender| filled[lender as usize]) {
                    assert_eq!(found[bin], found[lender as usize]);
                }
            }
        }
    }

    #[test]
    fn one_value_fills_every_bin() {
        assert_eq!(minima(&[77 << 56 | 5]), [77 << 56 | 5; BINS]);
    }

    #[test]
    fn full_bins_keep_their_smallest() {
        let mut values: Vec<u64> = (0..1024u64).map(|each| ((each % 256) << 56) | each).collect();
        values.sort_unstable();
        assert_eq!(minima(&values), std::array::from_fn(|bin| (bin as u64) << 56 | bin as u64));
    }
}
