//! Who held up a collective, and by how much: the same frames at the same times are as late whatever messages they are parts of.

use super::import_tests::{folder, play_in};
use super::{CollectiveResult, collective_report::Straggler};

/// What rank 0 sends rank 1 by one queue pair, in so many messages, behind a computation.
fn in_pieces(pieces: u32, bytes: u32, compute_ns: u32) -> String {
    let computed = format!("{{\"rank\":0,\"id\":0,\"op\":\"compute\",\"ns\":{compute_ns}}}\n");
    let messages = (1..=pieces).map(|id| {
        let size = bytes / pieces;
        format!(
            "{{\"rank\":0,\"id\":{id},\"op\":\"send\",\"to\":1,\"bytes\":{size},\"tag\":{id},\"after\":[0]}}\n\
             {{\"rank\":1,\"id\":{id},\"op\":\"recv\",\"from\":0,\"tag\":{id}}}\n"
        )
    });
    [computed].into_iter().chain(messages).collect()
}

/// Plays the operations at hosts h0 and h1 of a fabric.
fn play(fabric: &str, operations: &str, beside: &str) -> CollectiveResult {
    let dir = folder(&[("o.jsonl", operations)]);
    let text = format!(
        "name = \"s\"\nstop_time = \"50ms\"\n{fabric}[[workload]]\nkind = \"operations\"\nfile = \"o.jsonl\"\nhosts = [\"h0\", \"h1\"]\n{beside}"
    );
    let report = play_in(dir.path(), &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    report.collectives.into_iter().next().unwrap()
}

fn straggler(of: &CollectiveResult) -> &Straggler {
    of.figures.straggler.as_ref().unwrap()
}

fn time(of: &CollectiveResult) -> u64 {
    of.figures.time_ns.unwrap()
}

#[test]
fn another_flow_is_felt_alike_by_one_message_and_by_many() {
    let beside = "[[workload]]\nkind = \"flow\"\nfrom = \"h2\"\nto = \"h1\"\nbytes = \"20MB\"\n";
    for (level, cause) in [("packet", "queue"), ("flow", "contention")] {
        let star = format!("level = \"{level}\"\n[topology]\nkind = \"star\"\nhosts = 3\n");
        for pieces in [1, 10, 100, 250] {
            let file = in_pieces(pieces, 4_000_000, 10_000);
            let (alone, shared) = (play(&star, &file, ""), play(&star, &file, beside));
            let (late, longer) = (straggler(&shared), time(&shared) - time(&alone));
            assert_eq!((late.host.as_str(), late.cause), ("h0", cause), "{level} {pieces}: {late:?}");
            assert!(late.late_ns.abs_diff(longer) < longer / 50, "{level} {pieces}: {late:?} of {longer}");
        }
    }
}

/// A long cable is waited for once; a slow line by headers, preambles and gaps, too.
#[test]
fn lines_cost_what_they_cost() {
    let of = |level: &str, payload: u32, line: &str, pieces: u32| {
        let custom = format!(
            "level = \"{level}\"\n[topology]\nkind = \"custom\"\nhosts = [\"h0\", \"h1\", \"h2\"]\nswitches = [\"s\"]\n\
             links = [{{ a = \"h0\", b = \"s\"{line} }}, {{ a = \"h1\", b = \"s\" }}, {{ a = \"h2\", b = \"s\" }}]\n[host]\npayload = {payload}\n"
        );
        play(&custom, &in_pieces(pieces, 1_000_000, 1_000), "")
    };
    for level in ["packet", "flow"] {
        for (payload, line) in
            [(1000, ", delay = \"100us\""), (64, ", rate = \"50G\""), (4096, ", rate = \"50G\"")]
        {
            let whole = time(&of(level, payload, line, 1)) - time(&of(level, payload, "", 1));
            for pieces in [1, 10, 50] {
                let slow = of(level, payload, line, pieces);
                let late = straggler(&slow);
                let near = late.late_ns.abs_diff(whole) < whole / 50;
                assert!(
                    late.cause == "line" && late.host == "h0" && near,
                    "{level} {line} {pieces}: {late:?} of {whole}"
                );
            }
        }
    }
}

/// Nobody is held back for longer than its host was.
#[test]
fn pauses_are_counted_once() {
    let chain = "[topology]\nkind = \"chain\"\nswitches = 4\nhosts_per_switch = 4\n[host]\npayload = 1000\n[switch.config.buffer]\nsize = \"3MiB\"\n\
                 [[switch.config.buffer.profile]]\nname = \"lossless\"\ndynamic_th = -3\n";
    let beside =
        "[[workload]]\nkind = \"incast\"\nto = \"h12\"\nbytes = \"300KB\"\nsenders = 11\nstart = \"5us\"\n";
    let at = |pieces: u32, bytes: u32, timeout: &str| {
        let dir = folder(&[("o.jsonl", &*in_pieces(pieces, bytes, 0))]);
        let chain = chain.replace("payload", &format!("timeout = \"{timeout}\"\npayload"));
        let text = format!(
            "name = \"s\"\nstop_time = \"50ms\"\n{chain}[[workload]]\nkind = \"operations\"\nfile = \"o.jsonl\"\nhosts = [\"h0\", \"h12\"]\n{beside}"
        );
        play_in(dir.path(), &text).unwrap()
    };
    for pieces in [1, 3] {
        let report = at(pieces, 3_000_000, "4ms");
        let paused = report.hosts.iter().find(|host| host.name == "h0").unwrap().paused_ns[3];
        let late = straggler(&report.collectives[0]);
        assert_eq!(late.cause, "pause", "{pieces}: {late:?} of {paused}");
        assert!((paused * 9 / 10..=paused).contains(&late.late_ns), "{pieces}: {late:?} of {paused}");
    }
    // All of it has left by the time its host is held back, and waits in switches; what is sent once more is of no use.
    for (timeout, is_resent) in [("4ms", false), ("50us", true)] {
        let report = at(1, 100_000, timeout);
        let paused = report.hosts.iter().find(|host| host.name == "h0").unwrap().paused_ns[3];
        let late = straggler(&report.collectives[0]);
        assert_eq!(report.flows.iter().any(|flow| flow.from == "h0" && flow.resent > 0), is_resent);
        assert!(paused > 100_000 && (late.host.as_str(), late.cause) == ("h0", "queue"), "{late:?} {paused}");
    }
}

/// A message that goes while the one before it is on its way waits for nothing of that, and a pace is no queue.
#[test]
fn who_is_alone_is_late_by_nothing_but_what_it_does_itself() {
    let between = |ns: u32| {
        format!(
            "{{\"rank\":0,\"id\":1,\"op\":\"send\",\"to\":1,\"bytes\":1000}}\n{{\"rank\":0,\"id\":2,\"op\":\"compute\",\"ns\":{ns}}}\n\
             {{\"rank\":0,\"id\":3,\"op\":\"send\",\"to\":1,\"bytes\":1000,\"after\":[2]}}\n{{\"rank\":1,\"id\":1,\"op\":\"recv\",\"from\":0}}\n\
             {{\"rank\":1,\"id\":2,\"op\":\"recv\",\"from\":0}}\n"
        )
    };
    let in_turn = |pairs: u32| -> String {
        (0..2 * pairs)
            .map(|id| {
                let bytes = if id % 2 == 0 { 4096 } else { 64 };
                format!(
                    "{{\"rank\":0,\"id\":{id},\"op\":\"send\",\"to\":1,\"bytes\":{bytes},\"tag\":{id}}}\n\
                     {{\"rank\":1,\"id\":{id},\"op\":\"recv\",\"from\":0,\"tag\":{id}}}\n"
                )
            })
            .collect()
    };
    for level in ["packet", "flow"] {
        let star =
            |keys: &str| format!("level = \"{level}\"\n[topology]\nkind = \"star\"\nhosts = 2\n{keys}");
        for (delay, ns) in [("100us", 199_000), ("2us", 4_000), ("2us", 4_300)] {
            let job = play(&star(&format!("[link]\ndelay = \"{delay}\"\n")), &between(ns), "");
            let late = straggler(&job);
            assert_eq!((late.cause, late.late_ns), ("compute", u64::from(ns)), "{level} {delay}: {late:?}");
        }
        let paced = play(&star("[host]\npayload = 4096\n"), &in_turn(20), "rate = \"1G\"\n");
        let of_steps = paced.steps.iter().map(|step| step.straggler.as_ref().unwrap());
        for late in of_steps.chain([straggler(&paced)]) {
            assert!(late.late_ns < 50, "{level}: {late:?}");
        }
    }
}

/// A response can be sent when its request is there.
#[test]
fn a_response_is_not_late_by_its_request() {
    let star = "[topology]\nkind = \"star\"\nhosts = 2\n[link]\ndelay = \"5us\"\n[host]\nprotocol = \"rclink\"\npayload = 1000\n";
    for more in ["", "response = 256\n"] {
        let text = format!(
            "name = \"s\"\nstop_time = \"50ms\"\n{star}[[workload]]\nkind = \"all_to_all\"\nbytes = 4000\n{more}"
        );
        let report = play_in(std::path::Path::new("."), &text).unwrap();
        let late = straggler(&report.collectives[0]);
        assert_eq!((late.cause, late.late_ns), ("none", 0), "{more}");
    }
}

/// What the next messages make up for is not what a job was late by.
#[test]
fn what_is_made_up_for_is_no_lateness() {
    let star = "[topology]\nkind = \"star\"\nhosts = 6\n[host]\npayload = 1000\n";
    let beside = "rate = \"5G\"\n[[workload]]\nkind = \"incast\"\nto = \"h1\"\nbytes = \"100KB\"\nsenders = 4\nstart = \"3us\"\n";
    for pieces in [40, 100] {
        let file = in_pieces(pieces, 1_000_000, 0);
        let (alone, shared) = (play(star, &file, "rate = \"5G\"\n"), play(star, &file, beside));
        let longer = time(&shared) - time(&alone);
        assert!(straggler(&shared).late_ns <= longer + 10, "{pieces}: {:?} of {longer}", straggler(&shared));
    }
}
