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
            $crate::emit(&__MOTE_EVENT, $crate::__fields!($($type = $value;)*));
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

            /// Records the event if it is on. `emit!` calls this behind its switch.
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            pub fn record($($field: $type),*) {
                $crate::emit(&__MOTE_EVENT, $crate::__fields!($($type = $field;)*));
            }
        }
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
