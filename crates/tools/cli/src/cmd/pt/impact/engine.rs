//! What runs the program, and counts.

use clap::ValueEnum;

/// What runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Engine {
    /// qemu-user with a plugin.
    Qemu,
    /// qemu-system with a plugin, and a kernel.
    System,
}

impl Engine {
    /// As `mote pt synth` takes it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Engine::Qemu => "qemu",
            Engine::System => "system",
        }
    }
}
