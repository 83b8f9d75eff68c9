//! What processors do otherwise than the manual says: errata, by the names of Intel's specification updates.
//!
//! Letters are of a family of processors: BDM of Broadwell, SKD and SKL of Skylake, KBL of Kaby Lake, SKZ of Skylake's
//! servers, APL of Apollo Lake. Updates of later families have the same ones by other numbers. Which model has which
//! one is what `pt_cpu_errata` of libipt 2.2 says, and perf's `intel-pt.c` (Linux 6.1).

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A model of processor, as CPUID.1 names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpu {
    /// The family: 6 for nearly all.
    pub family: u32,
    /// The model, with its extension.
    pub model: u32,
    /// The stepping, which decides nothing yet.
    pub stepping: u32,
}

/// A text that names no processor.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "'{0}' is no processor: FAMILY/MODEL[/STEPPING], as in 6/158/9, or as perf has it, GenuineIntel,6,158,9"
)]
pub struct NoCpu(String);

impl FromStr for Cpu {
    type Err = NoCpu;

    /// `6/158/9`, `6/158`, `6/0x9e`, or `GenuineIntel,6,158,9`.
    fn from_str(text: &str) -> Result<Cpu, NoCpu> {
        let numbers = text.strip_prefix("GenuineIntel,").unwrap_or(text);
        let number = |word: &str| match word.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => word.parse(),
        };
        let numbers: Result<Vec<u32>, _> = numbers.split(['/', ',']).map(number).collect();
        match numbers.as_deref() {
            Ok(&[family, model]) => Ok(Cpu { family, model, stepping: 0 }),
            Ok(&[family, model, stepping]) => Ok(Cpu { family, model, stepping }),
            _ => Err(NoCpu(text.to_owned())),
        }
    }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.family, self.model, self.stepping)
    }
}

macro_rules! errata {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// Errata that a processor has. None is believed of a processor that is not known to have it: what one excuses
        /// is a sign of lost packets elsewhere.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct Errata {
            $($(#[$doc])+ pub $name: bool,)+
        }

        impl Errata {
            /// The names of all that are known.
            pub const NAMES: &[&str] = &[$(stringify!($name)),+];

            /// Whether it has the one of that name; nothing if there is none.
            #[must_use]
            pub fn get(&self, name: &str) -> Option<bool> {
                match name {
                    $(stringify!($name) => Some(self.$name),)+
                    _ => None,
                }
            }

            /// The same, with the one of that name, too; nothing if there is none.
            #[must_use]
            pub fn with(mut self, name: &str) -> Option<Errata> {
                match name {
                    $(stringify!($name) => self.$name = true,)+
                    _ => return None,
                }
                Some(self)
            }
        }
    };
}

errata! {
    /// BDM64, "An Incorrect LBR or Intel Processor Trace Packet May Be Recorded Following a Transactional Abort": where
    /// a transaction is aborted directly behind a branch, the branch's packet may be wrong. Of the flow: where code
    /// does not lead from there to the address of the abort, it was the abort that led there.
    bdm64,
    /// BDM70, "Intel Processor Trace PSB+ Packets May Contain Unexpected Packets" (SKD024, SKL021, KBL021): a PSB+
    /// before TIP.PGE has FUP and MODE.Exec, though tracing is off. Of the flow: the FUP is not believed.
    bdm70,
    /// SKD007, "Intel PT Buffer Overflow May Result in Incorrect Packets" (SKL049, KBL041): OVF stands behind the first
    /// byte of a CYC of several bytes, instead of the others. Of packets: where the bytes could be a CYC of 2 bytes and
    /// one of 1 byte, they are what is left of a CYC, and OVF: no two CYC follow one another without a wrap.
    skd007,
    /// SKD010, "Intel PT FUP May be Dropped After OVF" (SKD014, SKL033, KBL030). Of the flow: it goes on at the next
    /// address that says so, without a complaint.
    skd010,
    /// SKD022, "VM Entry That Clears TraceEn May Generate a FUP" (SKL024, KBL023): before the TIP.PGD. Of the flow: the
    /// entry was executed.
    skd022,
    /// SKL014, "Intel PT TIP.PGD May Not Have Target IP Payload" (KBL014): where a direct jump or call leaves the
    /// addresses that are traced. Of the flow: it is the first one that does, where these are known.
    skl014,
    /// SKL168, "Intel PT CYC Packets Can be Dropped When Immediately Preceding PSB", and an MTC with it. Of time:
    /// cycles before and behind a PSB have nothing to do with one another.
    skl168,
    /// SKZ84, "Use of VMX TSC Scaling or TSC Offsetting Will Result in Corrupted Intel PT Packets": TMA packets in
    /// guests have wrong values, and a byte more. Of packets: one with reserved bits set is such a one.
    skz84,
    /// APL11, "Intel PT OVF Packet May Be Followed by TIP.PGD Packet". Of the flow: tracing is off behind it.
    apl11,
    /// APL12, "Intel PT OVF May Be Followed By An Unexpected FUP Packet", though tracing is off. Of the flow: where the
    /// packets behind say that it is, the FUP is not believed.
    apl12,
    /// Without a number: FUP of software interrupts and others may have the address of the next instruction (perf's
    /// `INTEL_PT_FUP_WITH_NLIP`, Linux commit 9fb523363f6e). Of the flow: a FUP behind a branch that no packet has told
    /// is of that branch.
    fup_nlip,
}

impl Errata {
    /// Those that a processor is known to have.
    #[must_use]
    pub fn of(cpu: Cpu) -> Errata {
        let none = Errata::default();
        let core = Errata { bdm70: true, skl014: true, skd022: true, ..none };
        match (cpu.family, cpu.model) {
            // Broadwell.
            (6, 0x3d | 0x47 | 0x4f | 0x56) => Errata { bdm70: true, bdm64: true, ..none },
            // Skylake, Kaby Lake, Coffee Lake, Comet Lake.
            (6, 0x4e | 0x5e | 0x8e | 0x9e | 0xa5 | 0xa6) => {
                Errata { skd007: true, skd010: true, skl168: true, ..core }
            }
            // Servers: Skylake, Ice Lake, Sapphire Rapids, Emerald Rapids, Granite Rapids, Diamond Rapids.
            (6, 0x55 | 0x6a | 0x6c | 0x8f | 0xad | 0xae | 0xcf) | (0x13, 1) => Errata { skz84: true, ..core },
            // Cannon Lake, Ice Lake, Tiger Lake, Rocket Lake.
            (6, 0x66 | 0x7d | 0x7e | 0x8c | 0x8d | 0xa7 | 0xa8) => core,
            // With cores of both kinds: Alder Lake, Raptor Lake, Meteor Lake, Arrow Lake, Lunar Lake, Panther Lake.
            (6, 0x97 | 0x9a | 0xbf | 0xb7 | 0xb5 | 0xaa | 0xac | 0xba | 204 | 0xbd | 0xc5 | 0xc6) => {
                Errata { apl11: true, ..core }
            }
            // Goldmont.
            (6, 0x5c) => Errata { apl11: true, apl12: true, fup_nlip: true, ..none },
            (6, 0x5f) => Errata { apl11: true, apl12: true, ..none },
            // Goldmont Plus, Tremont, Gracemont, Crestmont, Darkmont.
            (6, 0x7a | 0x86 | 0x96 | 0x9c | 0xb6 | 0xaf | 0xdd) => Errata { apl11: true, ..none },
            _ => none,
        }
    }

    /// Gives the specification updates' names of the errata that are set.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        Errata::NAMES.iter().copied().filter(|name| self.get(name) == Some(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(cpu: &str) -> Vec<&'static str> {
        Errata::of(cpu.parse().expect("a processor")).names().collect()
    }

    #[test]
    fn models_have_the_errata_that_their_updates_list() {
        assert_eq!(names("6/61/4"), ["bdm64", "bdm70"]);
        assert_eq!(
            names("GenuineIntel,6,158,9"),
            ["bdm70", "skd007", "skd010", "skd022", "skl014", "skl168"]
        );
        assert_eq!(names("6/0x55"), ["bdm70", "skd022", "skl014", "skz84"]);
        assert_eq!(names("6/126/5"), ["bdm70", "skd022", "skl014"]);
        assert_eq!(names("6/0x97/2"), ["bdm70", "skd022", "skl014", "apl11"]);
        assert_eq!(names("6/92/9"), ["apl11", "apl12", "fup_nlip"]);
        assert_eq!(names("6/95"), ["apl11", "apl12"]);
        assert_eq!(names("6/122/1"), ["apl11"]);
        // Before Intel PT, and of others.
        assert_eq!(names("6/60/3"), Vec::<&str>::new());
        assert_eq!(names("25/97/2"), Vec::<&str>::new());
        assert_eq!(names("0/0/0"), Vec::<&str>::new());
    }

    #[test]
    fn each_can_be_named() {
        for name in Errata::NAMES {
            let errata = Errata::default().with(name).expect("it is known");
            assert_eq!(errata.names().collect::<Vec<_>>(), [*name]);
        }
        assert_eq!(Errata::default().with("bdm1"), None);
        assert_eq!(Errata::default().get("bdm1"), None);
    }

    #[test]
    fn what_is_no_processor_is_refused() {
        for text in ["", "6", "6/158/9/1", "6/x", "6/-1", "AuthenticAMD,25,97,2"] {
            assert_eq!(text.parse::<Cpu>(), Err(NoCpu(text.to_owned())));
        }
        assert_eq!("6/158/9".parse::<Cpu>().map(|cpu| cpu.to_string()), Ok("6/158/9".to_owned()));
    }
}
