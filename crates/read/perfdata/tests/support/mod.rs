//! What has to hold for any bytes.

use mote_perfdata::{Error, PerfData, Record, SampleFormat, SampleId};

/// Reads bytes as a file. What can be read lies side by side up to the end, or up to one error.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(file) = PerfData::open(bytes) else { return };
    let mut end = None;
    for (number, entry) in file.records().enumerate() {
        let Ok(entry) = entry else {
            assert_eq!(file.records().count(), number + 1, "an error is the last one");
            return;
        };
        if entry.was_compressed {
            again(&entry.record);
            continue;
        }
        // Compressed records between them come otherwise.
        assert!(end.is_none_or(|end| end <= entry.offset), "{entry:?} does not follow {end:?}");
        let behind = entry.offset + u64::from(entry.size);
        assert!(entry.piece.is_none_or(|piece| piece.offset == behind));
        assert!(entry.piece.is_none_or(|piece| piece.offset + piece.len <= bytes.len() as u64));
        let is_inside =
            |piece: mote_perfdata::Piece| entry.offset < piece.offset && piece.offset + piece.len <= behind;
        assert!(entry.sampled.is_none_or(is_inside), "{entry:?}");
        end = Some(entry.piece.map_or(behind, |piece| piece.offset + piece.len));
        again(&entry.record);
    }
    let _ = (file.features().build_ids(), file.features().command(), file.features().text(3));
}

/// What was read of a record is written, and read again as the same.
fn again(record: &Record) {
    let is_partly_read = matches!(record, Record::Sample { .. } | Record::Damaged { .. });
    match record.write(&SampleId::default(), SampleFormat::default()) {
        // Texts that had no NUL, and events of an old version, grow.
        Err(Error::TooLong { .. }) => {}
        Err(why) => panic!("{why}"),
        Ok(_) if is_partly_read => {}
        Ok(bytes) => {
            let (read, _) = Record::read(&bytes, SampleFormat::default());
            match (record, &read) {
                // A text's filling cannot be told from its end; bytes that are not known are kept.
                (Record::BuildId { path, .. }, Record::BuildId { path: again, .. }) => {
                    assert_eq!(path, again)
                }
                _ => assert_eq!(*record, read),
            }
        }
    }
}
