//! A program with a kernel, of a few bytes each, and the packets of what a processor would do with them.

#[path = "support/small.rs"]
mod small;

use mote_capture::{Note, Of, What};
use mote_hardware::paths::{FunctionId, Functions, PathSink, ROOT, Syscalls, Tree, Walker, Whole};
use mote_hardware::{Function, Program, Running};
use mote_pt::flow::Flow;
use mote_pt::packet::Packet;
use mote_pt::packet::ip::{Compression, Ip};
use mote_pt::time::Timed;
use small::Small;

const KERNEL: u64 = 0xffff_ffff_8100_0000;

/// The program and the kernel.
fn program() -> Small {
    Small::new(&[
        // call work; syscall; nop; call jumper; hlt
        (0x1000, "main", &[0xe8, 0x0b, 0, 0, 0, 0x0f, 0x05, 0x90, 0xe8, 0x13, 0, 0, 0, 0xf4]),
        (0x1010, "work", &[0x90, 0xc3]),
        // jmp target
        (0x1020, "jumper", &[0xeb, 0x0e]),
        (0x1030, "target", &[0x90, 0x90, 0xc3]),
        (0x1040, "handler", &[0x90, 0xc3]),
        // mov $15, %eax; syscall
        (0x1050, "__restore_rt", &[0xb8, 15, 0, 0, 0, 0x0f, 0x05]),
        // call do_syscall_64; sysretq
        (KERNEL, "entry_SYSCALL_64", &[0xe8, 0x1b, 0, 0, 0, 0x48, 0x0f, 0x07]),
        // call the thunk; ret
        (KERNEL + 0x20, "do_syscall_64", &[0xe8, 0x1b, 0, 0, 0, 0xc3]),
        // call behind the loop; pause; jmp; nop; ret
        (
            KERNEL + 0x40,
            "__x86_indirect_thunk_rax",
            &[0xe8, 0x04, 0, 0, 0, 0xf3, 0x90, 0xeb, 0xfc, 0x90, 0xc3],
        ),
        (KERNEL + 0x60, "__x64_sys_getpid", &[0x90, 0xc3]),
        (KERNEL + 0x70, "__x64_sys_rt_sigreturn", &[0x90, 0xc3]),
        // nop; iretq
        (KERNEL + 0x80, "asm_interrupt", &[0x90, 0x48, 0xcf]),
    ])
}

fn ip(address: u64) -> Ip {
    Ip { compression: Compression::Full, bits: address }
}

fn tips(addresses: &[u64]) -> Vec<Packet> {
    addresses.iter().map(|address| Packet::Tip(ip(*address))).collect()
}

fn begin() -> Vec<Packet> {
    vec![Packet::Psb, Packet::PsbEnd, Packet::TipPge(ip(0x1000))]
}

/// A system call: of the function at this address.
fn system_call(function: u64) -> Vec<Packet> {
    tips(&[KERNEL, function, KERNEL + 0x25, KERNEL + 5])
}

/// Gives what the packets say to a sink.
fn walk<S: PathSink>(packets: Vec<Packet>, notes: &[Note], of: Of, sink: S) -> (Functions, S) {
    let program = program();
    let mut walker = Walker::new(&program, Functions::default(), Running::of(notes, of), sink);
    let items = (0..).zip(packets).map(|(offset, packet)| (offset, Ok::<_, ()>(packet)));
    Flow::new(items, &program).run(&mut Timed::new(&mut walker, std::iter::empty()));
    walker.finish()
}

/// Paths with their own instructions, and how often they were called.
fn shown(functions: &Functions, tree: &Tree) -> Vec<String> {
    let mut lines: Vec<String> = (1..tree.nodes().len() as u32)
        .map(|number| {
            let path: Vec<&str> =
                tree.path(number, functions).iter().map(|named| named.name.as_str()).collect();
            let node = &tree.nodes()[number as usize];
            format!("{} {} {}", path.join(";"), node.instructions, node.calls)
        })
        .collect();
    lines.sort();
    lines
}

/// A call, a system call through a retpoline with an interrupt in it, and a function that goes on as another one.
fn packets() -> Vec<Packet> {
    let mut packets = begin();
    packets.extend(tips(&[0x1005, KERNEL, KERNEL + 0x60]));
    packets.extend([Packet::Fup(ip(KERNEL + 0x61)), Packet::Tip(ip(KERNEL + 0x80))]);
    packets.extend(tips(&[KERNEL + 0x61, KERNEL + 0x25, KERNEL + 5, 0x1007, 0x100d]));
    packets
}

#[test]
fn paths_are_those_of_the_calls() {
    let (functions, whole) = walk(packets(), &[], Of::Thread(7), Whole::default());
    let expect = [
        "main 4 0",
        "main;entry_SYSCALL_64 2 1",
        "main;entry_SYSCALL_64;do_syscall_64 2 1",
        "main;entry_SYSCALL_64;do_syscall_64;__x64_sys_getpid 2 1",
        "main;entry_SYSCALL_64;do_syscall_64;__x64_sys_getpid;asm_interrupt 2 1",
        "main;entry_SYSCALL_64;do_syscall_64;__x86_indirect_thunk_rax 1 1",
        "main;entry_SYSCALL_64;do_syscall_64;__x86_indirect_thunk_rax;__x86_indirect_thunk_rax 2 1",
        "main;jumper 1 1",
        "main;target 3 1",
        "main;work 2 1",
    ];
    assert_eq!(shown(&functions, &whole.tree), expect);
}

#[test]
fn system_calls_have_their_names_and_paths() {
    let (functions, syscalls) = walk(packets(), &[], Of::Thread(7), Syscalls::default());
    let getpid = &syscalls.calls["getpid"];
    let instructions = [getpid.instructions.min(), getpid.instructions.max()];
    assert_eq!((getpid.instructions.count(), instructions, syscalls.open), (1, [Some(11); 2], 0));
    // No packet of time: no time, and not 0.
    assert_eq!((getpid.least_ns.count(), getpid.most_ns.count()), (0, 0));
    let shown = shown(&functions, &syscalls.tree);
    assert_eq!(shown[0], "getpid 0 1");
    assert!(
        shown
            .contains(&"getpid;entry_SYSCALL_64;do_syscall_64;__x64_sys_getpid;asm_interrupt 2 1".to_owned())
    );
    assert_eq!(syscalls.tree.totals()[ROOT as usize], 11);
}

#[test]
fn a_handler_is_a_call_where_the_program_was() {
    let mut packets = begin();
    packets.extend(tips(&[0x1005]));
    packets.extend(system_call(KERNEL + 0x60));
    // To the handler; it returns to what makes the system call that goes back.
    packets.extend(tips(&[0x1040, 0x1050]));
    packets.extend(system_call(KERNEL + 0x70));
    packets.extend(tips(&[0x1007, 0x100d]));
    let (functions, whole) = walk(packets.clone(), &[], Of::Thread(7), Whole::default());
    let shown = shown(&functions, &whole.tree);
    let of_main: Vec<&String> = shown.iter().filter(|line| line.matches(';').count() < 2).collect();
    let expect = [
        "main 4 0",
        "main;entry_SYSCALL_64 2 1",
        "main;handler 4 1",
        "main;jumper 1 1",
        "main;target 3 1",
        "main;work 2 1",
    ];
    assert_eq!(of_main, expect);
    let (_, syscalls) = walk(packets, &[], Of::Thread(7), Syscalls::default());
    let calls: Vec<(&str, u64)> =
        syscalls.calls.iter().map(|(name, call)| (name.as_str(), call.instructions.count())).collect();
    assert_eq!(calls, [("getpid", 1), ("rt_sigreturn", 1)]);
}

#[test]
fn each_thread_of_a_processor_has_its_stack() {
    let switch = |tid, instructions| Note {
        pid: 1,
        tid,
        cpu: Some(0),
        instructions: Some(instructions),
        time: None,
        what: What::Switch,
    };
    // In the system call of one, after its 8th instruction, the other comes back from one of its own; and the first
    // goes on later.
    let notes = [switch(1, 0), switch(2, 8), switch(1, 12)];
    let mut packets = begin();
    packets.extend(tips(&[0x1005, KERNEL, KERNEL + 0x60]));
    packets.extend(tips(&[KERNEL + 0x25, KERNEL + 5, 0x1007, 0x100d]));
    let (_, syscalls) = walk(packets.clone(), &notes[..2], Of::Cpu(0), Syscalls::default());
    assert_eq!((syscalls.calls.len(), syscalls.open), (0, 0));
    let (_, syscalls) = walk(packets, &notes[..1], Of::Cpu(0), Syscalls::default());
    let getpid = &syscalls.calls["getpid"].instructions;
    assert_eq!((getpid.count(), getpid.max()), (1, Some(9)));
}

#[test]
fn what_is_lost_ends_no_call() {
    let mut packets = begin();
    packets.extend(tips(&[0x1005, KERNEL, KERNEL + 0x60]));
    packets.extend([Packet::Ovf, Packet::Fup(ip(0x1007))]);
    packets.extend(tips(&[0x100d]));
    let (functions, syscalls) = walk(packets.clone(), &[], Of::Thread(7), Syscalls::default());
    assert_eq!((syscalls.calls.len(), syscalls.open), (0, 1));
    assert!(syscalls.tree.is_empty() && functions.get(FunctionId::default()).name == "main");
    // A system call whose kernel side is not traced.
    let mut packets = begin();
    packets.extend(tips(&[0x1005]));
    packets.extend([
        Packet::TipPgd(Ip { compression: Compression::Suppressed, bits: 0 }),
        Packet::TipPge(ip(0x1007)),
    ]);
    packets.extend(tips(&[0x100d]));
    let (_, syscalls) = walk(packets.clone(), &[], Of::Thread(7), Syscalls::default());
    assert_eq!((syscalls.calls.len(), syscalls.untraced), (0, 1));
    let (functions, whole) = walk(packets, &[], Of::Thread(7), Whole::default());
    assert_eq!(
        shown(&functions, &whole.tree),
        ["main 4 0", "main;jumper 1 1", "main;target 3 1", "main;work 2 1"]
    );
}
