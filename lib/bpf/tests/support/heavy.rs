//! Programs that ask for as much of the verifier's work as they can: much is on the stacks of many frames, where many
//! branches are.

/// Slots of a stack.
pub(crate) const SLOTS: usize = 64;

/// What the innermost function does, entered with a number that nothing is known of in `r6`.
pub(crate) const BODIES: [(&str, &str); 5] = [
    (
        "a look-up, and a way out, in each turn",
        "r8 = 0; r7 = map[idx:0] ll
        loop: r8 += 1; r1 = r7; r2 = r10; r2 += -8; *(u32 *)(r10 - 8) = 0; call map_lookup_elem
        if r0 != 0 goto there; r0 = 0; exit
        there: r3 = *(u64 *)(r0 + 0); if r3 != 5 goto more; r0 = 0; exit
        more: if r8 < 500000 goto loop; r0 = 0; exit",
    ),
    (
        "a way out of all frames in each turn",
        "r8 = 0; loop: r8 += 1; if r6 != r8 goto more; r0 = 0; exit
        more: if r8 < 500000 goto loop; r0 = 0; exit",
    ),
    (
        "two branches to the same place in each turn",
        "r8 = 0; loop: r8 += 1; if r6 & 1 goto +0; if r6 & 2 goto +0; if r8 < 500000 goto loop; r0 = 0; exit",
    ),
    (
        "two branches that say something of all copies in each turn",
        "r8 = 0; loop: r8 += 1; if r6 == 0 goto +0; if r6 s< 0 goto +0; r6 = *(u64 *)(r10 - 512)
        if r8 < 500000 goto loop; r0 = 0; exit",
    ),
    (
        "a loop in a loop",
        "r8 = 0; r9 = 0; loop: r8 += 1; if r6 == r9 goto out
        inner: r9 += 1; if r9 < 100 goto inner
        out: r9 = 0; if r8 < 500000 goto loop; r0 = 0; exit",
    ),
];

/// The program whose first function calls the second, and so on; each fills its stack with copies of the number.
pub(crate) fn program(frames: usize, body: &str) -> String {
    let mut text = String::from("r6 = *(u64 *)(r1 + 0)\n");
    for number in 0..frames {
        if number > 0 {
            text += &format!("f{number}: r6 = r1\n");
        }
        for slot in 1..=SLOTS {
            text += &format!("*(u64 *)(r10 - {}) = r6\n", 8 * slot);
        }
        match number + 1 {
            last if last == frames => text += body,
            next => text += &format!("r1 = r6; call f{next}; r0 = 0; exit\n"),
        }
    }
    text.replace(';', "\n")
}
