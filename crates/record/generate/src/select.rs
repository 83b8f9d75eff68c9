//! Which thread an event belongs to, and whether that one is traced; the thread table as programs see it.

use crate::access::Access;
use crate::code::Code;
use crate::plan::Selection;
use crate::threads::{self, ENTRY_BITS, Entry, PROBES};
use crate::{map_number, slot};
use mote_bpf::op::{Cond, Size};
use mote_bpf::{Reg, helper};
use mote_builder::{Build, Expr, Label, Local, Pointer, Value, field, map_value};
use mote_catalog::event::{Event, Field, Origin, Step};

/// Fields of `sched` events that name a thread which the event is about.
const ABOUT: [&str; 4] = ["next_tid", "tid", "child_tid", "prev_tid"];

/// Fields that name the threads which an event is about, beside the running one.
pub(crate) fn about(event: &Event) -> Vec<Field> {
    if event.provider != "sched" {
        return Vec::new();
    }
    let named = |field: &&Field| ABOUT.contains(&field.name.as_str()) && field.from != Origin::Tid;
    event.fields.iter().filter(named).cloned().collect()
}

impl Code<'_> {
    /// The process whose events are left out, where these events are of its own doing.
    fn left_out(&self) -> Option<u32> {
        match self.plan.selection {
            Selection::Others { process } if self.is_own_doing => Some(process),
            _ => None,
        }
    }

    /// Goes to `not` when the event was chosen for a thread that its fields name, and not for the running one, whose
    /// stack and state are not asked for then.
    pub(crate) fn if_foreign(&mut self, not: Label) {
        if self.may_be_foreign {
            self.b.load(Size::W, Reg::R1, Reg::R9, threads::TID);
            self.b.load(Size::W, Reg::R2, Reg::R10, slot::TID);
            self.b.branch(Cond::Ne, Reg::R1, Reg::R2, not);
        }
    }

    /// The running thread's id to its slot and `r0`. In programs of system calls of typed contexts, `r8` becomes the
    /// word of the ABI.
    pub(crate) fn thread_id(&mut self) {
        match (self.access, self.plan.facts) {
            (Access::Typed | Access::Function | Access::TypedCall, Some(facts)) => {
                self.b.call(helper::GET_CURRENT_TASK_BTF);
                if let Some(process) = self.left_out() {
                    self.b.load(Size::W, Reg::R1, Reg::R0, facts.tgid.offset() as i16);
                    self.b.branch(Cond::Eq, Reg::R1, process as i32, self.out);
                }
                if let (Access::TypedCall, Some(word)) = (self.access, facts.abi_word) {
                    self.b.load(Size::W, Reg::R8, Reg::R0, word.offset() as i16);
                }
                self.b.load(Size::W, Reg::R0, Reg::R0, facts.pid.offset() as i16);
            }
            _ => {
                self.b.call(helper::GET_CURRENT_PID_TGID);
                if let Some(process) = self.left_out() {
                    self.b.mov(Reg::R1, Reg::R0);
                    self.b.rsh(Reg::R1, 32);
                    self.b.branch(Cond::Eq, Reg::R1, process as i32, self.out);
                }
                self.b.mov32(Reg::R0, Reg::R0);
            }
        }
        self.b.store(Size::DW, Reg::R10, slot::TID, Reg::R0);
    }

    /// Goes on when the running thread, or one that the fields name, is traced; else leaves. `r9` becomes the entry of
    /// the thread that was found so; where threads are not looked up that of the running one, if `entry` is wanted and
    /// there is one, else 0.
    pub(crate) fn select(&mut self, about: &[Field], entry: bool) {
        self.may_be_foreign = self.plan.selection == Selection::Threads && !about.is_empty();
        match self.plan.selection {
            Selection::All | Selection::Others { .. } => self.known(entry),
            Selection::Cgroup { id, level } => {
                self.b.mov(Reg::R1, level as i32);
                self.b.call(helper::GET_CURRENT_ANCESTOR_CGROUP_ID);
                self.b.constant(Reg::R1, id);
                self.b.branch(Cond::Ne, Reg::R0, Reg::R1, self.out);
                self.known(entry);
            }
            Selection::Threads if about.is_empty() => self.traced(self.out),
            Selection::Threads => {
                let selected = self.b.label();
                let others = self.b.label();
                self.traced(others);
                self.b.jump(selected);
                self.b.bind(others);
                for (at, field) in about.iter().enumerate() {
                    let next = if at + 1 == about.len() { self.out } else { self.b.label() };
                    self.kernels_id(field);
                    self.b.mov32(Reg::R0, Reg::R1);
                    self.traced(next);
                    if next != self.out {
                        self.b.jump(selected);
                        self.b.bind(next);
                    }
                }
                self.b.bind(selected);
            }
        }
    }

    /// `r1` becomes the id in a field as the table of threads has it.
    fn kernels_id(&mut self, field: &Field) {
        match &field.from {
            Origin::TaskId { argument, path, .. } if self.member(*argument, path, Size::W).is_ok() => {}
            Origin::Made { from, steps } if steps[..] == [Step::RecorderTid] => {
                if self.value(from, &field.ty).is_err() {
                    self.b.mov(Reg::R1, 0);
                }
            }
            _ => self.word(field),
        }
    }

    /// `r9` becomes the running thread's entry, if that is wanted and there is one, else 0.
    fn known(&mut self, wanted: bool) {
        if !wanted {
            self.b.mov(Reg::R9, 0);
            return;
        }
        // Most are at their first place, or nowhere: no function need be called.
        let (end, none) = (self.b.label(), self.b.label());
        self.b.load(Size::DW, Reg::R0, Reg::R10, slot::TID);
        self.home(Reg::R9, Reg::R0);
        self.b.load(Size::W, Reg::R1, Reg::R9, threads::TID);
        self.b.branch(Cond::Eq, Reg::R1, Reg::R0, end);
        self.b.load(Size::W, Reg::R1, Reg::R9, threads::DISPLACED);
        self.b.branch(Cond::Eq, Reg::R1, 0, none);
        self.b.mov(Reg::R1, Reg::R0);
        self.call_find();
        self.b.mov(Reg::R9, Reg::R0);
        self.b.jump(end);
        self.b.bind(none);
        self.b.mov(Reg::R9, 0);
        self.b.bind(end);
    }

    /// `r9` becomes the entry of the thread in `r0`; goes to `not` when that is not traced.
    fn traced(&mut self, not: Label) {
        let (found, search) = (self.b.label(), self.b.label());
        self.home(Reg::R9, Reg::R0);
        self.b.load(Size::W, Reg::R1, Reg::R9, threads::TID);
        self.b.branch(Cond::Ne, Reg::R1, Reg::R0, search);
        self.b.bind(found);
        self.b.load(Size::W, Reg::R1, Reg::R9, threads::FLAGS);
        self.b.and(Reg::R1, threads::TRACED as i32);
        self.b.branch(Cond::Eq, Reg::R1, 0, not);
        let end = self.b.label();
        self.b.jump(end);
        self.b.bind(search);
        self.b.load(Size::W, Reg::R1, Reg::R9, threads::DISPLACED);
        self.b.branch(Cond::Eq, Reg::R1, 0, not);
        self.b.mov(Reg::R1, Reg::R0);
        self.call_find();
        self.b.branch(Cond::Eq, Reg::R0, 0, not);
        self.b.mov(Reg::R9, Reg::R0);
        self.b.load(Size::W, Reg::R1, Reg::R9, threads::FLAGS);
        self.b.and(Reg::R1, threads::TRACED as i32);
        self.b.branch(Cond::Eq, Reg::R1, 0, not);
        self.b.bind(end);
    }

    /// `r9` becomes the entry of the running thread, a new one if it has none; 0 when there is no place.
    pub(crate) fn ensure(&mut self) {
        if self.plan.selection != Selection::Threads {
            let entry = self.insert_entry(Local::<u64>::at(slot::TID));
            self.b.mov(Reg::R9, entry.register());
            if self.plan.namespace.is_some() {
                let none = self.b.label();
                self.b.branch(Cond::Eq, Reg::R9, 0, none);
                self.recorder_tid(Reg::R1);
                self.b.store(Size::W, Reg::R9, threads::RECORDER_TID, Reg::R1);
                self.b.bind(none);
            }
        }
    }

    /// `dst` becomes the first entry at which thread `tid` may be.
    fn home(&mut self, dst: Reg, tid: Reg) {
        let mask = self.plan.layout.threads as i32 - 1;
        self.b.mov(Reg::R1, tid);
        self.b.and(Reg::R1, mask);
        self.b.lsh(Reg::R1, ENTRY_BITS as i32);
        self.b.map_value(dst, map_number::STATE, self.plan.layout.threads());
        self.b.add(dst, Reg::R1);
    }

    /// The first entry at which a thread may be.
    fn home_of(&self, tid: impl Into<Expr>) -> Expr {
        let place = tid.into() & (self.plan.layout.threads - 1);
        map_value(map_number::STATE, self.plan.layout.threads()) + (place << ENTRY_BITS)
    }

    /// Gives a thread the entry of one that has exited long ago, and goes to `done`; goes on when there is none.
    fn steal(&mut self, tid: &Value, entry: &Pointer<Entry>, done: Label) {
        let now = self.invoke(helper::KTIME_GET_NS, ());
        let since = self.keep(now - threads::GONE_NS);
        self.block(|code, none| {
            code.block(|code, stolen| {
                for probe in 0..PROBES {
                    code.block(|code, next| {
                        let home = code.home_of(tid + probe);
                        code.set(entry, home);
                        let old = code.get(entry.at(field!(Entry, tid)));
                        code.jump_if(entry.at(field!(Entry, task)).eq(0), next);
                        code.jump_if(entry.at(field!(Entry, syscall_time)).gt(&since), next);
                        let before = code.compare_exchange(entry.at(field!(Entry, tid)), &old, tid);
                        code.jump_if(before.eq(&old), stolen);
                    });
                }
                code.jump(none);
            });
            crate::thread_programs::reset(code, entry);
            code.jump(done);
        });
    }

    /// Function: the entry of a thread, or 0.
    pub(crate) fn find_function(&mut self, label: Label) {
        self.function(label, |code, [tid]| {
            let entry = code.scratch().to::<Entry>();
            code.block(|code, found| {
                for probe in 0..PROBES {
                    let home = code.home_of(&tid + probe);
                    code.set(&entry, home);
                    code.jump_if(entry.at(field!(Entry, tid)).eq(&tid), found);
                }
                code.exit_with(0);
            });
            code.exit_with(entry);
        });
    }

    /// Function: the entry of a thread, a new one if it has none, or 0 when all places for it are taken, which is
    /// counted.
    pub(crate) fn insert_function(&mut self, label: Label) {
        self.function(label, |code, [tid]| {
            let tid = code.keep(tid);
            let found = code.find_entry(&tid);
            code.when(found.ne(0), |code| code.exit_with(&found));
            drop(found);
            let entry = code.saved().to::<Entry>();
            code.block(|code, claimed| {
                for probe in 0..PROBES {
                    let home = code.home_of(&tid + probe);
                    code.set(&entry, home);
                    let before = code.compare_exchange(entry.at(field!(Entry, tid)), 0, &tid);
                    code.jump_if(before.eq(0), claimed);
                }
                code.steal(&tid, &entry, claimed);
                code.count(crate::state::THREADS_LOST);
                code.exit_with(0);
            });
            // Found at its first place or not, the mark does no harm; but only a displaced thread needs it.
            let home = code.home_of(&tid);
            let first = code.get(home).to::<Entry>();
            code.when(first.at(field!(Entry, tid)).ne(&tid), |code| {
                code.put(first.at(field!(Entry, displaced)), 1);
            });
            code.exit_with(entry);
        });
    }
}
