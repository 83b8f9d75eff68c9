//! A processor of the tests: it runs random programs, writes the packets that the SDM says, and knows the truth.

pub(crate) mod clock;
pub(crate) mod machine;
pub(crate) mod program;
pub(crate) mod random;
pub(crate) mod timing;
pub(crate) mod writer;
