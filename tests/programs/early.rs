//! Emits events from a constructor, before `main`, and from `main` at once.

extern "C" fn constructor() {
    mote::event!(early::constructor, step: u8 = 1);
}

// The array is called before `main` by the C library; entries without priority come after mote's.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

extern "C" fn destructor() {
    mote::event!(early::destructor, step: u8 = 3);
}

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = destructor;

fn main() {
    mote::event!(early::main, step: u8 = 2);
}
