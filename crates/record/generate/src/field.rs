//! A field of a record.

use crate::code::Code;
use crate::copy::To;
use crate::error::Error;
use crate::slot;
use mote_bpf::helper;
use mote_builder::Value;
use mote_catalog::event::{Event, Field, Origin, TEXT_MAX, Type};
use mote_layout::types::Scalar;

impl Code<'_> {
    /// Writes the field behind what was written of the record.
    ///
    /// # Errors
    /// [`Error::Event`] when its origin cannot give its type.
    pub(crate) fn field(&mut self, event: &Event, index: usize, field: &Field) -> Result<(), Error> {
        self.try_field(index, field).map_err(|why| {
            Error::event(
                &event.name,
                format!("its field {} cannot be read there ({:?}): {why}", field.name, field.from),
            )
        })
    }

    fn try_field(&mut self, index: usize, field: &Field) -> Result<(), &'static str> {
        match (&field.ty, &field.from) {
            (Type::Text, from) => {
                let length = match self.kept.get(index).copied().flatten() {
                    Some(offset) => self.kept_text(offset, TEXT_MAX),
                    None => self.text(from, To::Record)?,
                };
                self.advance(length, TEXT_MAX);
            }
            (Type::FixedText(bytes), from) => {
                self.bytes(from, u32::from(*bytes), To::Record)?;
                self.at += *bytes as i16;
            }
            (Type::Array(scalar, count), from) => {
                let bytes = scalar.bytes() as u32 * u32::from(*count);
                self.bytes(from, bytes, To::Record)?;
                self.at += bytes as i16;
            }
            (Type::Sequence(..), Origin::KernelStack) => self.stack(None),
            (Type::Sequence(..), Origin::UserStack { copy }) => self.stack(Some(*copy)),
            (Type::Sequence(scalar, most), from) => {
                self.sequence(from, scalar.bytes() as u32, u32::from(*most))?;
            }
            (ty, from) => {
                let mut value = self.value(from, ty)?;
                if matches!(ty, Type::Scalar(Scalar::Bool)) {
                    value = self.boolean(value);
                }
                self.put_scalar(ty, value)?;
            }
        }
        Ok(())
    }

    /// The text as the filter has seen it; returns its bytes.
    fn kept_text(&mut self, offset: u32, bytes: u32) -> Value {
        self.copy_text(helper::PROBE_READ_KERNEL_STR, slot::SCRATCH + offset, bytes, To::Record)
    }
}
