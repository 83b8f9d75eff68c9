//! Bad pointers, in machine code and in guarded accesses.

use super::{
    Fault, copy, load_u8, load_u16, load_u32, load_u64, store_u8, store_u16, store_u32, store_u64, watch,
};
use crate::arch::changed_registers;
use crate::code::tests::{code, run};
use mote_jit::HelperPlace;
use std::vec::Vec;

/// Addresses of which nothing is mapped: null, the first page, a hole, not canonical, the kernel's, the very end.
const BAD: [u64; 6] = [0, 8, 0x1000_0000_0000, 0x8000_0000_0000_0000, 0xffff_8000_0000_0000, u64::MAX];

/// What loads of 1, 2, 4 and 8 bytes return.
fn loads(at: u64) -> [Result<u64, Fault>; 4] {
    // SAFETY: nothing else writes what the tests read.
    let byte = unsafe { load_u8(at) };
    // SAFETY: as above.
    let half = unsafe { load_u16(at) };
    // SAFETY: as above.
    let word = unsafe { load_u32(at) };
    // SAFETY: as above.
    let double = unsafe { load_u64(at) };
    [byte.map(u64::from), half.map(u64::from), word.map(u64::from), double]
}

/// What stores of 1, 2, 4 and 8 bytes return.
fn stores(at: u64, value: u64) -> [Result<(), Fault>; 4] {
    // SAFETY: what the tests write is theirs, or not there.
    let double = unsafe { store_u64(at, value) };
    // SAFETY: as above.
    let word = unsafe { store_u32(at, !value as u32) };
    // SAFETY: as above.
    let half = unsafe { store_u16(at, value as u16) };
    // SAFETY: as above.
    let byte = unsafe { store_u8(at, !value as u8) };
    [byte, half, word, double]
}

#[test]
fn accesses_answer_faults() {
    assert!(watch());
    let mut words = [0x8877_6655_4433_2211u64, 0x99];
    let at = words.as_mut_ptr() as u64;
    assert_eq!(loads(at + 1), [0x22, 0x3322, 0x5544_3322, 0x9988_7766_5544_3322].map(Ok));
    assert_eq!(stores(at + 1, 0x0102_0304_0506_0708), [Ok(()); 4]);
    assert_eq!(loads(at), [0x11, 0xf711, 0xf907_f711, 0x0203_04fa_f907_f711].map(Ok));
    for bad in BAD {
        assert_eq!(loads(bad), [Err(Fault::Memory); 4], "{bad:#x}");
        assert_eq!(stores(bad, 1), [Err(Fault::Memory); 4], "{bad:#x}");
    }
}

#[test]
fn copies_stop_at_the_end_of_a_page() {
    assert!(watch());
    let pages = mote_sys::mem::Mapping::private(2 * 4096).unwrap();
    let end = pages.base() as usize + 4096;
    // Not unmapped: another test could be given its place.
    // SAFETY: the second page is ours, and no thread uses it.
    unsafe { mote_sys::raw::syscall(libc::SYS_mprotect, [end, 4096, libc::PROT_NONE as usize, 0, 0, 0]) }
        .unwrap();
    for bytes in 0..40usize {
        // SAFETY: the bytes before `end` are ours.
        unsafe { ((end - bytes) as *mut u8).write_bytes(bytes as u8, bytes) };
        let mut to = [0u8; 48];
        // SAFETY: `to` is longer.
        assert_eq!(unsafe { copy(to.as_mut_ptr(), (end - bytes) as u64, bytes) }, Ok(()));
        assert!(to[..bytes].iter().all(|one| *one == bytes as u8));
        // SAFETY: as before; the last byte is not there.
        let one_more = unsafe { copy(to.as_mut_ptr(), (end - bytes) as u64, bytes + 1) };
        assert_eq!(one_more, Err(Fault::Memory));
    }
}

extern "C" fn nothing() -> u64 {
    0
}

#[test]
fn faults_in_machine_code_bring_all_registers_back() {
    let helper = HelperPlace { address: nothing as *const () as u64, faults: false };
    let texts = [
        // Without a frame, and with each kind of one.
        "r0 = *(u64 *)(r1 + 0)\nexit",
        "r0 = *(u8 *)(r1 + 3)\nif r0 != 7 goto +1\nexit\nr0 = 1\nexit",
        "r6 = 1\nr7 = 2\nr8 = 3\nr9 = 4\nr0 = *(u64 *)(r1 + 0)\nexit",
        "r7 = 2\n*(u64 *)(r10 - 8) = r1\nr0 = *(u64 *)(r1 + 0)\nexit",
        "*(u64 *)(r10 - 8) = r1\nr0 = *(u64 *)(r1 + 0)\nexit",
        "r6 = r1\ncall 9\n*(u64 *)(r6 + 0) = 1\nexit",
        "r6 = r1\nr9 = 5\n*(u64 *)(r10 - 512) = r1\ncall 9\nr1 = 1\nlock *(u64 *)(r6 + 0) += r1\nexit",
        "r8 = r1\ncall one\nexit\none: r6 = 1\nr9 = 2\ncall two\nr0 += r9\nexit\n\
         two: *(u64 *)(r10 - 16) = r1\nr7 = *(u32 *)(r1 + 0)\nr0 = r7\nexit",
    ];
    for text in texts {
        let code = code(text, &[(9, helper)]);
        for bad in BAD {
            assert_eq!(changed_registers(&code, bad), (0, Fault::Memory as u64), "{text}");
            assert_eq!(run(&code, bad, 0).fault, Fault::Memory as u64, "{text}");
        }
        let mut word = 7u64;
        assert_eq!(changed_registers(&code, &raw mut word as u64), (0, 0), "{text}");
    }
}

#[test]
fn images_come_and_go_while_others_fault() {
    let threads: Vec<_> = (0..4)
        .map(|at| {
            std::thread::spawn(move || {
                for _ in 0..300 {
                    let code = code("r0 = *(u64 *)(r1 + 0)\nexit", &[]);
                    assert_eq!(run(&code, at * 8, 0).fault, Fault::Memory as u64);
                    let word = 7u64;
                    assert_eq!(run(&code, &raw const word as u64, 0).r0, 7);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
