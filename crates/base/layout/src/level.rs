//! Log levels: LTTng's fifteen, of which Rust and most C programs use five.

/// How important an event is; smaller is more important (syslog(3), then LTTng's debug levels).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// System is unusable.
    Emergency = 0,
    /// Action must be taken immediately.
    Alert = 1,
    /// Critical condition.
    Critical = 2,
    /// Error condition.
    Error = 3,
    /// Warning condition.
    Warning = 4,
    /// Normal but significant.
    Notice = 5,
    /// Informational; the default of mote's events.
    Info = 6,
    /// Debugging: one system (`DEBUG_SYSTEM`), and so on down to a line of code.
    DebugSystem = 7,
    /// Debugging: one program.
    DebugProgram = 8,
    /// Debugging: one process.
    DebugProcess = 9,
    /// Debugging: one module.
    DebugModule = 10,
    /// Debugging: one unit.
    DebugUnit = 11,
    /// Debugging: one function.
    DebugFunction = 12,
    /// Debugging: one line (LTTng's default).
    DebugLine = 13,
    /// Debugging.
    Debug = 14,
}

impl Level {
    /// All levels, most important first.
    pub const ALL: [Level; 15] = [
        Level::Emergency,
        Level::Alert,
        Level::Critical,
        Level::Error,
        Level::Warning,
        Level::Notice,
        Level::Info,
        Level::DebugSystem,
        Level::DebugProgram,
        Level::DebugProcess,
        Level::DebugModule,
        Level::DebugUnit,
        Level::DebugFunction,
        Level::DebugLine,
        Level::Debug,
    ];

    /// The level with the number `number`, as traces store it.
    pub fn from_number(number: u8) -> Option<Level> {
        Level::ALL.get(usize::from(number)).copied()
    }

    /// The names as labels of the numbers (`mote_layout::parse::Labels`), with what other tools call them.
    pub const LABELS: &'static str = "emerg=0 alert=1 crit=2 err=3 warning=4 notice=5 info=6 debug_system=7 debug_program=8 \
        debug_process=9 debug_module=10 debug_unit=11 debug_function=12 debug_line=13 debug=14 error=3 warn=4 trace=14";

    /// LTTng's name without the `TRACE_` prefix, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Emergency => "emerg",
            Level::Alert => "alert",
            Level::Critical => "crit",
            Level::Error => "err",
            Level::Warning => "warning",
            Level::Notice => "notice",
            Level::Info => "info",
            Level::DebugSystem => "debug_system",
            Level::DebugProgram => "debug_program",
            Level::DebugProcess => "debug_process",
            Level::DebugModule => "debug_module",
            Level::DebugUnit => "debug_unit",
            Level::DebugFunction => "debug_function",
            Level::DebugLine => "debug_line",
            Level::Debug => "debug",
        }
    }
}
