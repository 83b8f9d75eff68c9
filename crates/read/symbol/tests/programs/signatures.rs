//! Parameters of functions come from debug information.

use crate::common::compile;
use mote_symbol::functions::{
    Convention, Functions, Kind, Member, Place, RegisterPart, Signature, Structure, TextOf,
};
use mote_symbol::{DebugFiles, Image, dwarf};

const SOURCE: &str = r#"
#include <stdint.h>
#include <stdbool.h>
typedef const char *text;
enum color { RED, GREEN = 5, BLUE = -1 };
struct big { long words[4]; };
struct small { int a; };
int work(int a, uint8_t b, text name, void *data, bool ok, enum color c, long long seventh) {
    return a + b + ok + c + seventh + (name == data);
}
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
        // Six are in registers, the last one on the stack; without optimisation only the convention says so.
        let places: Vec<Place> = work.parameters.iter().map(|parameter| parameter.place.clone()).collect();
        if flags.contains(&"-O2") {
            let register = |register| Place::Registers(vec![RegisterPart { register, bytes: 0 }]);
            let registers = [5, 4, 1, 2, 8, 9].map(register);
            assert_eq!(places, [&registers[..], &[Place::Stack(0)]].concat());
        } else {
            assert_eq!(places, [&[const { Place::ByConvention }; 6][..], &[Place::Stack(0)]].concat());
        }
        let kinds: Vec<Kind> = work.parameters.into_iter().map(|parameter| parameter.kind).collect();
        let color = Kind::Enumeration { bytes: 4, signed: true, labels };
        let expected = [
            integer(4, true),
            integer(1, false),
            Kind::Text,
            Kind::Pointer(None),
            Kind::Bool,
            color,
            integer(8, true),
        ];
        assert_eq!(kinds, expected);
        assert_eq!((work.result, work.convention), (Some(integer(4, true)), Convention::C));
        let large = of("large").expect("external");
        let Some(Kind::Aggregate(big)) = large.result else { panic!("a structure") };
        assert_eq!((big.bytes, big.is_known, big.members.len()), (32, true, 1));
        let kinds: Vec<Kind> = large.parameters.into_iter().map(|parameter| parameter.kind).collect();
        let a = Member { name: "a".to_owned(), offset: 0, kind: integer(4, true) };
        let small = Structure { bytes: 4, members: vec![a], is_known: true, ..Structure::default() };
        assert_eq!(kinds, [Kind::Pointer(None), Kind::Float { bytes: 8 }, Kind::Aggregate(small)]);
        let nothing = Signature { parameters: vec![], result: None, convention: Convention::C };
        assert_eq!(of("nothing"), Some(nothing));
    }
}

const CPP: &str = r#"
#include <string>
#include <string_view>
struct request { int id; const char *path; char method[8]; struct { long a, b; } times; unsigned bits : 3; };
struct pair { float x, y; };
[[gnu::noinline]]
int serve(const request &r, std::string body, std::string_view view, const std::string &name, pair p) {
    return r.id + body.size() + view.size() + name.size() + int(p.x) + r.bits;
}
int main(int argc, char **argv) {
    request r{argc, argv[0], "GET", {1, 2}, 3};
    return serve(r, argv[0], argv[0], argv[0], {1, 2});
}
"#;

#[test]
fn structures_and_texts_of_cpp() {
    let dir = tempfile::tempdir().expect("a directory");
    for flags in [&["-g", "-O0"][..], &["-g", "-O2"]] {
        let Some(program) = compile(dir.path(), "app", "g++", CPP, &[flags, &["-std=c++17"]].concat()) else {
            return;
        };
        let image = Image::open(&program).expect("just compiled");
        let functions =
            Functions::new(dwarf(&program, &DebugFiles::default()).expect("has it")).expect("whole");
        let symbol = image.table.iter().find(|symbol| symbol.name.contains("serve")).expect("not inlined");
        let serve = functions.signature(symbol.address).expect("has it");
        let kinds: Vec<&Kind> = serve.parameters.iter().map(|parameter| &parameter.kind).collect();
        let [
            Kind::Pointer(Some(request)),
            Kind::Aggregate(body),
            Kind::Aggregate(view),
            Kind::Pointer(Some(name)),
            Kind::Aggregate(pair),
        ] = kinds[..]
        else {
            panic!("{kinds:?}")
        };
        let members: Vec<(&str, u64)> =
            request.members.iter().map(|member| (member.name.as_str(), member.offset)).collect();
        assert_eq!(members, [("id", 0), ("path", 8), ("method", 16), ("times", 24), ("", 40)]);
        assert_eq!(request.members[1].kind, Kind::Text);
        let Kind::Aggregate(method) = &request.members[2].kind else { panic!("an array") };
        assert_eq!(method.text, Some(TextOf::Characters));
        assert_eq!((body.is_by_reference, body.bytes), (true, 32));
        let counted = |address, count| Some(TextOf::Counted { address, count });
        assert_eq!((body.text, name.text, view.text), (counted(0, 8), counted(0, 8), counted(8, 0)));
        assert!(!view.is_by_reference && !pair.is_by_reference);
        assert_eq!(pair.members.iter().map(|member| member.offset).collect::<Vec<_>>(), [0, 4]);
    }
}
