//! A guest's kernel: which one, unpacked, and as an ELF file with its code as it is in memory and its symbols.

use crate::arch::ELF_MACHINE;
use crate::error::{Error, cannot};
use mote_btf::Btf;
use mote_btf::kind::STRUCT;
use object::{Object, ObjectSection};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where distributions have their kernels.
const BOOT: &str = "/boot";

/// A kernel, unpacked.
#[derive(Debug)]
pub(super) struct Kernel {
    /// An ELF file, which qemu starts.
    pub(super) path: PathBuf,
    /// Where its code is in memory, without KASLR.
    pub(super) text: u64,
    pub(super) bytes: u64,
    /// Where its `task_struct` has `pid`, `tgid`, `comm`; 0 where that is not known.
    pub(super) task: [u32; 3],
}

/// How what is behind the kernel's own loader is compressed: its first bytes, what unpacks it, and whether four bytes
/// follow that do not belong to it (the kernel's scripts/Makefile.lib, "size_append").
const COMPRESSIONS: [(&[u8], &str, bool); 6] = [
    (b"\x1f\x8b", "gzip", false),
    (b"\xfd7zXZ\0", "xz", true),
    (b"\x28\xb5\x2f\xfd", "zstd", true),
    (b"BZh", "bzip2", true),
    (b"\x5d\0\0", "lzma", true),
    (b"\x02\x21\x4c\x18", "lz4", true),
];

/// The kernel that was named, or the newest in `/boot`.
///
/// # Errors
/// There is none, and where one comes from.
pub(super) fn find(named: Option<&Path>) -> Result<PathBuf, Error> {
    if let Some(named) = named {
        named.metadata().map_err(cannot(format!("read the kernel {}", named.display())))?;
        return Ok(named.to_owned());
    }
    let entries = std::fs::read_dir(BOOT).into_iter().flatten().flatten().map(|entry| entry.path());
    let kernels = entries.filter(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz"))
            && File::open(path).is_ok()
    });
    let newest = kernels.max_by_key(|path| path.metadata().and_then(|data| data.modified()).ok());
    newest.ok_or_else(|| {
        Error::Qemu(
            "there is no kernel for the guest in /boot: apt-get install linux-image-amd64, or name one with --kernel"
                .to_owned(),
        )
    })
}

/// Unpacks a kernel into a folder.
pub(super) fn unpack(path: &Path, folder: &Path) -> Result<Kernel, Error> {
    let what = format!("read the kernel {}", path.display());
    let packed = std::fs::read(path).map_err(cannot(what))?;
    let place = folder.join("vmlinux");
    if packed.starts_with(b"\x7fELF") {
        std::fs::write(&place, &packed).map_err(cannot("copy the kernel"))?;
    } else {
        let wrong = || Error::Qemu(format!("{} is no kernel that can be unpacked (bzImage)", path.display()));
        let payload = payload(&packed).ok_or_else(wrong)?;
        let (_, tool, is_longer) =
            COMPRESSIONS.iter().find(|(magic, ..)| payload.starts_with(magic)).ok_or_else(wrong)?;
        let length = payload.len() - if *is_longer { 4 } else { 0 };
        decompress(tool, payload.get(..length).ok_or_else(wrong)?, &place)?;
    }
    let bytes = std::fs::read(&place).map_err(cannot("read the kernel that was unpacked"))?;
    describe(place, &bytes).ok_or_else(|| {
        Error::Qemu(format!("{} is no kernel of this processor that qemu can start", path.display()))
    })
}

/// What a bzImage has behind its loader (Documentation/arch/x86/boot.rst of the kernel: setup_sects, payload_offset,
/// payload_length).
fn payload(image: &[u8]) -> Option<&[u8]> {
    let word = |at: usize| Some(u32::from_le_bytes(*image.get(at..)?.first_chunk()?) as usize);
    if image.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let sectors = match *image.get(0x1f1)? {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let begin = (sectors + 1) * 512 + word(0x248)?;
    image.get(begin..begin.checked_add(word(0x24c)?)?)
}

fn decompress(tool: &str, packed: &[u8], place: &Path) -> Result<(), Error> {
    let from = place.with_extension("packed");
    std::fs::write(&from, packed).map_err(cannot("unpack the kernel"))?;
    let input = File::open(&from).map_err(cannot("unpack the kernel"))?;
    let output = File::create(place).map_err(cannot("unpack the kernel"))?;
    let status = Command::new(tool).arg("-dc").stdin(input).stdout(output).stderr(Stdio::null()).status();
    let _ = std::fs::remove_file(&from);
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(Error::Qemu(format!("the kernel cannot be unpacked by {tool}"))),
        Err(_) => Err(Error::Qemu(format!("the kernel is packed by {tool}, which is not installed here"))),
    }
}

fn describe(path: PathBuf, bytes: &[u8]) -> Option<Kernel> {
    let file = object::File::parse(bytes).ok()?;
    let text =
        file.section_by_name(".text").filter(|_| file.architecture() == object::Architecture::X86_64)?;
    let task = file.section_by_name(".BTF").and_then(|section| task(section.data().ok()?));
    Some(Kernel { path, text: text.address(), bytes: text.size(), task: task.unwrap_or_default() })
}

/// Where `task_struct` has `pid`, `tgid`, `comm`, by the kernel's own types.
fn task(types: &[u8]) -> Option<[u32; 3]> {
    let btf = Btf::read(types).ok()?;
    let is_task = |ty: &mote_btf::Type| ty.kind == STRUCT && btf.text(ty.name) == b"task_struct";
    let (_, task) = btf.types().find(|(_, ty)| is_task(ty))?;
    let offset = |name: &str| {
        let is_it = |[member, ..]: &[u32; 3]| btf.text(*member) == name.as_bytes();
        // Of parts of a word, the upper byte is how many bits.
        btf.parts::<3>(task).find(is_it).map(|[_, _, bits]| (bits & 0xff_ffff) / 8)
    };
    Some([offset("pid")?, offset("tgid")?, offset("comm")?])
}

/// Functions of `/proc/kallsyms`: their addresses and names. Its lines may be cut anywhere.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    text: Vec<u8>,
}

impl Symbols {
    /// The next part of the file.
    pub(super) fn add(&mut self, part: &[u8]) {
        self.text.extend_from_slice(part);
    }

    /// Code from `start` to `end`, by address. Of several names of a place it has one: of a system call that by which
    /// the kernel's table calls it.
    fn within(&self, start: u64, end: u64) -> Vec<(u64, &str)> {
        let text = std::str::from_utf8(&self.text).unwrap_or_default();
        let symbols = text.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let kind = words.next()?;
            let name = words.next()?;
            (matches!(kind, "t" | "T" | "w" | "W") && (start..end).contains(&address))
                .then_some((address, name))
        });
        let mut symbols: Vec<_> = symbols.collect();
        symbols.sort_unstable_by_key(|(address, name)| (*address, !name.starts_with("__x64_sys_"), *name));
        symbols.dedup_by_key(|(address, _)| *address);
        symbols
    }
}

/// An ELF file that has this code at its address, with its symbols: the kernel as it was when recording began.
pub(super) fn elf(start: u64, text: &[u8], symbols: &Symbols) -> Vec<u8> {
    let functions = symbols.within(start, start + text.len() as u64);
    mote_capture::elf::file(ELF_MACHINE, &[(start, text)], &functions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{ObjectSegment, ObjectSymbol};

    #[test]
    fn the_code_is_an_elf_file_with_symbols() {
        let mut symbols = Symbols::default();
        symbols.add(b"0000000000000000 A fixed_percpu_data\nffffffff81000010 T __x64_sys_two\nffffffff8100");
        symbols.add(b"0000 t one\nffffffff81000010 t __do_sys_two\nffffffff82000000 D data\n");
        let text: Vec<u8> = (0..64).collect();
        let bytes = elf(0xffff_ffff_8100_0000, &text, &symbols);
        let file = object::File::parse(&*bytes).expect("ELF");
        let found: Vec<_> = file
            .symbols()
            .map(|symbol| (symbol.name().unwrap_or_default(), symbol.address(), symbol.size()))
            .collect();
        let at = |offset: u64| 0xffff_ffff_8100_0000 + offset;
        assert_eq!(found, [("one", at(0), 0x10), ("__x64_sys_two", at(0x10), 0x30)]);
        let segment = file.segments().next().expect("its code");
        assert_eq!((segment.address(), segment.data()), (at(0), Ok(text.as_slice())));
        assert_eq!(file.section_by_name(".text").map(|section| section.data()), Some(Ok(text.as_slice())));
    }

    #[test]
    fn what_is_behind_the_loader_is_found() {
        let mut image = vec![0_u8; 0x500];
        image[0x1f1] = 1;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x248..0x24c].copy_from_slice(&16_u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&4_u32.to_le_bytes());
        image[0x410..0x414].copy_from_slice(b"code");
        assert_eq!(payload(&image), Some(&b"code"[..]));
        assert_eq!(payload(&image[..0x412]), None);
        assert_eq!(payload(b"no kernel"), None);
    }
}
