//! Files of perf (`perf.data`), read and written; and the records of perf_event_open(2), of which they are made.
//!
//! ```text
//! header ─ attributes with ids, features          (Header, Attribute, Features)
//! data   ─ records of the kernel and of perf      (Record, SampleId)
//!          AUXTRACE ─ pieces of a hardware trace  (Piece: where in the file they lie)
//! ```
//! A file is read from a [`Source`] by offsets, record by record: what a hardware trace has written is never in memory
//! as a whole. Files that perf wrote to a pipe are read, too. One that is cut is read up to there, and says so.
//!
//! | module | job |
//! |---|---|
//! | `bytes` | numbers and texts in records |
//! | `attribute` | `struct perf_event_attr` |
//! | `record` | a record: kinds, parsing, encoding, what is behind it (`sample_id`) |
//! | `header` | the file's first bytes, sections, features |
//! | `reader`, `source` | a file, from somewhere |
//! | `unpack` | records that perf has compressed |
//! | `writer` | a file, to somewhere |
//! | `filter` | which addresses are traced, as perf and the kernel write it |
//! | `intel_pt` | what perf says of Intel PT in `AUXTRACE_INFO`, and its clock |
//!
//! Sources: Linux's tools/perf/Documentation/perf.data-file-format.txt, include/uapi/linux/perf_event.h and
//! tools/lib/perf/include/perf/event.h (6.1). Files of big-endian machines are refused: none of them has Intel PT.
#![forbid(unsafe_code)]

pub mod attribute;
mod bytes;
mod error;
pub mod filter;
pub mod header;
pub mod intel_pt;
mod reader;
pub mod record;
mod source;
mod unpack;
mod writer;

pub use attribute::Attribute;
pub use error::Error;
pub use header::Features;
pub use reader::{Entry, Event, PerfData, Piece, Records};
pub use record::{Record, SampleFormat, SampleId};
pub use source::Source;
pub use writer::{NewPiece, Writer};
