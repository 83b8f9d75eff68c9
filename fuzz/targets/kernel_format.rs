//! Formats of trace events: any text is understood or refused, and what is understood can be described.
#![no_main]

use mote_catalog::format;
use mote_catalog::event::{Event, Hook};
use mote_layout::parse;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(format) = format::parse(&String::from_utf8_lossy(bytes)) else { return };
    let event = Event {
        provider: "fuzz".to_owned(),
        name: format.name,
        fields: format.fields.into_iter().map(|(field, _)| field).collect(),
        hook: Hook::Tracepoint { path: "fuzz/event".to_owned(), id: format.id },
    };
    let text = event.description();
    assert!(text.len() >= parse::DESCRIPTION_MAX || parse::parse(text.as_bytes()).is_ok(), "{text}");
});
