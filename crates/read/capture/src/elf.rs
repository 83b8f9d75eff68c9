//! ELF files that captures have of their own: code as it lay in memory, with the names of its functions.

/// Bytes of the header of an ELF file, of a program header, of a section header, of a symbol (elf(5)).
const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const SECTION_HEADER: usize = 64;
const SYMBOL: usize = 24;
/// Code lies at multiples of so many bytes: whole pages of x86-64, whose ELF files these are.
const ALIGNED: usize = 0x1000;
/// Names of sections, and where each begins.
const TITLES: &[u8] = b"\0.text\0.symtab\0.strtab\0.shstrtab\0";
const TEXT: u64 = 1;
const SYMTAB: u64 = 7;
const STRTAB: u64 = 15;
const SHSTRTAB: u64 = 23;

/// Where in the file the code of so many parts lies, of which each has so many bytes.
#[must_use]
pub fn places(bytes: &[usize]) -> Vec<u64> {
    let mut at = (HEADER + PROGRAM_HEADER * bytes.len()).next_multiple_of(ALIGNED);
    let place = |bytes: &usize| {
        let place = at;
        at += bytes.next_multiple_of(ALIGNED);
        place as u64
    };
    bytes.iter().map(place).collect()
}

/// An ELF file of a `machine` (`e_machine`) that has these parts at their addresses. `functions`: address and name, by
/// address, each address once; a function goes as far as the next one, or the part.
///
/// # Cost
/// The file is put together in memory.
#[must_use]
pub fn file(machine: u16, parts: &[(u64, &[u8])], functions: &[(u64, &str)]) -> Vec<u8> {
    let (table, names) = symbols(parts, functions);
    let places = places(&parts.iter().map(|(_, code)| code.len()).collect::<Vec<_>>());
    let end =
        parts.iter().zip(&places).map(|((_, code), at)| *at as usize + code.len()).max().unwrap_or(HEADER);
    let table_at = end.next_multiple_of(8);
    let names_at = table_at + table.len();
    let titles_at = names_at + names.len();
    let sections_at = (titles_at + TITLES.len()).next_multiple_of(8);
    let mut out = header(machine, parts, sections_at);
    for ((start, code), at) in parts.iter().zip(&places) {
        // PT_LOAD, readable and executable.
        let bytes = code.len() as u64;
        out.extend(words(&[5 << 32 | 1, *at, *start, *start, bytes, bytes, ALIGNED as u64]));
    }
    for ((_, code), at) in parts.iter().zip(&places) {
        out.resize(*at as usize, 0);
        out.extend_from_slice(code);
    }
    out.resize(table_at, 0);
    out.extend_from_slice(&table);
    out.extend_from_slice(&names);
    out.extend_from_slice(TITLES);
    out.resize(sections_at + SECTION_HEADER, 0);
    // Name and kind, flags, address, place, bytes, link and info, alignment, bytes of an entry.
    for ((start, code), at) in parts.iter().zip(&places) {
        out.extend(words(&[1 << 32 | TEXT, 6, *start, *at, code.len() as u64, 0, ALIGNED as u64, 0]));
    }
    let of = |place: usize| place as u64;
    let strings = of(parts.len() + 2);
    out.extend(words(&[
        2 << 32 | SYMTAB,
        0,
        0,
        of(table_at),
        of(table.len()),
        1 << 32 | strings,
        8,
        SYMBOL as u64,
    ]));
    out.extend(words(&[3 << 32 | STRTAB, 0, 0, of(names_at), of(names.len()), 0, 1, 0]));
    out.extend(words(&[3 << 32 | SHSTRTAB, 0, 0, of(titles_at), of(TITLES.len()), 0, 1, 0]));
    out
}

/// The table of symbols, and their names.
fn symbols(parts: &[(u64, &[u8])], functions: &[(u64, &str)]) -> (Vec<u8>, Vec<u8>) {
    let (mut table, mut names) = (vec![0; SYMBOL], vec![0]);
    for (number, (address, name)) in functions.iter().enumerate() {
        let is_in = |(start, code): &&(u64, &[u8])| (*start..*start + code.len() as u64).contains(address);
        let Some(section) = parts.iter().position(|part| is_in(&part)) else { continue };
        let (start, code) = parts[section];
        let end = start + code.len() as u64;
        let next = functions.get(number + 1).map_or(end, |(next, _)| (*next).min(end));
        table.extend_from_slice(&(names.len() as u32).to_le_bytes());
        // STB_GLOBAL, STT_FUNC; of the part's section.
        table.extend_from_slice(&[0x12, 0]);
        table.extend_from_slice(&(section as u16 + 1).to_le_bytes());
        table.extend_from_slice(&address.to_le_bytes());
        table.extend_from_slice(&(next - address).to_le_bytes());
        names.extend_from_slice(name.as_bytes());
        names.push(0);
    }
    (table, names)
}

/// ELF64, low byte first, a program, with a program header and a section for each part, and four sections
/// more.
fn header(machine: u16, parts: &[(u64, &[u8])], sections_at: usize) -> Vec<u8> {
    let mut out = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0".to_vec();
    out.extend(machine.to_le_bytes());
    out.extend(1_u32.to_le_bytes());
    let entry = parts.first().map_or(0, |(start, _)| *start);
    out.extend(words(&[entry, HEADER as u64, sections_at as u64]));
    out.extend_from_slice(&[0; 4]);
    let count = parts.len();
    let halves = [HEADER, PROGRAM_HEADER, count, SECTION_HEADER, count + 4, count + 3];
    out.extend_from_slice(halves.map(|half| (half as u16).to_le_bytes()).as_flattened());
    out
}

fn words(words: &[u64]) -> impl Iterator<Item = u8> {
    words.iter().flat_map(|word| word.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_symbol::Image;
    use std::path::Path;

    #[test]
    fn code_is_an_elf_file_with_symbols() {
        let (first, second) = (0xffff_ffff_8100_0000, 0xffff_ffff_c000_0000);
        let (text, module): (Vec<u8>, Vec<u8>) = ((0..64).collect(), vec![0xcc; 5000]);
        let functions = [
            (first, "one"),
            (first + 0x10, "two"),
            (first + 0x4000, "data"),
            (second, "three"),
            (second + 8, "four"),
        ];
        let bytes = file(62, &[(first, &text), (second, &module)], &functions);
        let places = places(&[text.len(), module.len()]);
        assert_eq!(places, [4096, 8192]);
        assert_eq!(bytes[8192..8192 + 5000], module);
        let image = Image::from_bytes(Path::new("kernel"), &bytes).expect("ELF");
        let found: Vec<_> =
            image.table.iter().map(|symbol| (symbol.name.to_owned(), symbol.address, symbol.size)).collect();
        let name = |name: &str, address, size| (name.to_owned(), address, size);
        let expect = [
            name("one", first, 0x10),
            name("two", first + 0x10, 0x30),
            name("three", second, 8),
            name("four", second + 8, 5000 - 8),
        ];
        assert_eq!(found, expect);
        let segments: Vec<_> =
            image.segments.iter().map(|code| (code.address, code.offset, code.len)).collect();
        assert_eq!(segments, [(first, 4096, 64), (second, 8192, 5000)]);
    }
}
