//! What the code that is sent into a process shares with us (`visit`, `track`, and the code itself in `arch`).

/// The words behind the code, in bytes from the first one: filled in with it, but for the last two.
pub(crate) mod words {
    /// Where the memory is to be.
    pub(crate) const AREA: usize = 0;
    /// Functions of the C library.
    pub(crate) const PTHREAD_CREATE: usize = 8;
    /// See above.
    pub(crate) const PTHREAD_SELF: usize = 16;
    /// See above.
    pub(crate) const PTHREAD_DETACH: usize = 24;
    /// See above.
    pub(crate) const ERRNO_LOCATION: usize = 32;
    /// See above.
    pub(crate) const DLOPEN: usize = 40;
    /// See above.
    pub(crate) const DLSYM: usize = 48;
    /// See above.
    pub(crate) const DLERROR: usize = 56;
    /// Why the call was interrupted (`mote_layout::join::restart`).
    pub(crate) const KIND: usize = 64;
    /// `mote_load_functions` and `mote_join_` of a library of ours that is there already, or 0; filled in before
    /// [`super::area::GO`].
    pub(crate) const LOAD_FUNCTIONS: usize = 72;
    /// See above.
    pub(crate) const JOIN: usize = 80;
    /// How many they are.
    pub(crate) const COUNT: usize = 11;
    /// The functions, from [`PTHREAD_CREATE`] on.
    pub(crate) const FUNCTIONS: [&str; 7] = [
        "pthread_create",
        "pthread_self",
        "pthread_detach",
        "__errno_location",
        "dlopen",
        "dlsym",
        "dlerror",
    ];
}

/// The memory that the code maps, in bytes from its begin.
pub(crate) mod area {
    /// All of it; its end is a stack.
    pub(crate) const BYTES: usize = 64 << 10;
    /// How far the work is (32 bits): 0, [`FILES`], [`GO`], [`WAITS`], [`JOIN`], [`DONE`] or [`FAILED`].
    pub(crate) const STATE: usize = 0;
    /// Whether the thread that was sent has left the memory (32 bits).
    pub(crate) const LEFT: usize = 4;
    /// What `pthread_create` has returned.
    pub(crate) const MADE: usize = 8;
    /// The thread that it has made.
    pub(crate) const THREAD: usize = 16;
    /// The files' descriptors.
    pub(crate) const LIBRARY: usize = 24;
    /// See above.
    pub(crate) const PLAN: usize = 32;
    /// What `dlopen` has returned.
    pub(crate) const HANDLE: usize = 40;
    /// What `mote_load_functions` has returned.
    pub(crate) const LOADED: usize = 48;
    /// What `mote_join_` has returned.
    pub(crate) const JOINED: usize = 56;
    /// Where a text is that says why `dlopen` has failed.
    pub(crate) const WHY: usize = 64;
    /// Bytes of the plan, and how many memories it has.
    pub(crate) const PLAN_BYTES: usize = 72;
    /// See above.
    pub(crate) const PLAN_MEMORIES: usize = 80;
    /// For signals.
    pub(crate) const PENDING: usize = 96;
    /// Texts of the recorder.
    pub(crate) const LIBRARY_PATH: usize = 128;
    /// See above.
    pub(crate) const PLAN_PATH: usize = 192;
    /// Where the session is; empty where the program's environment says that.
    pub(crate) const PLACE: usize = 256;
    /// Bytes for it.
    pub(crate) const PLACE_BYTES: usize = 256;

    /// There are files.
    pub(crate) const FILES: u32 = 1;
    /// They are whole.
    pub(crate) const GO: u32 = 2;
    /// All was done.
    pub(crate) const DONE: u32 = 3;
    /// Something was not done.
    pub(crate) const FAILED: u32 = 4;
    /// The library is there, and is to join a session when it may.
    pub(crate) const WAITS: u32 = 5;
    /// It may.
    pub(crate) const JOIN: u32 = 6;
    /// How often it is looked whether it may go on, every millisecond.
    pub(crate) const LOOKS: u32 = 20_000;
}

/// What the code has that makes a userfaultfd(2).
pub(crate) mod track {
    /// The one word behind it: why the call was interrupted (`mote_layout::join::restart`).
    pub(crate) const KIND: usize = 0;
    /// How long it waits before it looks whether it may go on.
    pub(crate) const PAUSE_NS: u32 = 1_000_000;
    /// How often it does.
    pub(crate) const LOOKS: u32 = 1000;
    /// The third argument of the call in which it waits, which has no meaning for the kernel.
    pub(crate) const MARK: u32 = 0x6d6f_7465;
    /// Which argument the descriptor is, or an error below 0.
    pub(crate) const MADE: usize = 4;
}
