//! Where the calls of a function are counted, for the code of its probe; the memory is that of `counts`.

/// Where calls of one function are counted. Stays for good.
#[repr(C)]
#[derive(Debug)]
pub struct Counter {
    /// By CPU: how many bytes its row is behind the first one. Before these, for the CPU numbers of threads that have
    /// no restartable sequences, -1 and -2, and for CPUs without a row: 0.
    pub rows: *const usize,
    /// The function's words in the first row, which all threads share.
    pub at: *mut u64,
}

// SAFETY: both stay for good; the words behind them are used as atomics, or by restartable sequences.
unsafe impl Sync for Counter {}
