//! The demo's events, declared once.

use super::message::Method;

mote::enumeration!(Method as u8 { Get, Head, Other });

mote::tracepoint! {
    /// A client has connected.
    pub(crate) connection_accepted in http { connection: u64, port: u16 }
    /// The connection was closed by either side.
    pub(crate) connection_closed in http { connection: u64, requests: u32 }
    /// A request was read; request counts from 0 in its connection.
    pub(crate) request_start in http { connection: u64, request: u32, method: Method, path: &str }
    /// Its answer was sent.
    pub(crate) request_done in http { connection: u64, request: u32, status: u16, bytes: u64, nanos: u64 }
    /// A request took longer than it should have.
    pub(crate) request_slow in http(Warning) { connection: u64, request: u32, path: &str, nanos: u64 }
    /// Something that is not HTTP was read.
    pub(crate) request_bad in http(Error) { connection: u64, reason: &str }

    /// A connection waits for a thread; depth counts those that wait.
    pub(crate) job_queued in pool { connection: u64, depth: u32 }
    /// A thread has taken it.
    pub(crate) job_begin in pool { connection: u64, worker: u32, waited_nanos: u64 }
    /// The thread is done with it.
    pub(crate) job_end in pool { connection: u64, worker: u32, nanos: u64 }

    /// The digest of a document was computed.
    pub(crate) digest in content(DebugFunction) { document: u32, bytes: u64, digest: u64 }
    /// All documents were searched for a word.
    pub(crate) search in content { word: &str, documents: u32, hits: u32 }

    /// A client sends a request.
    pub(crate) request_sent in client { client: u32, request: u64, path: &str }
    /// It has got the answer.
    pub(crate) response_received in client { client: u32, request: u64, status: u16, bytes: u64, nanos: u64 }
    /// The answer was not what it should have been.
    pub(crate) response_wrong in client(Error) { client: u32, request: u64, reason: &str }
}
