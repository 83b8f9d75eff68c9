//! The seam for the processor: what depends on one stands in folders called `arch`, so that another one is a folder to
//! add.

use std::collections::BTreeSet;

/// What only makes sense on one processor, or is assembly.
const WORDS: [&str; 11] = [
    "asm!",
    "naked_asm!",
    "arch::x86_64",
    "arch::aarch64",
    "target_arch",
    "is_x86_feature_detected",
    "is_aarch64_feature_detected",
    "x86_64-unknown",
    "x86_64-linux",
    "X86_64::",
    "iced_x86",
];

/// What is about Intel's trace, which has instructions of x86 wherever it is read.
const OF_X86: [&str; 3] =
    ["lib/pt/src/insn/", "crates/read/hardware/src/delta/", "crates/tools/cli/src/cmd/pt/"];

/// What stands for one processor without saying so: bytes of its instructions (NOPs, jumps, the breakpoint), features
/// and emulators by name, the size of its pages. Unit tests may have bytes of their own.
const SIGNS: [&str; 10] = [
    "0x0f, 0x1f",
    "0x90, 0x90",
    "0xe9",
    "0xeb",
    "0xcc",
    "XSAVE",
    "Xsave",
    "xsave",
    "qemu-x86_64|qemu-system-x86_64",
    "PAGE: u64 = 4096|PAGE: usize = 4096|PAGE_BYTES: u64 = 4096|PAGE_BYTES: usize = 4096",
];

/// This file, which has the words.
const OWN: &str = "xtask/src/tidy/processor.rs";

/// The page that says what a second processor needs: a row for each crate that has an `arch` folder.
const PAGE: &str = "arch/README.md";

/// Compares that page with the crates, whose files have these names.
pub(super) fn check_page(page: &str, files: &[(String, String)], wrong: &mut Vec<String>) {
    let there = files.iter().filter_map(|(name, _)| name.split_once("/src/arch/"));
    let there: BTreeSet<&str> = there.map(|(folder, _)| folder).collect();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let rows: BTreeSet<&str> = rows.map(|(folder, _)| folder).collect();
    wrong.extend(there.difference(&rows).map(|folder| format!("{PAGE} has no row for {folder}/src/arch")));
    wrong.extend(rows.difference(&there).map(|folder| format!("{PAGE} has {folder}, without src/arch")));
}

/// Names what stands outside of an `arch` folder in the sources of a crate. Tests may: they make code for the machine
/// that they run on.
pub(super) fn check(name: &str, text: &str, wrong: &mut Vec<String>) {
    let Some(is_of_product) = bound(name) else { return };
    let own = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or(text).lines().count();
    let is_of_x86 = OF_X86.iter().any(|folder| name.starts_with(folder));
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or(line);
        let is_sign = |sign: &&&str| sign.split('|').any(|word| holds(code, word));
        let sign = || SIGNS.iter().find(is_sign).filter(|_| is_of_product && number < own);
        let word = WORDS.iter().find(|word| code.contains(**word));
        if let Some(word) = word.filter(|word| **word != "iced_x86" || !is_of_x86).or_else(sign) {
            let number = number + 1;
            let word = word.split('|').next().unwrap_or(word);
            wrong.push(format!(
                "{name}:{number} has {word}; what depends on the processor stands in src/arch"
            ));
        }
    }
}

/// Whether the line has the word, not as a part of a longer number or name.
fn holds(line: &str, word: &str) -> bool {
    let goes_on = |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    // A number goes on in its digits; a name has parts.
    line.match_indices(word).any(|(at, _)| !word.starts_with("0x") || !goes_on(&line[at + word.len()..]))
}

/// Whether a file is a source that stands in no `arch` folder; then, whether of what users get.
fn bound(name: &str) -> Option<bool> {
    let mut parts = name.split('/');
    let is_of_product = match parts.next() {
        Some("lib" | "crates") => true,
        Some("bench" | "xtask") if name != OWN => false,
        _ => return None,
    };
    let mut inner = parts.skip_while(|part| *part != "src").skip(1).peekable();
    (inner.peek().is_some() && inner.next() != Some("arch")).then_some(is_of_product)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_finds;

    #[test]
    fn assembly_stands_in_arch_folders() {
        let text = "//! asm! is a word here.\nfn f() {\n    unsafe { core::arch::asm!(\"nop\") };\n}\n";
        assert_finds(check, "lib/sys/src/raw.rs", text, &[3]);
        assert_finds(check, "crates/base/ring/src/reader.rs", text, &[3]);
        assert_finds(check, "lib/sys/src/arch/x86_64/call.rs", text, &[]);
        assert_finds(check, "lib/sys/src/arch/mod.rs", text, &[]);
        assert_finds(check, "lib/sys/src/signal/arch/mod.rs", text, &[3]);
        assert_finds(check, "lib/sys/tests/call.rs", text, &[]);
        assert_finds(check, "tests/programs/early.rs", text, &[]);
    }

    #[test]
    fn so_do_conditions_and_intrinsics() {
        let text =
            "#[cfg(target_arch = \"x86_64\")]\nuse core::arch::x86_64::__cpuid;\nuse crate::arch::count;\n";
        assert_finds(check, "crates/record/slow/src/offsets.rs", text, &[1, 2]);
        assert_finds(
            check,
            "crates/record/inject/src/target.rs",
            "if !std::arch::is_x86_feature_detected!(\"xsave\") {\n",
            &[1],
        );
        assert_finds(
            check,
            "lib/sys/src/lib.rs",
            "naked_asm!(\"ret\")\n\n::core::arch::global_asm!(\"\")\n",
            &[1, 3],
        );
    }

    #[test]
    fn so_do_emulators_and_decoders() {
        let text = "use iced_x86::Decoder;\nconst QEMU: &str = \"qemu-system-x86_64\";\n";
        assert_finds(check, "crates/record/synth/src/launch.rs", text, &[1, 2]);
        assert_finds(check, "lib/pt/src/insn/mod.rs", text, &[2]);
    }

    #[test]
    fn so_do_bytes_of_instructions_and_sizes_of_pages() {
        let text = "const JUMP: u8 = 0xe9;\nconst A: u32 = 0xe9ab;\nconst PAGE: u64 = 4096;\nconst MAX: u64 = 4096;\n\
                    [0x0f, 0x1f, 0x44]\nError::NoXsave\n";
        assert_finds(check, "crates/tools/inspect/src/process.rs", text, &[1, 3, 5, 6]);
        assert_finds(check, "crates/tools/inspect/src/arch/x86_64/mod.rs", text, &[]);
        assert_finds(check, "bench/src/figures/floor.rs", text, &[]);
        let tests = format!("fn f() {{}}\n\n#[cfg(test)]\nmod tests {{\n{text}}}\n");
        assert_finds(check, "crates/traced/patch/src/table.rs", &tests, &[]);
    }

    #[test]
    fn figures_and_chores_have_the_seam_too() {
        let text = "unsafe { asm!(\"nop\") };\nconst HOST: &str = \"x86_64-unknown-linux-gnu\";\n";
        assert_finds(check, "bench/src/figures/floor.rs", text, &[1, 2]);
        assert_finds(check, "xtask/src/fuzz.rs", text, &[1, 2]);
        assert_finds(check, OWN, text, &[]);
    }

    #[test]
    fn the_page_has_a_row_for_each_crate_with_a_seam() {
        let file = |name: &str| (name.to_owned(), String::new());
        let files =
            [file("lib/sys/src/arch/mod.rs"), file("bench/src/arch/mod.rs"), file("lib/bpf/src/lib.rs")];
        let mut wrong = Vec::new();
        check_page("| `lib/sys` | calls |\n| `lib/bpf` | nothing |\n", &files, &mut wrong);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].ends_with("bench/src/arch") && wrong[1].contains("lib/bpf"), "{wrong:?}");
    }
}
