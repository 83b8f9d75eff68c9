//! Maps without helpers of our own.

use crate::emit::code::{Code, Stop};
use crate::maps::{Entry, dropped_offset};
use mote_bpf::helper::{self, BUCKETS};
use mote_bpf::op::Size;
use mote_builder::{Build, Expr, Local, Memory, Value, bucket, map, map_value};

/// `BPF_NOEXIST`: only when there is no such key.
const NEW: i32 = 1;

impl Code<'_> {
    /// Adds 1 to the value of a key on the stack; counts what does not fit.
    pub(in crate::emit) fn kernel_add_one(&mut self, of: u32, key: i16) -> Result<(), Stop> {
        self.needs_all_registers()?;
        let dropped = self.maps.shared(Entry::dropped());
        let mark = self.stack_mark();
        let one = self.room::<u64>()?;
        let key = Local::<u64>::at(key);
        self.block(|code, done| {
            let found = code.find(of, key);
            code.when(found.ne(0), |code| {
                code.add_atomically(Expr::from(&found).place::<u64>(), 1);
                code.jump(done);
            });
            code.put(one, 1);
            let added = code.invoke(helper::MAP_UPDATE, (map(of), key.address(), one.address(), NEW));
            code.jump_if(added.eq(0), done);
            // Another CPU was faster, or there is no room.
            let found = code.find(of, key);
            code.when(found.eq(0), |code| code.set(&found, map_value(dropped, dropped_offset(of))));
            code.add_atomically(Expr::from(found).place::<u64>(), 1);
        });
        self.give_back(mark);
        Ok(())
    }

    /// The value of a key on the stack, or null.
    fn find<T>(&mut self, of: u32, key: Local<T>) -> Value {
        self.invoke(helper::MAP_LOOKUP, (map(of), key.address()))
    }

    /// The bucket of a value ([`helper::bucket`]).
    pub(in crate::emit) fn kernel_log_linear(&mut self, value: impl Into<Expr>) -> Value {
        let bucket = bucket(self, value);
        // For the kernel's verifier.
        self.when(bucket.ge(BUCKETS), |code| code.set(&bucket, BUCKETS - 1));
        bucket
    }

    /// Writes `size` bytes of the stack into the next of `entries` entries: what the helper `keep_last` does.
    pub(in crate::emit) fn kernel_keep_last(
        &mut self,
        of: u32,
        entries: u32,
        data: i16,
        size: u32,
    ) -> Result<(), Stop> {
        self.needs_all_registers()?;
        let mark = self.stack_mark();
        let (index, number) = (self.room::<u32>()?, self.room::<u64>()?);
        self.block(|code, done| {
            code.put(index, 0);
            let head = code.find(of, index);
            code.jump_if(head.eq(0), done);
            let before = code.fetch_add(Expr::from(head).place::<u64>(), 1);
            code.put(number, &before + 1);
            code.put(index, before % entries + 1);
            let entry = code.find(of, index);
            code.jump_if(entry.eq(0), done);
            // Readers pass over an entry that is being written.
            let place = |at: i32| Memory::new(&entry, at, Size::DW);
            code.put(place(0), 0);
            for at in (0..size as i16).step_by(8) {
                code.put(place(8 + i32::from(at)), Local::<u64>::at(data + at));
            }
            code.put(place(0), number);
        });
        self.give_back(mark);
        Ok(())
    }
}
