//! A filter of byte strings: it says that a string was certainly never added, or that it may have been.
//!
//! A blocked Bloom filter (Putze, Sanders, Singler 2007) in the form of Apache Parquet: a string sets one bit in each of
//! the eight words of one block of 64 bytes, so a look-up costs one miss of the processor's cache.  A Bloom filter cannot
//! grow, so there are several: one that is full, of twelve bits a string, is followed by one of four times its size.  Of
//! strings that were never added some .4% are called possible by each full one.  Past the bound of memory the last one
//! takes more strings than it is made for, and excludes fewer and fewer.

use crate::bytes;

const WORDS: usize = 8;
const BLOCK_BYTES: usize = 8 * WORDS;
const FIRST_BLOCKS: usize = 128;
const GROWTH: usize = 4;
const BITS_A_STRING: usize = 12;
/// Of a layer on disk, before its blocks: their number, and that of its strings.
const HEAD_BYTES: usize = 16;

type Block = [u64; WORDS];

struct Layer {
    blocks: Vec<Block>,
    strings: usize,
}

impl Layer {
    /// The block of a hash, and the bits of a string in it.
    fn place(&self, hash: u64) -> (usize, Block) {
        let at = (u128::from(hash) * self.blocks.len() as u128) >> 64;
        let bits = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (at as usize, std::array::from_fn(|word| 1 << (bits >> (16 + 6 * word) & 63)))
    }

    fn may_have(&self, hash: u64) -> bool {
        let (at, bits) = self.place(hash);
        self.blocks[at].iter().zip(bits).all(|(word, bit)| word & bit != 0)
    }

    fn is_full(&self) -> bool {
        self.strings * BITS_A_STRING >= self.blocks.len() * BLOCK_BYTES * 8
    }
}

/// The layers, the smallest first, which never take more than so many bytes.
pub struct Filter {
    layers: Vec<Layer>,
    most_bytes: usize,
}

impl Filter {
    pub fn new(most_bytes: usize) -> Self {
        let mut filter = Self { layers: Vec::new(), most_bytes };
        filter.push(FIRST_BLOCKS);
        filter
    }

    fn push(&mut self, blocks: usize) {
        self.layers.push(Layer { blocks: vec![[0; WORDS]; blocks], strings: 0 });
    }

    pub fn bytes(&self) -> usize {
        self.layers.iter().map(|layer| layer.blocks.len() * BLOCK_BYTES).sum()
    }

    /// Whether a string may have been added; false is certain.
    pub fn may_have(&self, string: &[u8]) -> bool {
        self.may_have_hash(bytes::mixed(string))
    }

    fn may_have_hash(&self, hash: u64) -> bool {
        self.layers.iter().rev().any(|layer| layer.may_have(hash))
    }

    pub fn add(&mut self, string: &[u8]) {
        let hash = bytes::mixed(string);
        if self.may_have_hash(hash) {
            return;
        }
        let last = &self.layers[self.layers.len() - 1];
        if last.is_full() {
            let least = last.blocks.len();
            let blocks = (GROWTH * least).min(self.most_bytes.saturating_sub(self.bytes()) / BLOCK_BYTES);
            if blocks >= least {
                self.push(blocks);
            }
        }
        if let Some(layer) = self.layers.last_mut() {
            let (at, bits) = layer.place(hash);
            layer.blocks[at].iter_mut().zip(bits).for_each(|(word, bit)| *word |= bit);
            layer.strings += 1;
        }
    }

    /// The layers as bytes: of each the number of its blocks and of its strings, then its blocks.
    pub fn dump(&self) -> Vec<u8> {
        let mut raw = Vec::with_capacity(self.bytes() + HEAD_BYTES * self.layers.len());
        for layer in &self.layers {
            for number in [layer.blocks.len(), layer.strings] {
                raw.extend_from_slice(&(number as u64).to_le_bytes());
            }
            layer.blocks.iter().flatten().for_each(|word| raw.extend_from_slice(&word.to_le_bytes()));
        }
        raw
    }

    /// The filter of such bytes; None if they are none, or take more than so many bytes.
    pub fn load(mut raw: &[u8], most_bytes: usize) -> Option<Self> {
        let mut layers = Vec::new();
        while !raw.is_empty() {
            let (head, rest) = raw.split_at_checked(HEAD_BYTES)?;
            let number = |at| usize::try_from(bytes::load(head, at)).ok();
            let (blocks, strings) = (number(0)?, number(8)?);
            let (own, rest) = rest.split_at_checked(blocks.checked_mul(BLOCK_BYTES)?)?;
            let block = |own: &[u8]| std::array::from_fn(|word| bytes::load(own, 8 * word));
            layers.push(Layer { blocks: own.chunks_exact(BLOCK_BYTES).map(block).collect(), strings });
            raw = rest;
        }
        let is_whole = !layers.is_empty() && layers.iter().all(|layer: &Layer| !layer.blocks.is_empty());
        let filter = Self { layers, most_bytes };
        (is_whole && filter.bytes() <= most_bytes).then_some(filter)
    }
}
