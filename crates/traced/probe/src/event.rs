//! The macros that people write: `event!`, `tracepoint!` and `emit!`.

/// An event declared where it stands.
///
/// `event!([LEVEL,] PROVIDER::NAME [, FIELD: TYPE = VALUE]... [, "what it means"])`
///
/// The values are evaluated only while the event is on. The level is a variant of [`Level`](crate::Level), `Info`
/// when not given. See the crate's page for the types.
///
/// ```
/// # let (bytes, path) = (10, "/etc/hosts");
/// mote::event!(file::opened);
/// mote::event!(file::read, bytes: u64 = bytes, path: &str = path);
/// mote::event!(Error, file::failed, errno: i32 = 2, "a read failed");
/// ```
///
/// # Cost
/// Off: one 5-byte NOP. On: bench `event_cost`.
///
/// # Signal safety
/// May stand in a signal handler.
#[macro_export]
macro_rules! event {
    ($provider:ident :: $name:ident $(, $field:ident : $type:ty = $value:expr)* $(, $text:literal)? $(,)?) => {
        $crate::event!(Info, $provider::$name $(, $field: $type = $value)* $(, $text)?)
    };
    (
        $level:ident, $provider:ident :: $name:ident
        $(, $field:ident : $type:ty = $value:expr)* $(, $text:literal)? $(,)?
    ) => {{
        $crate::__statics!(
            ::core::stringify!($provider), ::core::stringify!($name), $level,
            [$(($field, $type))*], ::core::concat!($($text)?)
        );
        if $crate::__switch!(__MOTE_EVENT, __MOTE_DESCRIPTION) {
            $crate::__private::emit_apart($crate::__fields!($($type = $value;)*), &__MOTE_EVENT);
        }
    }};
}

/// Declares an event once, to be emitted from many places with [`emit!`].
///
/// `[VISIBILITY] NAME in PROVIDER[(LEVEL)] { FIELD: TYPE, ... }`; a doc comment is kept in the trace as what the
/// event means. Several declarations may follow one another.
///
/// ```
/// mote::tracepoint! {
///     /// A block went to disk.
///     pub block_written in disk { sector: u64, bytes: u32 }
///     pub block_failed in disk(Error) { sector: u64 }
/// }
/// mote::emit!(block_written, 17, 4096);
/// ```
///
/// # Probes of the program's own
/// `NAME.connect(closure)` has the closure called with the values wherever the event is emitted, by the thread that
/// emits it, whether a session records it or not. Several probes are called in the order in which they were connected;
/// rules of a recorder do not matter to them. It gives a [`Connection`](crate::Connection): its `disconnect` takes the
/// probe out again, also from inside of a probe; dropping it leaves the probe connected.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// static BYTES: AtomicU64 = AtomicU64::new(0);
/// # mod m { mote::tracepoint! { pub block_written in disk { sector: u64, bytes: u32 } } }
/// # use m::block_written;
///
/// let connection = block_written.connect(|_, bytes| {
///     BYTES.fetch_add(u64::from(bytes), Ordering::Relaxed);
/// })?;
/// mote::emit!(block_written, 17, 4096);
/// connection.disconnect();
/// mote::emit!(block_written, 18, 4096);
/// assert_eq!(BYTES.load(Ordering::Relaxed), 4096);
/// # Ok::<(), mote::ChangeError>(())
/// ```
///
/// A probe runs inside of an RCU read section. What it holds is dropped when no thread can be in it any more, by a
/// later `connect`, `disconnect` or [`wait_for_probes`](crate::wait_for_probes). A panic of a probe is one of
/// [`emit!`]. For this each event is a static of its name, beside a module: no variable may be called as an event that
/// is in scope (E0530). Types of fields are `Copy`.
///
/// While nothing is connected a probe costs nothing where the event is off, and a test where it is on.
#[macro_export]
macro_rules! tracepoint {
    ($($(#[doc = $text:literal])* $visibility:vis $name:ident in $provider:ident $(($level:ident))? {
        $($field:ident : $type:ty),* $(,)?
    })*) => {$(
        $(#[doc = $text])*
        $visibility mod $name {
            #[allow(unused_imports)]
            use super::*;
            $crate::__statics!(
                pub, ::core::stringify!($provider), ::core::stringify!($name), $($level)?,
                [$(($field, $type))*], ::core::concat!($($text),*)
            );
            pub use __mote::{Tracepoint, __mote_record as record};

            mod __mote {
                #[allow(unused_imports)]
                use super::*;
                // Parameters may not be called as a static that is in scope, which other events are; as a function
                // they may.
                $(
                    #[allow(dead_code, non_snake_case)]
                    fn $field() {}
                )*
                static __MOTE_PROBES: $crate::__private::Probes = $crate::__private::Probes::new();
                type __MoteCall = unsafe fn(*const (), $($type),*);

                /// Records the event if it is on. `emit!` calls this behind its switch.
                #[inline(always)]
                #[allow(clippy::too_many_arguments)]
                pub fn __mote_record($($field: $type),*) {
                    if __MOTE_EVENT.is_probed() {
                        __mote_probed($($field),*);
                    } else {
                        $crate::__private::emit_apart($crate::__fields!($($type = $field;)*), &__MOTE_EVENT);
                    }
                    $crate::__private::meet();
                }

                #[cold]
                #[inline(never)]
                #[allow(clippy::too_many_arguments)]
                fn __mote_probed($($field: $type),*) {
                    __MOTE_PROBES.each(|__mote_call, __mote_probe| {
                        // SAFETY: `connect` has made the pointer of such a function.
                        let __mote_call =
                            unsafe { ::core::mem::transmute::<*const (), __MoteCall>(__mote_call) };
                        // SAFETY: `connect` has connected it together with the type of this probe, which stays for the
                        // call.
                        unsafe { __mote_call(__mote_probe.cast_const(), $($field),*) };
                    });
                    if __MOTE_EVENT.is_recorded() {
                        $crate::__private::emit_apart($crate::__fields!($($type = $field;)*), &__MOTE_EVENT);
                    }
                }

                /// The event, for probes to be connected to.
                #[derive(Clone, Copy, Debug)]
                pub struct Tracepoint;

                impl Tracepoint {
                    /// Has `probe` called with the values wherever the event is emitted, from now on.
                    ///
                    /// # Errors
                    /// The event's sites cannot be changed here, or not now, or there is no memory.
                    pub fn connect<F>(
                        &self,
                        __mote_probe: F,
                    ) -> ::core::result::Result<$crate::Connection, $crate::ChangeError>
                    where
                        F: Fn($($type),*)
                            + ::core::marker::Send
                            + ::core::marker::Sync
                            + 'static,
                    {
                        #[allow(clippy::too_many_arguments)]
                        unsafe fn __mote_call<F: Fn($($type),*)>(
                            __mote_probe: *const (),
                            $($field: $type),*
                        ) {
                            // SAFETY: `connect` connects this function with a `F`.
                            let __mote_probe = unsafe { &*__mote_probe.cast::<F>() };
                            __mote_probe($($field),*)
                        }
                        let __mote_call: __MoteCall = __mote_call::<F>;
                        // SAFETY: the probes are this event's, and `__mote_probed` calls them so.
                        unsafe {
                            $crate::__private::connect(
                                &__MOTE_EVENT, &__MOTE_PROBES, __mote_probe, __mote_call as *const (),
                            )
                        }
                    }
                }
            }
        }

        $(#[doc = $text])*
        ///
        /// The event, for probes to be connected to.
        #[allow(non_upper_case_globals, dead_code)]
        $visibility static $name: $name::Tracepoint = $name::Tracepoint;
    )*};
}

/// Emits an event that [`tracepoint!`] has declared. The values are evaluated only while it is on.
#[macro_export]
macro_rules! emit {
    ($($event:ident)::+ $(, $value:expr)* $(,)?) => {
        if $crate::__switch!($($event)::+::__MOTE_EVENT, $($event)::+::__MOTE_DESCRIPTION) {
            $($event)::+::record($($value),*);
        }
    };
}

/// The statics of one event: its state and its description. Their names are odd because a value in the same
/// block could mean another item of the same name.
#[doc(hidden)]
#[macro_export]
macro_rules! __statics {
    (pub, $provider:expr, $name:expr, $($level:ident)?, $fields:tt, $text:expr) => {
        $crate::__statics!(@ pub, $provider, $name, $crate::__level!($($level)?), $fields, $text);
    };
    ($provider:expr, $name:expr, $level:ident, $fields:tt, $text:expr) => {
        $crate::__statics!(@ , $provider, $name, $crate::__level!($level), $fields, $text);
    };
    (@ $($visibility:ident)?, $provider:expr, $name:expr, $level:expr, [$(($field:ident, $type:ty))*], $text:expr) => {
        const __MOTE_SPEC: $crate::__private::Spec = $crate::__private::Spec {
            provider: $crate::__private::plain($provider),
            name: $crate::__private::plain($name),
            level: $level,
            file: ::core::file!(),
            line: ::core::line!(),
            text: $text.trim_ascii_start(),
            fields: &[$(($crate::__private::plain(::core::stringify!($field)), <$type as $crate::Field>::TYPE)),*],
        };
        /// The event's description, NUL-terminated.
        #[doc(hidden)]
        $($visibility)? static __MOTE_DESCRIPTION: [u8; __MOTE_SPEC.rendered_len()] = __MOTE_SPEC.render();
        /// The event's state.
        #[doc(hidden)]
        $($visibility)? static __MOTE_EVENT: $crate::Event = $crate::Event::new();
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __level {
    () => {
        $crate::Level::Info
    };
    ($level:ident) => {
        $crate::Level::$level
    };
}

/// `(a, (b, ()))` of the values made ready.
#[doc(hidden)]
#[macro_export]
macro_rules! __fields {
    () => { () };
    ($type:ty = $value:expr; $($rest:tt)*) => {
        (<$type as $crate::Field>::ready($value), $crate::__fields!($($rest)*))
    };
}

/// The name that an identifier means: `type` for `r#type`.
pub const fn plain(identifier: &'static str) -> &'static str {
    match identifier.as_bytes() {
        [b'r', b'#', name @ ..] => match core::str::from_utf8(name) {
            Ok(name) => name,
            Err(_) => identifier,
        },
        _ => identifier,
    }
}
