//! Patterns of instructions, whatever somebody writes.

use mote_hardware::delta::{Names, Pattern};
use proptest::prelude::*;

proptest! {
    /// Any text is a pattern or an error that says where.
    #[test]
    fn any_text_is_answered(text in r#"[a-z0-9 |/+@"(){}:,.*\n=é]{0,40}"#, file in r"([a-c] ?= ?[a-c |/+]{0,6}\n){0,4}") {
        let names = Names::parse(&file).unwrap_or_default();
        match Pattern::parse(&text, &names) {
            Ok(pattern) => prop_assert_eq!(pattern.to_string(), text.trim()),
            Err(why) => prop_assert!(why.to_string().contains("column"), "{}", why),
        }
    }
}
