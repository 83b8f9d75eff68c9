//! Functions of the kernel, as its types tell them: names, parameters, what they return.
//!
//! A function is a type of kind FUNC, which names one of kind FUNC_PROTO with the parameters
//! (Documentation/bpf/btf.rst, 2.2.12 and 2.2.13).

use super::Btf;
use mote_btf::kind::{
    CONST, ENUM, ENUM64, FLOAT, FUNC, FUNC_PROTO, INT, PTR, RESTRICT, STRUCT, TYPE_TAG, TYPEDEF, UNION,
    VOLATILE,
};
use mote_btf::{BOOL, DEPTH_MAX, SIGNED, Type};
use mote_symbol::functions::{Convention, Kind, Parameter, Place, Signature};

/// What a function takes and returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prototype {
    /// Its parameters, without those that only the caller knows (`...`), and its result.
    pub signature: Signature,
    /// Whether there are such.
    pub is_variadic: bool,
}

impl Btf {
    /// The names of all functions, with their numbers.
    pub fn functions(&self) -> impl Iterator<Item = (&str, u32)> {
        let functions = self.types.types().filter(|(_, ty)| ty.kind == FUNC);
        functions.filter_map(|(id, ty)| Some((std::str::from_utf8(self.types.text(ty.name)).ok()?, id)))
    }

    /// What the function with this number takes and returns; `None` when it is none.
    pub fn prototype(&self, function: u32) -> Option<Prototype> {
        let function = self.types.get(function).filter(|ty| ty.kind == FUNC)?;
        let proto = self.types.get(function.size).filter(|ty| ty.kind == FUNC_PROTO)?;
        let mut parts: Vec<[u32; 2]> = self.types.parts(proto).collect();
        let is_variadic = parts.pop_if(|last| *last == [0, 0]).is_some();
        let parameters = parts.into_iter().map(|[name, id]| Parameter {
            name: String::from_utf8_lossy(self.types.text(name)).into_owned(),
            kind: self.kind_of(id),
            place: Place::ByConvention,
        });
        let signature = Signature {
            parameters: parameters.collect(),
            result: self.types.plain(proto.size).map(|_| self.kind_of(proto.size)),
            convention: Convention::C,
        };
        Some(Prototype { signature, is_variadic })
    }

    fn kind_of(&self, id: u32) -> Kind {
        let Some(ty) = self.types.plain(id) else { return Kind::Unknown };
        match ty.kind {
            INT => self.integer(ty),
            PTR if self.is_text(ty) => Kind::Text,
            PTR => Kind::Pointer(None),
            ENUM | ENUM64 => self.enumeration(ty),
            FLOAT => Kind::Float { bytes: u8::try_from(ty.size).unwrap_or(0) },
            STRUCT | UNION => self.aggregate(ty),
            _ => Kind::Unknown,
        }
    }

    fn integer(&self, ty: Type) -> Kind {
        let how = self.types.part(ty, 0).map_or(0, |[how]| how);
        match u8::try_from(ty.size) {
            Ok(1) if how & BOOL != 0 => Kind::Bool,
            Ok(bytes @ (1 | 2 | 4 | 8 | 16)) => Kind::Integer { bytes, signed: how & SIGNED != 0 },
            _ => Kind::Unknown,
        }
    }

    /// Whether it points to characters that the function only reads: `const char *`. What others point to may be
    /// written yet.
    fn is_text(&self, pointer: Type) -> bool {
        let (mut id, mut constant) = (pointer.size, false);
        for _ in 0..DEPTH_MAX {
            let Some(ty) = self.types.get(id) else { return false };
            match ty.kind {
                CONST => constant = true,
                TYPEDEF | VOLATILE | RESTRICT | TYPE_TAG => {}
                INT => return constant && self.types.text(ty.name) == b"char",
                _ => return false,
            }
            id = ty.size;
        }
        false
    }

    fn enumeration(&self, ty: Type) -> Kind {
        let (bytes, signed) = (u8::try_from(ty.size).unwrap_or(0), ty.flag);
        if !matches!(bytes, 1 | 2 | 4 | 8) {
            return Kind::Unknown;
        }
        let name = |text| String::from_utf8_lossy(self.types.text(text)).into_owned();
        let labels: Vec<(String, i64)> = if ty.kind == ENUM64 {
            let value = |low, high| (u64::from(high) << 32 | u64::from(low)).cast_signed();
            self.types.parts(ty).map(|[text, low, high]| (name(text), value(low, high))).collect()
        } else {
            let value = |low: u32| if signed { i64::from(low.cast_signed()) } else { i64::from(low) };
            self.types.parts(ty).map(|[text, low]| (name(text), value(low))).collect()
        };
        match labels.is_empty() {
            // Declared only.
            true => Kind::Integer { bytes, signed },
            false => Kind::Enumeration { bytes, signed, labels },
        }
    }

    /// A structure of one number is passed and shown as that number (`kuid_t`).
    fn aggregate(&self, ty: Type) -> Kind {
        let mut inner = ty;
        for _ in 0..DEPTH_MAX {
            if inner.kind != STRUCT || inner.parts != 1 || inner.size > 8 {
                break;
            }
            let Some(next) = self.types.part(inner, 0).and_then(|[_, id, _]| self.types.plain(id)) else {
                break;
            };
            let whole = self.types.bytes_of(next) == Some(ty.size);
            match next.kind {
                INT if whole => return self.integer(next),
                STRUCT if whole => inner = next,
                _ => break,
            }
        }
        Kind::opaque(u64::from(ty.size))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::btf;
    use super::*;

    const fn info(kind: u32, parts: u32) -> u32 {
        kind << 24 | parts
    }

    #[test]
    fn every_function_of_this_kernel_has_a_prototype() {
        let Ok(btf) = Btf::of_kernel() else {
            mote_skip::skip("this kernel tells no types");
            return;
        };
        let all: Vec<(&str, Prototype)> = btf
            .functions()
            .map(|(name, id)| (name, btf.prototype(id).unwrap_or_else(|| panic!("{name} has none"))))
            .collect();
        let kinds = all.iter().flat_map(|(_, prototype)| &prototype.signature.parameters);
        let unknown = kinds.filter(|parameter| parameter.kind == Kind::Unknown).count();
        assert!(all.len() > 1000 && unknown * 1000 < all.len(), "{unknown} of {}", all.len());
        let is_variadic = |name: &str| all.iter().any(|(other, one)| *other == name && one.is_variadic);
        assert!(is_variadic("snprintf") && !is_variadic("vfs_read"));
    }

    #[test]
    fn functions_have_prototypes() {
        // 1 int, 2 char, 3 const char, 4 *, 5 struct { int v; }, 6 enum { A = -1 }, 7 _Bool, 8 char *, 9 struct of 16
        // bytes
        let strings = b"\0int\0char\0v\0A\0_Bool\0path\0id\0how\0f\0g\0big\0";
        let at = |text: &str| {
            let all = String::from_utf8_lossy(strings);
            all.find(&format!("\0{text}\0")).expect("it is there") as u32 + 1
        };
        let types: Vec<Vec<u32>> = vec![
            vec![at("int"), info(1, 0), 4, SIGNED | 32],
            vec![at("char"), info(1, 0), 1, SIGNED | 8],
            vec![0, info(10, 0), 2],
            vec![0, info(2, 0), 3],
            vec![0, info(4, 1), 4, at("v"), 1, 0],
            vec![0, info(6, 1) | 1 << 31, 4, at("A"), u32::MAX],
            vec![at("_Bool"), info(1, 0), 1, BOOL | 8],
            vec![0, info(2, 0), 2],
            vec![at("big"), info(4, 2), 16, at("v"), 8, 0, at("v"), 8, 64],
            // 10: bool f(const char *path, struct id, enum how, char *)   11: void g(struct big, ...)
            vec![0, info(13, 4), 7, at("path"), 4, at("id"), 5, at("how"), 6, 0, 8],
            vec![0, info(13, 2), 0, at("big"), 9, 0, 0],
            vec![at("f"), info(12, 1), 10],
            vec![at("g"), info(12, 1), 11],
        ];
        let types: Vec<&[u32]> = types.iter().map(Vec::as_slice).collect();
        let read = Btf::read(btf(&types, strings)).expect("well formed");
        assert_eq!(read.functions().collect::<Vec<_>>(), [("f", 12), ("g", 13)]);
        let f = read.prototype(12).expect("a function");
        let int = Kind::Integer { bytes: 4, signed: true };
        let how = Kind::Enumeration { bytes: 4, signed: true, labels: vec![("A".to_owned(), -1)] };
        let kinds = [("path", Kind::Text), ("id", int), ("how", how), ("", Kind::Pointer(None))];
        let expected: Vec<Parameter> = kinds
            .into_iter()
            .map(|(name, kind)| Parameter { name: name.to_owned(), kind, place: Place::ByConvention })
            .collect();
        assert_eq!(f.signature.parameters, expected);
        assert_eq!((f.signature.result, f.is_variadic), (Some(Kind::Bool), false));
        let g = read.prototype(13).expect("a function");
        assert_eq!(g.signature.parameters[0].kind, Kind::opaque(16));
        assert_eq!((g.signature.parameters.len(), g.signature.result, g.is_variadic), (1, None, true));
        assert_eq!((read.prototype(1), read.prototype(99)), (None, None));
    }
}
