//! The documents that the demo serves: text made up of a few words, always the same.

use super::events;

/// How many there are.
pub(super) const DOCUMENTS: u32 = 48;

const WORDS: [&str; 12] = [
    "dust", "speck", "beam", "light", "trace", "ring", "probe", "switch", "clock", "packet", "event", "mote",
];

/// One document.
#[derive(Debug)]
struct Document {
    body: Vec<u8>,
}

/// All documents.
#[derive(Debug)]
pub(super) struct Content(Vec<Document>);

impl Content {
    /// Makes the documents, from 1 to 48 KiB.
    pub(super) fn new() -> Content {
        Content((0..DOCUMENTS).map(Document::new).collect())
    }

    /// The text of a document.
    pub(super) fn body(&self, number: u32) -> Option<&[u8]> {
        self.0.get(number as usize).map(|document| document.body.as_slice())
    }

    /// The digest of a document, computed anew.
    pub(super) fn digest(&self, number: u32) -> Option<u64> {
        let body = self.body(number)?;
        let digest = digest(body);
        mote::emit!(events::digest, number, body.len() as u64, digest);
        Some(digest)
    }

    /// How often a word occurs in all documents: slow, it looks at every byte.
    pub(super) fn search(&self, word: &str) -> u32 {
        let all = self.0.iter().flat_map(|document| document.body.split(|byte| *byte == b' '));
        let hits = all.filter(|other| *other == word.as_bytes()).count() as u32;
        mote::emit!(events::search, word, DOCUMENTS, hits);
        hits
    }
}

impl Document {
    fn new(number: u32) -> Document {
        let bytes = 1024 * (1 + number as usize);
        let mut body = Vec::with_capacity(bytes + 16);
        let mut dice = Dice::new(u64::from(number));
        while body.len() < bytes {
            body.extend_from_slice(WORDS[dice.below(WORDS.len() as u64) as usize].as_bytes());
            body.push(b' ');
        }
        body.truncate(bytes);
        Document { body }
    }
}

/// A word of the documents.
pub(super) fn word(number: u64) -> &'static str {
    WORDS[(number % WORDS.len() as u64) as usize]
}

/// FNV-1a, 64 bits: not for secrets.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Numbers that look random and are always the same (SplitMix64).
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    /// Dice that fall as `seed` says.
    pub(super) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// A number below `end`, which is not 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_always_the_same() {
        let (one, other) = (Content::new(), Content::new());
        assert_eq!(one.body(7), other.body(7));
        assert_eq!(one.body(7).map(<[u8]>::len), Some(8 * 1024));
        assert_eq!(one.body(DOCUMENTS), None);
        assert!(one.search("mote") > 100 && one.search("elephant") == 0);
    }

    #[test]
    fn digests_are_those_of_the_published_function() {
        // From the authors' test vectors (draft-eastlake-fnv, appendix C).
        assert_eq!(digest(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(digest(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
