//! Parameters of functions come from debug information.

use crate::common::compile;
use mote_symbol::functions::{Functions, Kind, Signature};
use mote_symbol::{DebugFiles, Image, dwarf};

const SOURCE: &str = r#"
#include <stdint.h>
#include <stdbool.h>
typedef const char *text;
enum color { RED, GREEN = 5, BLUE = -1 };
struct big { long words[4]; };
struct small { int a; };
int work(int a, uint8_t b, text name, void *data, bool ok, enum color c, long long seventh) { return a + b + ok + c + seventh + (name == data); }
struct big large(unsigned char *bytes, double x, struct small s) { struct big b = {{*bytes, x, s.a}}; return b; }
void nothing(void) {}
int main(void) { return 0; }
"#;

#[test]
fn names_and_types() {
    let dir = tempfile::tempdir().expect("a directory");
    for flags in [&["-g", "-O0"][..], &["-gdwarf-4", "-O2"], &["-gdwarf-5", "-O2", "-flto"]] {
        let Some(program) = compile(dir.path(), "app", "gcc", SOURCE, flags) else { return };
        let image = Image::open(&program).expect("just compiled");
        let functions =
            Functions::new(dwarf(&program, &DebugFiles::default()).expect("has it")).expect("whole");
        let of = |name: &str| -> Option<Signature> {
            functions.signature(image.table.iter().find(|symbol| symbol.name == name)?.address)
        };
        let Some(work) = of("work") else {
            assert!(flags.contains(&"-flto"), "only the linker removes what nobody calls");
            continue;
        };
        let integer = |bytes, signed| Kind::Integer { bytes, signed };
        let names: Vec<&str> = work.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "name", "data", "ok", "c", "seventh"]);
        let labels =
            [("RED", 0), ("GREEN", 5), ("BLUE", -1)].map(|(name, value)| (name.to_owned(), value)).into();
        let kinds: Vec<Kind> = work.parameters.into_iter().map(|parameter| parameter.kind).collect();
        let color = Kind::Enumeration { bytes: 4, signed: true, labels };
        let expected = [
            integer(4, true),
            integer(1, false),
            Kind::Text,
            Kind::Pointer,
            Kind::Bool,
            color,
            integer(8, true),
        ];
        assert_eq!(kinds, expected);
        assert_eq!((work.result, work.is_c_like), (Some(integer(4, true)), true));
        let large = of("large").expect("external");
        assert_eq!(large.result, Some(Kind::Aggregate { bytes: 32 }));
        let kinds: Vec<Kind> = large.parameters.into_iter().map(|parameter| parameter.kind).collect();
        assert_eq!(kinds, [Kind::Pointer, Kind::Float, Kind::Aggregate { bytes: 4 }]);
        assert_eq!(of("nothing"), Some(Signature { parameters: vec![], result: None, is_c_like: true }));
    }
}
