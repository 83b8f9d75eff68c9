//! Which thread an event belongs to, and whether that one is traced; the thread table as programs see it.

use crate::access::Access;
use crate::code::{Code, state};
use crate::namespace::Task;
use crate::plan::Selection;
use crate::slot;
use crate::threads::{self, ENTRY_BITS, Entry, PROBES};
use mote_bpf::helper;
use mote_bpf::op::Size;
use mote_builder::{Build, Expr, Label, Pointer, Value, field};
use mote_catalog::event::{Event, Field, Origin, Step};
use std::rc::Rc;

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

/// Whether the event may be chosen for another thread than the one in which it happens: switches to a thread happen in
/// the one before.
pub fn names_threads(event: &Event) -> bool {
    !about(event).is_empty()
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
    /// stack and contexts are not asked for then.
    pub(crate) fn if_foreign(&mut self, not: Label) {
        if self.may_be_foreign {
            let chosen = self.saved.entry.at(field!(Entry, tid));
            self.jump_if(chosen.ne(slot::low::<u32>(slot::TID)), not);
        }
    }

    /// The running thread's id, which is kept in its slot as well. Programs of system calls of typed contexts note the
    /// word of the ABI.
    pub(crate) fn thread_id(&mut self) -> Value {
        let (saved, out) = (Rc::clone(&self.saved), self.out);
        let tid = match (self.access, self.plan.facts) {
            (Access::Typed | Access::Function | Access::TypedCall, Some(facts)) => {
                let task = self.invoke(helper::GET_CURRENT_TASK_BTF, ()).to::<Task>();
                if let Some(process) = self.left_out() {
                    self.jump_if(task.at(facts.tgid).eq(process), out);
                }
                if let (Access::TypedCall, Some(word)) = (self.access, facts.abi_word) {
                    self.set(&saved.to, task.at(word));
                }
                self.get(task.at(facts.pid))
            }
            _ => {
                let both = self.invoke(helper::GET_CURRENT_PID_TGID, ());
                if let Some(process) = self.left_out() {
                    self.jump_if((&both >> 32).eq(process), out);
                }
                self.get(Expr::from(both).low())
            }
        };
        self.put(slot::TID, &tid);
        tid
    }

    /// Goes on when the running thread, whose id is `tid`, or one that the fields name, is traced; else leaves. Then
    /// there is the entry of the thread that was found so; where threads are not looked up that of the running one, if
    /// `entry` is wanted and there is one, else 0.
    pub(crate) fn select(&mut self, tid: Value, about: &[Field], entry: bool) {
        self.may_be_foreign = self.plan.selection == Selection::Threads && !about.is_empty();
        let out = self.out;
        match self.plan.selection {
            Selection::All | Selection::Others { .. } => self.known(entry.then_some(tid)),
            Selection::Cgroup { id, level } => {
                drop(tid);
                let ancestor = self.invoke(helper::GET_CURRENT_ANCESTOR_CGROUP_ID, (level,));
                self.jump_if(ancestor.ne(id), out);
                drop(ancestor);
                let tid = entry.then(|| self.get(slot::TID));
                self.known(tid);
            }
            Selection::Threads => {
                let selected = self.label();
                let mut tid = tid;
                for field in about {
                    let next = self.label();
                    self.traced(tid, next);
                    self.jump(selected);
                    self.bind(next);
                    let id = self.kernels_id(field);
                    tid = self.get(Expr::from(id).low());
                }
                self.traced(tid, out);
                self.bind(selected);
            }
        }
    }

    /// The id in a field as the table of threads has it.
    fn kernels_id(&mut self, field: &Field) -> Value {
        let id = match &field.from {
            Origin::TaskId { argument, path, .. } => self.member(*argument, path, Size::W).ok(),
            Origin::Made { from, steps } if steps[..] == [Step::RecorderTid] => {
                Some(self.value(from, &field.ty).unwrap_or_else(|_| self.get(0)))
            }
            _ => None,
        };
        id.unwrap_or_else(|| self.word(field))
    }

    /// The entry of this thread is found, if there is one; else, or without a thread, it is 0.
    fn known(&mut self, tid: Option<Value>) {
        let saved = Rc::clone(&self.saved);
        let entry = &saved.entry;
        let Some(tid) = tid else { return self.set(entry, 0) };
        // Most are at their first place, or nowhere: no function need be called.
        let home = self.home_of(&tid);
        self.set(entry, home);
        self.block(|code, end| {
            code.jump_if(entry.at(field!(Entry, tid)).eq(&tid), end);
            code.block(|code, none| {
                code.jump_if(entry.at(field!(Entry, displaced)).eq(0), none);
                let found = code.find_entry(tid);
                code.set(entry, found);
                code.jump(end);
            });
            code.set(entry, 0);
        });
    }

    /// Finds the entry of a thread; goes to `not` when it is not traced.
    fn traced(&mut self, tid: Value, not: Label) {
        let saved = Rc::clone(&self.saved);
        let entry = &saved.entry;
        let is_not = || (entry.at(field!(Entry, flags)) & threads::TRACED).eq(0);
        let home = self.home_of(&tid);
        self.set(entry, home);
        self.block(|code, end| {
            code.block(|code, search| {
                code.jump_if(entry.at(field!(Entry, tid)).ne(&tid), search);
                code.jump_if(is_not(), not);
                code.jump(end);
            });
            code.jump_if(entry.at(field!(Entry, displaced)).eq(0), not);
            let found = code.find_entry(tid);
            code.jump_if(found.eq(0), not);
            code.set(entry, found);
            code.jump_if(is_not(), not);
        });
    }

    /// Finds the entry of the running thread, a new one if it has none; 0 when there is no place.
    pub(crate) fn ensure(&mut self) {
        if self.plan.selection != Selection::Threads {
            let saved = Rc::clone(&self.saved);
            let entry = self.insert_entry(slot::TID);
            self.set(&saved.entry, entry);
            if self.plan.namespace.is_some() {
                self.when(saved.entry.ne(0), |code| {
                    let id = code.recorder_tid();
                    code.put(saved.entry.at(field!(Entry, recorder_tid)), id);
                });
            }
        }
    }
}

impl<S> Code<'_, S> {
    /// The first entry at which a thread may be.
    fn home_of(&self, tid: impl Into<Expr>) -> Expr {
        let place = tid.into() & (self.plan.layout.threads - 1);
        state(self.plan.layout.threads()) + (place << ENTRY_BITS)
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
