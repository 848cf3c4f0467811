//! What a file must have.

use super::*;

#[test]
fn what_cannot_be_replayed_is_refused_with_what_to_do() {
    let config = load(&text());
    let file = captured(&config);
    let refused = |file: &[u8], config: &Config| format!("{:#}", again(file, config).unwrap_err());
    // In the middle of a block, behind a whole one, at once.
    let statistics = 12 + 12 + 12 + 12 + 4;
    for cut in [7, statistics, file.len() - 3] {
        let said = refused(&file[..file.len() - cut], &config);
        assert!(said.contains("cut short"), "{said}");
    }
    // As mergecap writes it, which says who it is: not known.
    assert!(refused(&file[..file.len() - statistics], &config).contains("reordercap and editcap leave"));
    let merged = [&file[..28], b"Mergecap", &file[36..file.len() - statistics]].concat();
    assert!(
        !CaptureFile::read(&merged[..]).unwrap().is_whole && CaptureFile::read(&file[..]).unwrap().is_whole
    );
    assert_eq!(again(&merged, &config).unwrap().verdict(), Verdict::Pass);
    assert!(refused(&merged[..merged.len() - 3], &config).contains("cut short after frame"));
    // Of either byte order, whole or not.
    for classic in [&b"\xd4\xc3\xb2\xa1 and more"[..], b"\xa1\xb2\x3c\x4d", b"\x34\xcd\xb2\xa1\x02"] {
        let said = refused(classic, &config);
        assert!(
            said.contains("a classic pcap file, not pcapng") && said.contains("as `weir capture` wrote it"),
            "{said}"
        );
    }
    assert!(refused(b"this is no capture at all, of any kind", &config).contains("not a pcapng file"));
    let renamed = load(&text().replace("\"p0\"", "\"q0\""));
    assert!(refused(&file, &renamed).contains("c.toml has no such port; it has q0, p1"));
    assert!(
        refused(&changed(&file, 8, "frame 8", "frame 9"), &config)
            .contains("frame 9: it is in the file twice")
    );
    assert!(
        refused(&changed(&file, 8, "frame 8; ", "frame 800"), &config).contains("frame 8: it is missing")
    );
    let end = || WatchLine::End { why: String::new(), frames: 0, on_their_way: 0, missed: 0 };
    let mut empty = Vec::new();
    Capture::new(&mut empty, "p0", 64, None).unwrap().finish(&end()).unwrap();
    assert!(refused(&empty, &config).contains("no frame has a comment of `weir capture`"));
    let mut drops = Vec::new();
    let mut capture = Capture::new(&mut drops, "p0", 64, None).unwrap();
    let lost = |len_bytes: u32, kept: usize| WatchLine::Lost {
        frame: 1,
        at_ns: 0,
        port: "p0".into(),
        len_bytes,
        bytes: "00".repeat(kept),
        stage: "parse".into(),
        reason: "parse.runt".into(),
        remedy: String::new(),
    };
    capture.note(lost(60, 60)).unwrap();
    capture.finish(&end()).unwrap();
    assert!(refused(&drops, &config).contains("capture without --drops"));
    let mut short = Vec::new();
    let mut capture = Capture::new(&mut short, "p0", 12, None).unwrap();
    capture.note(lost(900, 12)).unwrap();
    capture.finish(&end()).unwrap();
    assert!(
        refused(&short, &config).contains("12 of 900 bytes, too few for its headers; capture with --snaplen")
    );
}

/// Years in which nothing comes cost no more than a moment; beyond all measure they are refused.
#[test]
fn gaps_between_frames_are_jumped_over() {
    let config = load(&text());
    let later = |ns: u64| {
        let mut capture = CaptureFile::read(&captured(&config)[..]).unwrap();
        capture.frames.iter_mut().skip(80).for_each(|frame| frame.unix_ns += ns);
        let port = followed(&capture, &config, "c.toml")?;
        judge(&config, &capture, port)
    };
    const HUNDRED_YEARS: u64 = 100 * 365 * 24 * 3600 * 1_000_000_000;
    let (written, found) = later(HUNDRED_YEARS).unwrap();
    assert_eq!((found.totals[1].frames, of(&found, "lookup")), (160, (160, 0)));
    assert!(found.differences.iter().all(|d| d.replayed != "nothing"), "{:?}", found.differences);
    let times: BTreeSet<u64> =
        CaptureFile::read(&written[..]).unwrap().frames.iter().map(|frame| frame.unix_ns).collect();
    assert!(times.last().unwrap() - times.first().unwrap() > HUNDRED_YEARS);
    let said = format!("{:#}", later(3 << 61).unwrap_err());
    assert!(
        said.contains("frame 81: it came 219 years after the first one, at most 146 are played"),
        "{said}"
    );
}
