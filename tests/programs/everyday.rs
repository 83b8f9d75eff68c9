//! What the everyday commands of the documents are tried with: `app [forever]` has events, a function and static
//! probes of the names that the documents use.

use std::ffi::{CStr, c_char};
use std::hint::black_box;
use std::time::Duration;

/// A static probe as sys/sdt.h of SystemTap makes it: a NOP, and a note about it. Its argument is a text.
macro_rules! static_probe {
    ($provider:literal, $name:literal, $text:expr) => {
        // SAFETY: the instruction is a NOP; the rest goes into sections that only tracers read.
        unsafe {
            std::arch::asm!(
                "990: nop",
                ".pushsection .note.stapsdt, \"\", \"note\"",
                ".balign 4",
                ".4byte 992f-991f, 994f-993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b, 0, 0",
                concat!(".asciz \"", $provider, "\", \"", $name, "\", \"8@%rdi\""),
                "994: .balign 4",
                ".popsection",
                in("rdi") CStr::as_ptr($text),
                options(att_syntax, nostack, preserves_flags)
            )
        }
    };
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn work(id: i32, path: *const c_char) -> bool {
    black_box(id) > 0 && !black_box(path).is_null()
}

fn step(number: u32) {
    mote::event!(net::packet, len: u32 = number % 100 * 100);
    mote::event!(net::noise, number: u32 = number);
    mote::event!(disk::read, number: u32 = number);
    work(number as i32, c"/tmp/file".as_ptr());
    static_probe!("p", "name", c"text");
    static_probe!("postgresql", "query__start", c"select 1");
    std::thread::sleep(Duration::from_millis(1));
}

fn main() {
    let is_forever = std::env::args().nth(1).is_some_and(|word| word == "forever");
    (0..).take_while(|number| is_forever || *number < 200).for_each(step);
}
