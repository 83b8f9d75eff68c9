//! The attribute of Intel PT's event on real processors: as perf would make it, or a sentence about what they cannot.

use mote_pmu::{Device, Period, Settings};
use std::fs;
use std::path::Path;

/// A copy of a machine's directory in sysfs, one file a line: `PATH: CONTENT`.
fn device(name: &str) -> Device {
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/devices").join(format!("{name}.txt"));
    let text = fs::read_to_string(text).expect("the machine");
    let folder = tempfile::tempdir().expect("a directory");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (path, content) = line.split_once(": ").expect("a file");
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, format!("{content}\n")).expect("a file");
    }
    Device::read(folder.path()).expect("Intel PT")
}

fn check(name: &str, settings: &Settings, expect: Result<u64, &str>) {
    match (settings.attribute(&device(name)), expect) {
        (Ok(attribute), Ok(config)) => {
            assert_eq!(attribute.config, config, "{name}: {:#x}", attribute.config)
        }
        (Err(why), Err(part)) => assert!(why.to_string().contains(part), "{name}: {why}"),
        (found, expect) => panic!("{name}: {found:?} is not {expect:?}"),
    }
}

#[test]
fn what_is_usual_is_what_perf_records() {
    let usual = Settings::default();
    // `perf record -vv -e intel_pt//` prints these.
    check("skylake", &usual, Ok(0x300_e601));
    check("kaby_lake_r_linux_5_4", &usual, Ok(0x300_e601));
    check("ice_lake_server", &usual, Ok(0x300_e601));
    check("all_of_the_manual", &usual, Ok(0x300_e601));
    check("skylake_linux_4_4", &usual, Ok(0x300_c600));
    check("broadwell", &usual, Ok(0x2401));
}

#[test]
fn what_is_wished_is_set() {
    let cycles = Settings { cyc: Some(6), ..Settings::default() };
    check("skylake", &cycles, Ok(0x330_e603));
    check("broadwell", &cycles, Err("no packets with cycles (CYC): Intel's have since Skylake"));
    let most = Settings { cyc: Some(13), ..Settings::default() };
    check("skylake", &most, Ok(0x368_e603));
    check(
        "ice_lake_server",
        &most,
        Err("the threshold of CYC 13 is none that this processor has: it has 0, 1, 2"),
    );
    let periods = Settings { mtc: Period::Exactly(9), psb: Some(0), ..Settings::default() };
    check("skylake", &periods, Ok(0x2_6601));
    check("broadwell", &periods, Err("no packets of the crystal clock (MTC)"));
    let wrong = Settings { mtc: Period::Exactly(4), ..Settings::default() };
    check("skylake", &wrong, Err("the period of MTC 4 is none that this processor has: it has 0, 3, 6, 9"));
    check("skylake", &Settings { psb: Some(6), ..Settings::default() }, Err("it has 0, 1, 2, 3, 4, 5"));
    check("skylake", &Settings { psb: Some(255), ..Settings::default() }, Err("it has 0, 1, 2, 3, 4, 5"));
    check(
        "broadwell",
        &Settings { psb: Some(3), ..Settings::default() },
        Err("how far PSB packets are apart"),
    );
    let none = Settings { mtc: Period::Off, no_return_compression: true, ..Settings::default() };
    check("skylake", &none, Ok(0x300_2c01));
}

#[test]
fn whose_code_is_said_by_flags() {
    use mote_perfdata::attribute::flag;
    let device = device("skylake");
    assert_eq!(
        (device.unit, device.filters, device.tsc_per_art, device.max_nonturbo_ratio),
        (8, 2, (300, 2), 36)
    );
    assert_eq!(device.mask("mtc_period"), 0x3c000);
    let flags = |settings: Settings| settings.attribute(&device).expect("an attribute").flags;
    let without = flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV;
    assert_eq!(flags(Settings::default()) & without, without);
    // All records say when and where; both events say it in the same way.
    assert_eq!(flags(Settings::default()) & flag::SAMPLE_ID_ALL, flag::SAMPLE_ID_ALL);
    let band = Settings::default().side_band(false);
    assert_eq!(band.flags & flag::SAMPLE_ID_ALL, flag::SAMPLE_ID_ALL);
    let packets = Settings::default().attribute(&device).expect("an attribute");
    assert_eq!(band.sample_type, packets.sample_type);
    let kernel = Settings { kernel: true, ..Settings::default() };
    assert_eq!(flags(kernel.clone()) & without, 0);
    assert_eq!(kernel.side_band(true).flags & flag::TEXT_POKE, flag::TEXT_POKE);
    assert_eq!(kernel.side_band(false).flags & flag::TEXT_POKE, 0);
}
