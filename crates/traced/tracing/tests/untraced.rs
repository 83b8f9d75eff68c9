//! A program that is not recorded pays nothing, and its own subscriber is set as if mote were not there.

use tracing::level_filters::LevelFilter;

#[test]
fn an_untraced_program_evaluates_no_field_and_may_set_a_subscriber() {
    assert!(mote_tracing::layer().is_none());
    assert!(mote_tracing::init());
    assert!(mote_tracing::init() && mote_tracing::install(), "a second call changed something");
    assert_eq!(LevelFilter::current(), LevelFilter::OFF);
    tracing::error!(value = unreachable(), "never made");
    assert!(tracing::info_span!("span", value = unreachable()).is_none());
    assert!(tracing::subscriber::set_global_default(tracing_subscriber::registry()).is_ok());
    assert!(!mote_tracing::init(), "the program's subscriber was not noticed");
    assert!(!mote_tracing::install(), "the program's subscriber was not noticed");
}

fn unreachable() -> u64 {
    panic!("a field of an event that is off was evaluated")
}
