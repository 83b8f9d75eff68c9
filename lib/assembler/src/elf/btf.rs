//! What definitions of maps need of an object's types: variables of a section, members of structures, sizes.

use super::ObjectError;
use mote_btf::{Type, kind};

type Result<T> = std::result::Result<T, ObjectError>;

fn bad<T>(what: impl Into<String>) -> Result<T> {
    Err(ObjectError::Btf(what.into()))
}

/// The types of an object.
#[derive(Debug)]
pub(super) struct Btf<'a>(mote_btf::Btf<&'a [u8]>);

impl<'a> Btf<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Btf<'a>> {
        mote_btf::Btf::read(bytes).map(Btf).or_else(|why| bad(why.to_string()))
    }

    fn get(&self, number: u32) -> Result<Type> {
        self.0.get(number).map_or_else(|| bad(format!("there is no type {number}")), Ok)
    }

    /// The type behind names, `const` and the like.
    fn plain(&self, number: u32) -> Result<Type> {
        self.get(number)?;
        self.0.plain(number).map_or_else(|| bad("types are nested too deep"), Ok)
    }

    fn text(&self, at: u32) -> &str {
        std::str::from_utf8(self.0.text(at)).unwrap_or("")
    }

    /// Names and types of the variables of a section.
    pub(super) fn variables(&self, section: &str) -> Result<Vec<(&str, u32)>> {
        let is_it = |ty: &Type| ty.kind == kind::DATASEC && self.text(ty.name) == section;
        let found = self.0.types().find(|(_, ty)| is_it(ty));
        let Some((_, found)) = found else { return bad(format!("nothing on section {section}")) };
        let numbers = self.0.parts(found).map(|[number, _, _]| number);
        numbers.map(|number| self.get(number).map(|one| (self.text(one.name), one.size))).collect()
    }

    /// Names and types of the members of a structure.
    pub(super) fn members(&self, number: u32) -> Result<Vec<(&str, u32)>> {
        let one = self.plain(number)?;
        if one.kind != kind::STRUCT {
            return bad("a map is not a structure");
        }
        Ok(self.0.parts(one).map(|[name, number, _]| (self.text(name), number)).collect())
    }

    /// The number in `__uint(name, number)`: a pointer to an array of as many elements.
    pub(super) fn number(&self, number: u32) -> Result<u32> {
        let array = self.plain(self.pointed(number)?)?;
        match self.0.part(array, 0) {
            Some([_, _, count]) if array.kind == kind::ARRAY => Ok(count),
            _ => bad("a number of a map is not written with __uint"),
        }
    }

    /// The type in `__type(name, type)`: what a pointer points to.
    pub(super) fn pointed(&self, number: u32) -> Result<u32> {
        let pointer = self.plain(number)?;
        match pointer.kind {
            kind::PTR => Ok(pointer.size),
            _ => bad("a type of a map is not written with __type"),
        }
    }

    /// Bytes of a type.
    pub(super) fn size(&self, number: u32) -> Result<u32> {
        let size = self.0.bytes_of(self.plain(number)?);
        size.map_or_else(|| bad(format!("type {number} has no size, or is too large")), Ok)
    }
}
