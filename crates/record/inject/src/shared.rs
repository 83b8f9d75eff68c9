//! What the code that is sent into a process shares with us (`visit`, `descriptor`, and the code itself in `arch`).

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
    /// How far the work is (32 bits): 0, [`FILES`], [`GO`], [`WAITS`], [`JOIN`], [`DONE`] [`FAILED`] or
    /// [`TAKEN`].
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
    /// What was done, or not, was read.
    pub(crate) const TAKEN: u32 = 7;
    /// How often it is looked whether it may go on, every millisecond.
    pub(crate) const LOOKS: u32 = 20_000;
}

/// What the code has that makes a descriptor.
pub(crate) mod descriptor {
    /// The words behind it: why the call was interrupted (`mote_layout::join::restart`).
    pub(crate) const KIND: usize = 0;
    /// The number of the call that makes the descriptor, and its first two arguments.
    pub(crate) const CALL: usize = 8;
    /// A name for the call.
    pub(crate) const NAME: usize = 32;
    /// Bytes for it, with its NUL.
    pub(crate) const NAME_BYTES: usize = 16;
    /// Filled in while it waits. Not 0 when it may go on: one more than the steps that are to be done.
    pub(crate) const GO: usize = NAME + NAME_BYTES;
    /// Where in the file of the descriptor the list of them is: a multiple of a page.
    pub(crate) const LIST: usize = GO + 8;
    /// Bytes of all words.
    pub(crate) const WORDS_BYTES: usize = LIST + 8;
    /// How long it waits before it looks whether it may go on.
    pub(crate) const PAUSE_NS: u32 = 1_000_000;
    /// How often it does.
    pub(crate) const LOOKS: u32 = 1000;
    /// The first argument of the call in which it waits, ppoll(2), for which it has no meaning there.
    pub(crate) const MARK: u32 = 0x6d6f_7465;
    /// Which argument the descriptor is, or an error below 0: one without a meaning, too.
    pub(crate) const MADE: usize = 4;
    /// A system call that is to be made, as it lies in the list: its fifth argument is the descriptor.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(C)]
    pub(crate) struct Step {
        /// Its number.
        pub(crate) number: u64,
        /// Its first four arguments.
        pub(crate) arguments: [u64; 4],
        /// The sixth.
        pub(crate) offset: u64,
        /// What it has to return, if more steps are to follow.
        pub(crate) wanted: u64,
        /// So that their number says how many bytes they are.
        filler: u64,
    }

    impl Step {
        pub(crate) const BYTES: usize = size_of::<Step>();

        /// Maps a part of the file: whole pages, at an address where nothing is.
        pub(crate) fn map(address: u64, len: u64, protection: i32, offset: u64) -> Step {
            let flags = libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE;
            Step {
                number: libc::SYS_mmap as u64,
                arguments: [address, len, protection as u64, flags as u64],
                offset,
                // Kernels before 4.17 take the address for a wish.
                wanted: address,
                filler: 0,
            }
        }

        /// Unmaps whole pages.
        pub(crate) fn unmap(address: u64, len: u64) -> Step {
            let number = libc::SYS_munmap as u64;
            Step { number, arguments: [address, len, 0, 0], offset: 0, wanted: 0, filler: 0 }
        }

        /// As it lies in the list.
        pub(crate) fn to_bytes(self) -> [u8; Step::BYTES] {
            let [a, b, c, d] = self.arguments;
            let words = [self.number, a, b, c, d, self.offset, self.wanted, self.filler];
            let mut bytes = [0; Step::BYTES];
            bytes.copy_from_slice(words.map(u64::to_le_bytes).as_flattened());
            bytes
        }
    }
}
