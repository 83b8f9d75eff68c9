//! What a recorder needs of the kernel; and the kernel itself. [`crate::simulated`] is another one.

use mote_clock::{Sample, Source};
use mote_perfdata::Attribute;
use mote_sys::fd::Fd;
use mote_sys::{Errno, perf};
use std::ffi::CStr;
use std::time::Duration;

/// The calls of perf_event_open(2). What is opened can be mapped as [`mote_sys::perf_ring`] does.
pub trait Machine {
    /// Opens an event of a thread (0: the calling one, -1: all) on a CPU (-1: any).
    ///
    /// # Errors
    /// As perf_event_open(2).
    fn open(&mut self, attribute: &Attribute, thread: i32, cpu: i32) -> Result<Fd, Errno>;

    /// Sends the records of an event to the memory of another one.
    ///
    /// # Errors
    /// As ioctl(2).
    fn send_to(&mut self, event: &Fd, other: &Fd) -> Result<(), Errno>;

    /// Limits an event to addresses.
    ///
    /// # Errors
    /// As [`perf::set_filter`].
    fn filter(&mut self, event: &Fd, filter: &CStr) -> Result<(), Errno>;

    /// Switches an event on, also one that has stopped because its memory was full.
    ///
    /// # Errors
    /// As ioctl(2).
    fn enable(&mut self, event: &Fd) -> Result<(), Errno>;

    /// Switches an event off.
    ///
    /// # Errors
    /// As ioctl(2).
    fn disable(&mut self, event: &Fd) -> Result<(), Errno>;

    /// Lets so much time pass: memory has room for more than is written in it.
    fn wait(&mut self, time: Duration);

    /// The time stamp counter beside the kernel's clocks; nothing where nobody knows that.
    fn clocks(&self) -> Option<Sample> {
        None
    }
}

/// One of several kinds of machine.
pub type AnyMachine = Box<dyn Machine + Send>;

impl Machine for AnyMachine {
    fn open(&mut self, attribute: &Attribute, thread: i32, cpu: i32) -> Result<Fd, Errno> {
        (**self).open(attribute, thread, cpu)
    }

    fn send_to(&mut self, event: &Fd, other: &Fd) -> Result<(), Errno> {
        (**self).send_to(event, other)
    }

    fn filter(&mut self, event: &Fd, filter: &CStr) -> Result<(), Errno> {
        (**self).filter(event, filter)
    }

    fn enable(&mut self, event: &Fd) -> Result<(), Errno> {
        (**self).enable(event)
    }

    fn disable(&mut self, event: &Fd) -> Result<(), Errno> {
        (**self).disable(event)
    }

    fn wait(&mut self, time: Duration) {
        (**self).wait(time);
    }

    fn clocks(&self) -> Option<Sample> {
        (**self).clocks()
    }
}

/// The kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Linux;

impl Machine for Linux {
    fn open(&mut self, attribute: &Attribute, thread: i32, cpu: i32) -> Result<Fd, Errno> {
        perf::open_attribute(&attribute.write(), thread, cpu)
    }

    fn send_to(&mut self, event: &Fd, other: &Fd) -> Result<(), Errno> {
        perf::send_to(event, other)
    }

    fn filter(&mut self, event: &Fd, filter: &CStr) -> Result<(), Errno> {
        perf::set_filter(event, filter)
    }

    fn enable(&mut self, event: &Fd) -> Result<(), Errno> {
        perf::enable(event)
    }

    fn disable(&mut self, event: &Fd) -> Result<(), Errno> {
        perf::disable(event)
    }

    fn wait(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    fn clocks(&self) -> Option<Sample> {
        Some(Sample::take(Source::Tsc))
    }
}
