//! A library that carries events, to be loaded by `dlopen`; and functions whose machine code is looked at.

/// Emits `count` events.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_work(count: u64) {
    for seq in 0..count {
        // A site of eight that lie anyhow cannot be switched beside threads that block all signals.
        // SAFETY: no instruction but NOPs.
        unsafe { std::arch::asm!(".p2align 3", options(nomem, nostack, preserves_flags)) };
        mote::event!(plugin::work, seq: u64 = seq, name: &str = "from the plugin");
    }
}

/// One disabled site in a leaf function that is otherwise one instruction.
#[unsafe(no_mangle)]
pub extern "C" fn golden_leaf(a: u64, b: u64) -> u64 {
    mote::event!(golden::leaf, a: u64 = a, b: u64 = b);
    a & b
}

/// The same without the event.
#[unsafe(no_mangle)]
pub extern "C" fn golden_leaf_bare(a: u64, b: u64) -> u64 {
    a & b
}

/// Fields that cost much to make: they must not be made while the event is off.
#[unsafe(no_mangle)]
pub extern "C" fn golden_costly(a: u64, b: u64) -> u64 {
    mote::event!(golden::costly, text: &str = &format!("{a} {b}"), many: &[u64] = &vec![a; b as usize]);
    a ^ b
}

/// The same without the event.
#[unsafe(no_mangle)]
pub extern "C" fn golden_costly_bare(a: u64, b: u64) -> u64 {
    a ^ b
}

/// A site in a loop of real work.
///
/// # Safety
/// `numbers` must point to `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn golden_loop(numbers: *const u64, count: usize) -> u64 {
    // SAFETY: the caller's promise.
    let numbers = unsafe { std::slice::from_raw_parts(numbers, count) };
    numbers.iter().fold(1, |sum: u64, number| {
        mote::event!(golden::turn, sum: u64 = sum, number: u64 = *number);
        sum.wrapping_mul(31) ^ number
    })
}

mote::tracepoint! {
    /// Declared once.
    pub declared in golden { a: u64 }
}

/// A declared event.
#[unsafe(no_mangle)]
pub extern "C" fn golden_declared(a: u64, b: u64) -> u64 {
    mote::emit!(declared, a);
    a | b
}

/// The same without the event.
#[unsafe(no_mangle)]
pub extern "C" fn golden_declared_bare(a: u64, b: u64) -> u64 {
    a | b
}

static SWITCH: mote::Switch = mote::Switch::new();

/// A switch of the program's own, which is off.
#[unsafe(no_mangle)]
pub extern "C" fn golden_switched(a: u64, b: u64) -> u64 {
    if mote::is_on!(SWITCH) {
        return a.wrapping_mul(b).rotate_left(7);
    }
    a.wrapping_sub(b)
}

/// The same without the switch.
#[unsafe(no_mangle)]
pub extern "C" fn golden_switched_bare(a: u64, b: u64) -> u64 {
    a.wrapping_sub(b)
}

/// Quick text.
#[unsafe(no_mangle)]
pub extern "C" fn golden_note(a: u64, b: u64) -> u64 {
    mote::note!("in a function of two numbers");
    a | b
}

/// The same without the text.
#[unsafe(no_mangle)]
pub extern "C" fn golden_note_bare(a: u64, b: u64) -> u64 {
    a | b
}
