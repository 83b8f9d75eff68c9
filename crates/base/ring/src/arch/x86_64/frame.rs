//! What all sequences begin and end with.

/// Opens a sequence: descriptor, then `2:` where it can be restarted, then the CPU's ring in {c} and {d}. The abort
/// handler `4:` lies in the function, not in a section of its own: a signal's handler returns there, and code that
/// unwinds the stack from it (`pthread_exit`, cancellation) must find the frame described. `5:` is where the sequence
/// ends, behind its commit; `7:` leaves as `NO_RING`, `8:` as `NO_ROOM`, `17:` as `LATE`, `18:` as `NO_CLOCK`: the
/// handler of SIGSEGV goes there (`mote_sys::tsc`), because RDTSC is the only instruction that raises a general
/// protection fault.
macro_rules! sequence {
    ($($line:literal),* ; commit $commit:literal ; $($operand:tt)*) => {
        ::core::arch::asm!(
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "2:",
            ".long 0, 0",
            ".quad 3f, (5f - 3f), 4f",
            ".popsection",
            "6:",
            "lea {x}, [rip + 2b]",
            "mov [{rs} + {RSEQ_CS}], {x}",
            "3:",
            "mov {ch}, [{wr} + {LIVE}]",
            "mov {x:e}, [{rs} + {CPU_ID}]",
            "cmp {x:e}, [{ch} + {CPUS}]",
            "jae 7f",
            "shl {x}, {RING_SHIFT}",
            "add {x}, {ch}",
            "mov {c}, [{x} + {TABLE}]",
            $($line,)*
            $commit,
            "5:",
            "xor eax, eax",
            "jmp 9f",
            ".byte 0x0f, 0xb9, 0x3d",
            ".long {SIGNATURE}",
            "4:",
            "jmp 6b",
            mote_sys::exception!(mote_clocks, "4b" => "18f"),
            "18:",
            "mov eax, {NO_CLOCK}",
            "jmp 9f",
            "7:",
            "mov eax, {NO_RING}",
            "jmp 9f",
            "17:",
            "mov eax, {LATE}",
            "jmp 9f",
            "8:",
            "mov eax, {NO_ROOM}",
            "9:",
            RSEQ_CS = const ::mote_sync::rseq::RSEQ_CS,
            CPU_ID = const ::mote_sync::rseq::CPU_ID,
            CPUS = const ::core::mem::offset_of!(crate::writer::Rings, cpus),
            LIVE = const crate::writer::Writer::RINGS_AT,
            TABLE = const crate::writer::TABLE_AT,
            RING_SHIFT = const crate::control::RING_SHIFT,
            SIGNATURE = const ::mote_sync::rseq::SIGNATURE,
            NO_RING = const crate::sequence::NO_RING,
            NO_ROOM = const crate::sequence::NO_ROOM,
            LATE = const crate::sequence::LATE,
            NO_CLOCK = const crate::sequence::NO_CLOCK,
            $($operand)*
        )
    };
}
pub(super) use sequence;
