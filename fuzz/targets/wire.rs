//! Control messages: any bytes decode to a message or an error, and a message encodes to the same bytes.
#![no_main]

use mote_wire::Message;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = Message::decode(bytes) {
        let mut buffer = vec![0; bytes.len()];
        assert_eq!(message.encode(&mut buffer), Some(bytes));
        if let Message::Events { texts, .. } = message {
            mote_wire::texts(texts).for_each(drop);
        }
    }
});
