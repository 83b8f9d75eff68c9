//! Labels for enums.

/// Makes an enum without data usable as a field, shown by the names of its variants.
///
/// ```
/// #[derive(Clone, Copy)]
/// #[repr(u8)]
/// enum State { Idle, Busy = 4 }
/// mote::enumeration!(State as u8 { Idle, Busy });
/// mote::event!(worker::changed, state: State = State::Busy);
/// ```
#[macro_export]
macro_rules! enumeration {
    ($enum:ty as $int:ty { $($variant:ident),* $(,)? }) => {
        impl $crate::Field for $enum {
            const TYPE: $crate::__private::Type = $crate::__private::Type::Enumeration(
                <$int as $crate::Element>::SCALAR,
                &[$((
                    ::core::stringify!($variant),
                    <$enum>::$variant as $int as i64,
                    <$enum>::$variant as $int as i64,
                )),*],
            );
            type Ready = <$int as $crate::Field>::Ready;
            #[inline(always)]
            fn ready(self) -> Self::Ready {
                <$int as $crate::Field>::ready(self as $int)
            }
        }
    };
}
