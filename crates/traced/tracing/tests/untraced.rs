//! A program that is not recorded pays nothing, and notices a second subscriber as it would when recorded.

use tracing::level_filters::LevelFilter;

#[test]
fn an_untraced_program_evaluates_no_field_and_keeps_one_subscriber() {
    assert!(mote_tracing::layer().is_none());
    assert!(mote_tracing::init());
    assert!(!mote_tracing::init(), "a second subscriber was taken");
    assert_eq!(LevelFilter::current(), LevelFilter::OFF);
    tracing::error!(value = unreachable(), "never made");
    assert!(tracing::info_span!("span", value = unreachable()).is_none());
}

fn unreachable() -> u64 {
    panic!("a field of an event that is off was evaluated")
}
