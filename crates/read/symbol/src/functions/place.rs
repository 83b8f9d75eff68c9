//! Where a parameter is when its function begins.

use super::Entry;
use crate::debug::Reader;
use gimli::{AttributeValue, Expression, Operation, UnitRef, constants as dw};

/// Where a parameter is when its function begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Where the calling convention has it: debug information does not say it, or only where the parameter is later,
    /// in code without optimisation.
    ByConvention,
    /// In registers, one part behind the other.
    Registers(Vec<RegisterPart>),
    /// In memory, so many bytes behind where a register (by DWARF's number) points.
    Behind(u16, i64),
    /// On the stack, so many bytes behind the return address.
    Stack(i64),
    /// Nowhere: the compiler has seen that nobody needs it.
    Nowhere,
}

/// The part of a parameter that is in one register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterPart {
    /// DWARF's number of the register.
    pub register: u16,
    /// How many bytes; 0: all of it.
    pub bytes: u64,
}

/// Whether a function's variables are described from its caller's stack pointer, behind the return address.
pub(super) fn is_cfa(unit: UnitRef<'_, Reader>, function: &Entry) -> bool {
    let Some(AttributeValue::Exprloc(base)) = function.attr_value(dw::DW_AT_frame_base) else { return false };
    matches!(base.operations(unit.encoding()).next(), Ok(Some(Operation::CallFrameCFA)))
}

/// Where the debug information has the parameter at `address`, where its function begins.
pub(super) fn at_entry(
    unit: UnitRef<'_, Reader>,
    parameter: &Entry,
    address: u64,
    frame_is_cfa: bool,
) -> gimli::Result<Place> {
    let Some(value) = parameter.attr_value(dw::DW_AT_location) else { return Ok(Place::ByConvention) };
    if let AttributeValue::Exprloc(expression) = value {
        return place(unit, expression, frame_is_cfa);
    }
    let Some(mut locations) = unit.attr_locations(value)? else { return Ok(Place::ByConvention) };
    while let Some(location) = locations.next()? {
        if (location.range.begin..location.range.end).contains(&address) {
            return place(unit, location.data, frame_is_cfa);
        }
    }
    Ok(Place::ByConvention)
}

fn place(
    unit: UnitRef<'_, Reader>,
    expression: Expression<Reader>,
    frame_is_cfa: bool,
) -> gimli::Result<Place> {
    let mut operations = expression.operations(unit.encoding());
    let mut parts = Vec::new();
    while let Some(operation) = operations.next()? {
        match operation {
            Operation::Register { register } => parts.push(RegisterPart { register: register.0, bytes: 0 }),
            Operation::Piece { size_in_bits, bit_offset: None } => match parts.last_mut() {
                Some(part) if part.bytes == 0 => part.bytes = size_in_bits / 8,
                _ => return Ok(Place::Nowhere),
            },
            Operation::RegisterOffset { register, offset, .. } if parts.is_empty() => {
                return behind_or_masked(register.0, offset, operations);
            }
            // What lies below is a variable, which the parameter has not been copied to yet.
            Operation::FrameOffset { offset } if parts.is_empty() => {
                return Ok(if frame_is_cfa && offset >= 0 {
                    Place::Stack(offset)
                } else {
                    Place::ByConvention
                });
            }
            _ => return Ok(Place::Nowhere),
        }
    }
    let is_whole = parts.len() == 1 || parts.iter().all(|part| part.bytes > 0);
    Ok(if parts.is_empty() || !is_whole { Place::Nowhere } else { Place::Registers(parts) })
}

/// In memory behind where a register points, or the value of a register of which only some bits count.
fn behind_or_masked(
    register: u16,
    offset: i64,
    mut rest: gimli::OperationIter<Reader>,
) -> gimli::Result<Place> {
    let Some(mut operation) = rest.next()? else { return Ok(Place::Behind(register, offset)) };
    loop {
        match operation {
            Operation::UnsignedConstant { .. } | Operation::SignedConstant { .. } | Operation::And => {}
            Operation::StackValue if offset == 0 => {
                return Ok(Place::Registers(vec![RegisterPart { register, bytes: 0 }]));
            }
            // What is computed from what was passed.
            _ => return Ok(Place::ByConvention),
        }
        match rest.next()? {
            Some(next) => operation = next,
            None => return Ok(Place::ByConvention),
        }
    }
}
