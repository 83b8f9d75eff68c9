//! `pt snapshot`, `profile for`, `fperf`: a request for the last packets of the hardware trace, or for samples
//! ([`mote_layout::packet_requests`]).

use crate::diagnostic::{Diagnostic, Kind, Span};
use crate::emit::code::{Code, Stop};
use crate::target::ContextWord;
use mote_bpf::helper;
use mote_bpf::op::Size;
use mote_builder::{Build, Expr, Local, Memory};
use mote_layout::cooperation::SharedHeader;
use mote_layout::packet_requests::{
    FREE, PATTERNS_MAX, PacketRequest, PacketRequests, READY, SLOT_BYTES, SLOTS, SLOTS_AT, TAKEN,
    functions_wanted, shift_of,
};
use mote_layout::tracer;
use std::mem::offset_of;

/// What a request says, where the program has it on its stack.
struct Request {
    time: Local<u64>,
    thread: Local<u64>,
    cpu: Local<u64>,
    event: Local<u64>,
}

impl Code<'_> {
    /// Asks for samples of the functions of a pattern for so many ns from now on.
    pub(in crate::emit) fn request_functions(&mut self, pattern: &str, ns: u64) -> Result<(), Stop> {
        let number = self.maps.function_pattern_number(pattern);
        if number >= PATTERNS_MAX {
            let message = format!("rules have more than {PATTERNS_MAX} patterns of functions to sample");
            return Err(Stop::Wrong(Box::new(Diagnostic::new(Kind::TooLarge, Span::default(), message))));
        }
        self.request(functions_wanted(number, ns))
    }

    /// Asks for the packets of so many ns before now, or for samples of so many from now on (`PROFILE`, `FUNCTIONS`).
    pub(in crate::emit) fn request(&mut self, ns: u64) -> Result<(), Stop> {
        let request = Request {
            time: Local::at(self.reserve(8)?),
            thread: Local::at(self.reserve(8)?),
            cpu: Local::at(self.reserve(8)?),
            event: Local::at(self.reserve(8)?),
        };
        // First: packets are wanted up to the event, not up to here.
        for (helper, place) in [
            (helper::KTIME_GET_NS, request.time),
            (helper::GET_CURRENT_PID_TGID, request.thread),
            (helper::GET_SMP_PROCESSOR_ID, request.cpu),
        ] {
            let value = self.call_with(helper, ())?;
            self.put(place, value);
        }
        if shift_of(ns) > 0 {
            self.increase(request.cpu, shift_of(ns));
        }
        let number = self.maps.event_number(&self.plan.event);
        if self.is_kernel() {
            let event = self.given(ContextWord::Event(number as u32));
            self.put(request.event, event);
            self.request_packets(ns, &request);
            return Ok(());
        }
        let Request { time, thread, cpu, .. } = request;
        self.call_only(tracer::SNAPSHOT_PACKETS, (ns, number, time, cpu, thread))
    }

    /// Fills the slot of the CPU, if it is free.
    fn request_packets(&mut self, ns: u64, request: &Request) {
        let requests = offset_of!(SharedHeader, packets);
        let refused = self.shared_word(requests + offset_of!(PacketRequests, refused));
        let slots = self.shared_word(requests + SLOTS_AT);
        let of_cpu = (Expr::from(request.cpu) & (SLOTS as u32 - 1)) << SLOT_BYTES.trailing_zeros();
        // Not in `r0`, which a compare-and-swap needs.
        let slot = self.scratch();
        self.set(&slot, slots + of_cpu);
        let word = |at: usize| Memory::new(&slot, at as i32, Size::DW);
        self.block(|code, done| {
            let before = code.compare_exchange(word(offset_of!(PacketRequest, state)), FREE, TAKEN);
            code.when(before.ne(FREE), |code| {
                code.add_atomically(refused.place::<u64>(), 1);
                code.jump(done);
            });
            drop(before);
            for (at, from) in [
                (offset_of!(PacketRequest, time), request.time),
                (offset_of!(PacketRequest, thread), request.thread),
                (offset_of!(PacketRequest, cpu), request.cpu),
                (offset_of!(PacketRequest, event), request.event),
            ] {
                code.put(word(at), from);
            }
            code.put(word(offset_of!(PacketRequest, duration)), ns);
            // Behind all of these.
            drop(code.exchange(word(offset_of!(PacketRequest, state)), READY));
        });
    }
}
