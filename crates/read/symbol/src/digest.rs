//! A digest of a file's code: what tells binaries apart that have no build id.

use crate::image::Visit;
use object::{Object, ObjectSection, ReadRef, SectionKind};
use std::path::Path;
use std::time::SystemTime;

/// Most bytes of code: sections of a hostile file may each be the whole file.
const CODE_MAX: u64 = 512 << 20;

/// Makes the digest, in hex: FNV-1a with 64 bits, of all sections of code with their addresses. It tells builds apart,
/// and does not withstand somebody who wants two of the same.
///
/// `None` for a file with more than 512 MiB of code.
///
/// # Cost
/// Reads all code: some 500 MB/s.
#[derive(Clone, Copy, Debug)]
pub struct TextDigest;

impl Visit for TextDigest {
    type Answer = Option<String>;

    fn visit<'d, R: ReadRef<'d>>(
        &self,
        _: &Path,
        elf: &object::File<'d, R>,
        _: Option<SystemTime>,
    ) -> Result<Option<String>, object::Error> {
        let (mut digest, mut left) = (OFFSET, CODE_MAX);
        for section in elf.sections().filter(|section| section.kind() == SectionKind::Text) {
            let Some(rest) = left.checked_sub(section.size()) else { return Ok(None) };
            left = rest;
            digest = added(digest, &section.address().to_le_bytes());
            digest = added(digest, section.data()?);
        }
        Ok(Some(format!("{digest:016x}")))
    }
}

/// The offset basis, and below the prime (draft-eastlake-fnv, 5 and 3).
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

fn added(digest: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(digest, |digest, byte| (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standard() {
        // From the authors' test vectors (draft-eastlake-fnv, appendix C).
        for (text, digest) in [("", OFFSET), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)]
        {
            assert_eq!(added(OFFSET, text.as_bytes()), digest, "{text}");
        }
    }

    #[test]
    fn a_program_has_one() {
        let own = std::env::current_exe().expect("known");
        let digest = crate::with_elf(&own, TextDigest).expect("readable").expect("not too large");
        assert!(digest.len() == 16 && crate::with_elf(&own, TextDigest).expect("readable") == Some(digest));
    }
}
