//! What tests of the command share.

/// Whether it says that it has not the rights that it needs of the kernel; says so as a skip.
pub(crate) fn lacks_rights(said: &str) -> bool {
    let lacks = said.contains("are missing") || said.contains(" missing; run as root");
    if lacks {
        mote_skip::skip(said);
    }
    lacks
}
