//! What a recording is on disk: directories and files, made in one place ([`folder`]), and the sinks that streams write
//! to.

pub(crate) mod directory;
pub(crate) mod folder;
pub(crate) mod memory;
pub mod metadata;
pub(crate) mod owner;
pub(crate) mod packets;
pub(crate) mod path;
pub(crate) mod records;
pub(crate) mod sink;
pub(crate) mod streams;
