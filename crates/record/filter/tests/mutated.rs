//! Mistyped rules: whatever the text, there is a result, and what compiles is accepted by the verifier.

use mote_bpf::environment::STEPS_MAX;
use mote_bpf::verify::verify_traced;
use mote_bpf::{Entry, Environment};
use mote_filter::{Decision, Maps, Missing, Rule, Session, Side, compile};
use mote_layout::tracer;
use mote_layout::{context, parse};

const EVENT: &[u8] = b"mote1\nnet:in\n6 f:1\n\nlen u32\nproto str\nstate enum u8 IDLE=0 BUSY=1..3\nmac u8[6]\npath u16[]\nnow u64\nload f64\nup bool\nf f32[]\n";

const RULES: [&str; 15] = [
    "net:* if $kernel.offcpu_since_last_event > 1ms && $shared.x[len % 4] == 1 || $thread.y[2] do threshold write 200us",
    "net:* if len > 1500 && proto == \"tcp*\" && $tid == 4242 do record",
    "net:* if (now - 5) * 3 / (len + 1) > 1k && state == BUSY || !up do count by proto, state",
    "net:* if path[len % 4] == 0x7 && mac[0] & 1 == 0 && load <= -0.25e3 do hist len by $comm",
    "net:* if every(1000) || first(10) || limit(100/s) || sample(1%) do last 10 len, proto",
    "net:* if changed(state) || proto != $last.proto || $delta > 10ms do set x, clear y",
    "net:* if proto in (\"a\", \"b*c\", \"\\x41\\*\") || len in (1, 3..5, 4k) do emit e(a = len, b = proto)",
    "net:* if contains(proto, \"x\") && starts_with(proto, 'y') && len(path) > 2 do snapshot, speculate",
    "net:* if $comm == \"w*r*k\" && $exe != \"*/bash\" && $cpu < 2 do commit, discard",
    "net:* if $elapsed by proto > 5ms || $elapsed by (len << 32 | now) do commit by proto, discard by path[len % 4]",
    "net:* if $elapsed by $elapsed by len < 3 do speculate by `up`, speculate, hist ($elapsed by now) by proto",
    "net:* if proto < \"m\" && proto == proto && f[1] > f[0] do record",
    "len == 1 || len == 2 || (len >= 5 && len < 10) || -len << 3 ^ ~len == 7",
    "by proto, prefix(proto, 5), $event if len > 4k",
    "len by proto if $flag.x && $elapsed > 250us /* why */",
];

/// Numbers that look random and are the same each time (xorshift*, Vigna 2016).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end.max(1)
    }

    /// A rule with a few changes: characters that go, come, or are of another rule.
    fn rule(&mut self) -> String {
        let mut text: Vec<char> = RULES[self.below(RULES.len())].chars().collect();
        for _ in 0..self.below(4) {
            let at = self.below(text.len() + 1);
            let other: Vec<char> = RULES[self.below(RULES.len())].chars().collect();
            let from = self.below(other.len());
            let piece = &other[from..(from + self.below(12)).min(other.len())];
            let to = (at + self.below(8)).min(text.len());
            match self.below(4) {
                0 => drop(text.drain(at..to)),
                1 => drop(text.splice(at..at, piece.iter().copied())),
                2 => drop(text.splice(at..to, piece.iter().copied())),
                _ => text.insert(
                    at,
                    *[' ', '(', ')', '"', '*', '0', '9', '~', '$', 'é', '\\', '!']
                        .get(self.below(12))
                        .unwrap_or(&'-'),
                ),
            }
        }
        text.into_iter().collect()
    }
}

#[test]
fn any_text_is_understood_or_refused() {
    let event = parse::parse(EVENT).unwrap();
    let words: Vec<_> = context::words(&event).collect();
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut room = mote_vm::workspace().unwrap();
    let (mut run, mut refused) = (0, 0);
    for _ in 0..1200 {
        let text = random.rule();
        for rule in [
            Rule::parse(&text),
            Rule::filter("*", &text),
            Rule::count("*", &text),
            Rule::histogram("*", &text),
        ] {
            let mut maps = Maps::new();
            let mut session = Session { side: Side::User, missing: Missing::Never, declare: &mut |_| Ok(7) };
            match rule.and_then(|rule| compile(&[rule], &event, &mut session, &mut maps)) {
                Err(problem) => {
                    assert!(!problem.render().is_empty());
                    refused += 1;
                }
                Ok(Decision::Run(compiled)) => {
                    let shapes = maps.shapes();
                    assert!(shapes.iter().all(mote_bpf::MapShape::is_sound), "{text}");
                    let env = Environment {
                        entry: Entry::Context(&words),
                        maps: &shapes,
                        helpers: tracer::HELPERS,
                        steps_max: STEPS_MAX,
                    };
                    let state = mote_layout::cooperation::READABLE_BYTES as u32;
                    if let Err(why) = verify_traced(&compiled.insns, &env, state, &mut room) {
                        panic!("{text}\n{why}");
                    }
                    run += 1;
                }
                Ok(_) => {}
            }
        }
    }
    assert!(run > 300 && refused > 300, "{run} {refused}");
}
