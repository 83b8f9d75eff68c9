//! What `#[mote::probe]` leaves in a function: an event when it returns, with its duration.

use mote_sys::time::{ClockId, clock_gettime};

/// A call that has begun while its event was on. When it is dropped, it has ended.
#[derive(Debug)]
pub struct Call<V> {
    began: u64,
    values: V,
    end: fn(u64, &V),
}

impl<V> Call<V> {
    /// It begins now; `end` is called with its nanoseconds and the values.
    #[cold]
    pub fn begin(values: V, end: fn(u64, &V)) -> Call<V> {
        Call { began: clock_gettime(ClockId::Monotonic), values, end }
    }
}

impl<V> Drop for Call<V> {
    fn drop(&mut self) {
        let duration = clock_gettime(ClockId::Monotonic).saturating_sub(self.began);
        (self.end)(duration, &self.values);
    }
}

/// Records the call of the function that it stands in: `"NAME"; ["NAME",] FIELD: TYPE = VALUE, ...`.
#[doc(hidden)]
#[macro_export]
macro_rules! __call {
    ($_:literal; $name:literal $(, $field:ident : $type:ty = $value:expr)* $(,)?) => {
        $crate::__call!(@ $name, $($field: $type = $value),*);
    };
    ($name:literal; $($field:ident : $type:ty = $value:expr),* $(,)?) => {
        $crate::__call!(@ ::core::concat!(::core::module_path!(), "::", $name), $($field: $type = $value),*);
    };
    (@ $name:expr, $($field:ident : $type:ty = $value:expr),*) => {
        let _call = {
            $crate::__statics!("f", $name, Info, [(duration, u64) $(($field, $type))*], "");
            if $crate::__switch!(__MOTE_EVENT, __MOTE_DESCRIPTION) {
                ::core::option::Option::Some($crate::__private::Call::begin(
                    ($($value,)*),
                    |duration, values| {
                        let ($($field,)*) = *values;
                        $crate::__private::emit_apart(
                            $crate::__fields!(u64 = duration; $($type = $field;)*),
                            &__MOTE_EVENT,
                        );
                    },
                ))
            } else {
                ::core::option::Option::None
            }
        };
    };
}
