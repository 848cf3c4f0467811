//! The order in which frames leave.

use super::*;

/// Which queue is next is decided by the frames of all ports. Those that are not in the file show in their queue, by the time they take of the line,
/// or, where they had gone before, by no more than a turn.
#[test]
fn an_order_that_frames_of_other_ports_can_have_decided_is_not_judged() {
    let third = "[[port]]\nname = \"p2\"\ndevice = \"net_null2\"\n[[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"p1\"\n";
    let config = |rate: &str| load(&(text().replace("1G", rate).replace("2MiB", "32MiB") + third));
    let judged = |capture: &CaptureFile, rate: &str| judge(&config(rate), capture, PortId(0)).unwrap().1;
    let cases: [(&str, &str, u64, &[Frames], Frames); 4] = [
        ("in a queue with them", "100G", 100, &[(40, 5, 26), (40, 5, 0)], (38, 5, 0)),
        ("on the line", "1G", 1200, &[(20, 5, 0), (40, 200, 26), (20, 205, 0)], (30, 0, 48)),
        ("for less than a look", "1G", 100, &[(1, 5, 0), (1, 10, 48)], (2, 1, 48)),
        ("gone when they come", "1G", 100, &[(1, 50, 26), (1, 50, 0)], (1, 0, 0)),
    ];
    for (case, rate, us, own, others) in cases {
        let (mut alone, foreign) = beside_others(&config(rate), us, own, others);
        let all = alone.frames.len() as u64;
        let found = judged(&alone, rate);
        let (in_order, lacking) = of(&found, "order");
        assert_eq!((found.verdict(), &found.differences), (Verdict::Pass, &Vec::new()), "{case}");
        assert!(lacking > 0 && in_order + lacking == all, "{case}: {in_order} {lacking}");
        // If that is all there was, it is another order; but where nothing left for so long, as if a worker had been off its core.
        alone.ports = config(rate).ports.iter().map(|port| port.name.clone()).collect();
        let found = judged(&alone, rate);
        let is_late = case == "on the line" && unknown(&found)["order"] > 20;
        assert!(whats(&found).contains("order") || is_late, "{case}");
        // With all frames everything is judged.
        alone.frames.extend(foreign);
        let found = judged(&alone, rate);
        assert_eq!((found.verdict(), of(&found, "order")), (Verdict::Pass, (all, 0)), "{case}");
    }
    // None overtakes another one of its queue, whoever else is there.
    let (mut alone, _) = beside_others(&config("1G"), 100, &[(2, 1, 26), (2, 1, 0)], (2, 0, 0));
    let of_queue_0 = |frame: &Captured| frame.history.as_ref().is_some_and(|h| h.class == Some([0; 3]));
    let two: Vec<usize> = (0..40).filter(|at| of_queue_0(&alone.frames[*at])).skip(6).take(2).collect();
    alone.frames.swap(two[0], two[1]);
    assert_eq!(whats(&judged(&alone, "1G")), BTreeSet::from(["order"]));
}
