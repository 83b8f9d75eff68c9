//! Where thread, process and name stand in the events of a stream class.

use mote_ctf::model::{ArrayClass, FieldClass, Length, StreamClass, StructClass};
use mote_ctf::{Fields, Value};

/// Names of the thread id in the context of events, the best first: LTTng has it as the program sees it (`vtid`) and as
/// the kernel does.
const TID: [&str; 2] = ["vtid", "tid"];
const PID: [&str; 2] = ["vpid", "pid"];
const NAME: [&str; 2] = ["procname", "comm"];

/// Places in the common context.
#[derive(Debug, Default)]
pub(crate) struct Context {
    pub(crate) tid: Option<Place>,
    pub(crate) pid: Option<Place>,
    pub(crate) name: Option<Place>,
}

impl Context {
    pub(crate) fn new(stream: &StreamClass) -> Context {
        let Some(class) = &stream.common_context else { return Context::default() };
        let find = |names: [&str; 2]| names.iter().find_map(|name| Place::find(class, name));
        Context { tid: find(TID), pid: find(PID), name: find(NAME) }
    }
}

/// Where a member's value stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// Index of the member.
    pub(crate) member: usize,
    /// Index of its value, if all members before it always have as many values.
    value: Option<usize>,
}

impl Place {
    fn find(class: &StructClass, name: &str) -> Option<Place> {
        let member = class.members.iter().position(|m| m.name == name)?;
        let value = class.members[..member].iter().try_fold(0_usize, |n, m| n.checked_add(values(&m.class)?));
        Some(Place { member, value })
    }

    /// The value in the context's `fields`.
    #[inline]
    pub(crate) fn value<'a>(&self, fields: Fields<'a>) -> Option<Value<'a>> {
        match self.value {
            Some(index) => fields.values().nth(index),
            None => fields.iter().nth(self.member)?.value(),
        }
    }

    /// The value, if it is a number of a thread or process.
    #[inline]
    pub(crate) fn id(&self, fields: Fields<'_>) -> Option<u32> {
        match self.value(fields)? {
            Value::U64(id) => u32::try_from(id).ok(),
            Value::I64(id) => u32::try_from(id).ok(),
            _ => None,
        }
    }
}

/// How many values a field has, if it is always as many.
fn values(class: &FieldClass) -> Option<usize> {
    match class {
        FieldClass::Struct(c) => c.members.iter().try_fold(0_usize, |n, m| n.checked_add(values(&m.class)?)),
        FieldClass::Array(ArrayClass { length: Length::Static(n), element, .. }) => {
            usize::try_from(*n).ok()?.checked_mul(values(element)?)
        }
        FieldClass::Array(_) | FieldClass::Variant(_) | FieldClass::Optional(_) => None,
        _ => Some(1),
    }
}
