//! Where arguments and results are when a function begins or has returned (System V ABI, AMD64, 3.2.3).

use crate::passed::Passed;
use mote_layout::functions::Origin;
use mote_symbol::functions::{Convention, Kind, Place, Structure};

/// Registers of integers and addresses for arguments.
const INTEGERS: u8 = 6;
/// Registers of numbers in floating point for arguments.
const VECTORS: u8 = 8;
/// Larger structures are passed in memory.
const IN_REGISTERS_MAX: u64 = 16;
/// Bytes of a register, as far as values are taken from it.
const WORD: u64 = 8;

/// DWARF's numbers of the registers of integer arguments, in their order (figure 3.36).
const DWARF_INTEGERS: [u16; INTEGERS as usize] = [5, 4, 1, 2, 8, 9];
/// DWARF's number of the stack pointer.
const DWARF_STACK: u16 = 7;
/// DWARF's number of `xmm0`.
const DWARF_VECTOR: u16 = 17;

/// Gives arguments their places, in order.
#[derive(Debug)]
pub(crate) struct Arguments {
    convention: Convention,
    integers: u8,
    vectors: u8,
    /// Bytes of the stack.
    stack: u64,
    /// Where the arguments that follow are cannot be told.
    is_lost: bool,
}

/// What an eightbyte is passed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Integer,
    Vector,
}

impl Arguments {
    /// Those of a function with such a result.
    pub(crate) fn new(convention: Convention, result: Option<&Kind>) -> Arguments {
        let mut arguments = Arguments {
            convention,
            integers: 0,
            vectors: 0,
            stack: 0,
            is_lost: convention == Convention::Unknown,
        };
        match result {
            // It is written where the hidden first argument says.
            Some(Kind::Aggregate(structure)) if is_in_memory(structure) => arguments.integers = 1,
            // It may be.
            Some(Kind::Aggregate(structure))
                if convention == Convention::C && classes(structure).is_none() =>
            {
                arguments.is_lost = true;
            }
            Some(Kind::Unknown) => arguments.is_lost = true,
            _ => {}
        }
        arguments
    }

    /// Where the next argument is, which is of this kind; `None` where that cannot be told.
    pub(crate) fn next(&mut self, kind: &Kind) -> Option<Passed> {
        let passed = if self.is_lost { None } else { self.place(kind) };
        self.is_lost = passed.is_none();
        passed
    }

    fn place(&mut self, kind: &Kind) -> Option<Passed> {
        match kind {
            Kind::Integer { bytes: 16, .. } => self.registers(&[Class::Integer, Class::Integer], 16),
            Kind::Integer { .. } | Kind::Bool | Kind::Text | Kind::Pointer(_) | Kind::Enumeration { .. } => {
                self.registers(&[Class::Integer], WORD)
            }
            Kind::Float { bytes: 4 | 8 } => self.registers(&[Class::Vector], WORD),
            Kind::Float { .. } => self.on_stack(16),
            Kind::Aggregate(structure) => self.structure(structure),
            Kind::Unknown => None,
        }
    }

    fn structure(&mut self, structure: &Structure) -> Option<Passed> {
        let is_rust = self.convention == Convention::Rust;
        if structure.bytes == 0 {
            return Some(Passed::default());
        }
        if structure.is_by_reference || (is_rust && structure.bytes > IN_REGISTERS_MAX) {
            return match self.registers(&[Class::Integer], WORD)?.register(0, WORD) {
                Some((origin, 0)) => Some(Passed::Behind { origin, offset: 0 }),
                // The address lies on the stack.
                _ => Some(Passed::default()),
            };
        }
        if structure.bytes > IN_REGISTERS_MAX {
            return self.on_stack(structure.bytes);
        }
        if is_rust && !is_fat_pointer(structure) {
            return None;
        }
        match classes(structure)? {
            Some(classes) => self.registers(&classes, structure.bytes),
            None => self.on_stack(structure.bytes),
        }
    }

    /// In registers, a word in each, if there are as many; else on the stack.
    fn registers(&mut self, classes: &[Class], bytes: u64) -> Option<Passed> {
        let (mut integers, mut vectors) = (self.integers, self.vectors);
        let mut parts = Vec::new();
        for (class, start) in classes.iter().zip((0..).step_by(WORD as usize)) {
            let (count, max, origin): (_, _, fn(u8) -> Origin) = match class {
                Class::Integer => (&mut integers, INTEGERS, Origin::Integer),
                Class::Vector => (&mut vectors, VECTORS, Origin::Vector),
            };
            if *count == max {
                return self.on_stack(bytes);
            }
            parts.push((start, WORD, origin(*count)));
            *count += 1;
        }
        (self.integers, self.vectors) = (integers, vectors);
        Some(Passed::Registers(parts))
    }

    fn on_stack(&mut self, bytes: u64) -> Option<Passed> {
        let offset = i64::try_from(self.stack).ok()?;
        self.stack = self.stack.checked_add(bytes.checked_next_multiple_of(WORD)?)?;
        Some(Passed::Behind { origin: Origin::Stack, offset })
    }
}

/// Where a result of this kind is; `None` where that cannot be told, or no register has it.
pub(crate) fn result(convention: Convention, kind: &Kind) -> Option<Passed> {
    let in_registers = |classes: &[Class]| {
        let (mut integers, mut vectors) = ((0..).map(Origin::Result), (0..).map(Origin::VectorResult));
        let mut start = 0;
        let part = |class: &Class| {
            let origin = match class {
                Class::Integer => integers.next()?,
                Class::Vector => vectors.next()?,
            };
            start += WORD;
            Some((start - WORD, WORD, origin))
        };
        Some(Passed::Registers(classes.iter().map_while(part).collect()))
    };
    match kind {
        _ if convention == Convention::Unknown => None,
        Kind::Integer { bytes: 16, .. } => in_registers(&[Class::Integer, Class::Integer]),
        Kind::Integer { .. } | Kind::Bool | Kind::Text | Kind::Pointer(_) | Kind::Enumeration { .. } => {
            in_registers(&[Class::Integer])
        }
        Kind::Float { bytes: 4 | 8 } => in_registers(&[Class::Vector]),
        Kind::Aggregate(structure) if structure.bytes == 0 => None,
        Kind::Aggregate(structure) if is_in_memory(structure) => {
            Some(Passed::Behind { origin: Origin::Result(0), offset: 0 })
        }
        Kind::Aggregate(structure) if convention == Convention::C || is_fat_pointer(structure) => {
            in_registers(&classes(structure)??)
        }
        Kind::Aggregate(_) | Kind::Float { .. } | Kind::Unknown => None,
    }
}

/// Where debug information says that a parameter is; `None` where that has to be told by the convention.
pub(crate) fn declared(place: &Place) -> Option<Passed> {
    let integer = |register: u16| {
        let number = DWARF_INTEGERS.iter().position(|other| *other == register)?;
        Some(Origin::Integer(u8::try_from(number).ok()?))
    };
    let vector = |register: u16| {
        let number = register.checked_sub(DWARF_VECTOR).and_then(|number| u8::try_from(number).ok())?;
        (number < VECTORS).then_some(Origin::Vector(number))
    };
    Some(match place {
        Place::ByConvention => return None,
        Place::Nowhere => Passed::default(),
        Place::Stack(offset) => Passed::Behind { origin: Origin::Stack, offset: *offset },
        // The return address is there.
        Place::Behind(DWARF_STACK, offset) => {
            Passed::Behind { origin: Origin::Stack, offset: offset - WORD.cast_signed() }
        }
        Place::Behind(register, offset) => match integer(*register) {
            Some(origin) => Passed::Behind { origin, offset: *offset },
            None => Passed::default(),
        },
        Place::Registers(parts) => {
            let mut start = 0;
            let each = parts.iter().map(|part| {
                let origin = integer(part.register).or_else(|| vector(part.register))?;
                let bytes = if part.bytes == 0 { WORD } else { part.bytes };
                start += bytes;
                Some((start - bytes, bytes, origin))
            });
            Passed::Registers(each.collect::<Option<_>>().unwrap_or_default())
        }
    })
}

fn is_in_memory(structure: &Structure) -> bool {
    structure.is_by_reference || structure.bytes > IN_REGISTERS_MAX || classes(structure) == Some(None)
}

/// An address and a number, which Rust passes as two.
fn is_fat_pointer(structure: &Structure) -> bool {
    let names: Vec<&str> = structure.members.iter().map(|member| member.name.as_str()).collect();
    structure.bytes == IN_REGISTERS_MAX && matches!(names[..], ["data_ptr", "length"])
}

/// What each eightbyte of a small structure is passed in; `Some(None)`: in memory; `None`: it cannot be told.
fn classes(structure: &Structure) -> Option<Option<Vec<Class>>> {
    let mut found = vec![None; structure.bytes.div_ceil(WORD) as usize];
    match add(&mut found, structure, 0)? {
        // Words of an empty structure, or behind all members, are not passed.
        true => Some(Some(found.into_iter().flatten().collect())),
        false => Some(None),
    }
}

/// Adds what the members of a structure at `offset` say; false: it is passed in memory.
fn add(found: &mut [Option<Class>], structure: &Structure, offset: u64) -> Option<bool> {
    if !structure.is_known {
        return None;
    }
    for member in &structure.members {
        let at = offset + member.offset;
        let class = match &member.kind {
            Kind::Aggregate(inner) if inner.bytes == 0 => continue,
            Kind::Aggregate(inner) => match add(found, inner, at)? {
                true => continue,
                false => return Some(false),
            },
            Kind::Float { bytes: 4 | 8 } => Class::Vector,
            Kind::Float { .. } => return Some(false),
            Kind::Unknown => return None,
            _ => Class::Integer,
        };
        let bytes = member.kind.bytes().max(1);
        // What is not aligned is in memory.
        if !at.is_multiple_of(bytes.min(WORD)) {
            return Some(false);
        }
        for part in
            found.iter_mut().take(at.saturating_add(bytes).div_ceil(WORD) as usize).skip((at / WORD) as usize)
        {
            *part = match (*part, class) {
                (None | Some(Class::Vector), Class::Vector) => Some(Class::Vector),
                _ => Some(Class::Integer),
            };
        }
    }
    Some(true)
}
