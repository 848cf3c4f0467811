//! Which flows are behind pauses and marks, in the report of a run.

use super::{Report, load, run};

/// Four senders into one port.
fn incast(flows: &str) -> Report {
    let text = format!(
        "name = \"who\"\nstop_time = \"5ms\"\n[topology]\nkind = \"star\"\nhosts = 5\n[link]\nrate = \"100G\"\n\
         delay = \"1us\"\n[switch.config.buffer]\nsize = \"2MiB\"\n[switch.config.port_defaults]\nmtu = 1600\n{flows}\n\
         [[workload]]\nkind = \"incast\"\nto = \"h4\"\nbytes = \"400KB\"\n"
    );
    run(&load("who.toml", &text).unwrap()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

#[test]
fn a_report_names_the_flows_behind_pauses_and_marks() {
    let silent = incast("");
    let mut told = incast("[switch.config.flows]\nenable = true");
    let ports = &told.switches[0].ports;
    let shares = |port: usize, cause: &str| {
        let flows = ports[port].flows.iter().filter(|flow| flow.cause == cause);
        flows.map(|flow| (flow.flow.clone(), flow.share_milli)).collect::<Vec<_>>()
    };
    assert!(ports[4].marked > 100 && ports[0].pfc_tx_xoff > 0, "{:?}", ports[4]);
    let marks = shares(4, "mark");
    assert_eq!(marks.len(), 4, "{marks:?}");
    assert!(marks.iter().all(|(flow, share)| flow.contains(" QP 0x") && *share > 100), "{marks:?}");
    assert!((950..=1000).contains(&marks.iter().map(|(_, share)| share).sum::<u64>()), "{marks:?}");
    // A port was paused for what came in by it: one flow.
    for (port, _) in ports.iter().enumerate().take(4).filter(|(_, port)| port.pfc_tx_xoff > 0) {
        let pauses = shares(port, "pause");
        assert!(pauses.len() == 1 && pauses[0].1 >= 950, "{port}: {pauses:?}");
    }
    // Who looks changes nothing else.
    assert!(silent.switches[0].ports.iter().all(|port| port.flows.is_empty()));
    told.switches[0].ports.iter_mut().for_each(|port| port.flows.clear());
    assert_eq!((&told.switches, &told.flows), (&silent.switches, &silent.flows));
    assert_eq!(told.events, silent.events);
}
