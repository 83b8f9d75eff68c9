//! The seam for the processor: what depends on one stands in folders called `arch`, so that another one is a folder to
//! add.

/// What only makes sense on one processor, or is assembly.
const WORDS: [&str; 7] = [
    "asm!",
    "naked_asm!",
    "arch::x86_64",
    "arch::aarch64",
    "target_arch",
    "is_x86_feature_detected",
    "is_aarch64_feature_detected",
];

/// Names what stands outside of an `arch` folder in the sources of a crate. Tests may: they make code for the machine
/// that they run on.
pub(super) fn check(name: &str, text: &str, wrong: &mut Vec<String>) {
    if !is_bound(name) {
        return;
    }
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or(line);
        if let Some(word) = WORDS.iter().find(|word| code.contains(**word)) {
            let number = number + 1;
            wrong.push(format!(
                "{name}:{number} has {word}; what depends on the processor stands in src/arch"
            ));
        }
    }
}

/// Whether a file is a source of a crate, and in no `arch` folder.
fn is_bound(name: &str) -> bool {
    let mut parts = name.split('/');
    let is_of_crate = matches!(parts.next(), Some("lib" | "crates"));
    let mut inner = parts.skip_while(|part| *part != "src").skip(1).peekable();
    is_of_crate && inner.peek().is_some() && inner.next() != Some("arch")
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
}
