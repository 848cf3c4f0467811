//! What is told of neighbours, and how often.

use super::*;
use crate::events::Watcher;
use crate::lldp::agent::{Agent, LldpReading};
use crate::lldp::fake as lldp;
use crate::sample::Sampler;
use crate::{fake, lldp::frame::Lldpdu};
use weir_dataplane::types::Mac;

/// Looks at a switch whose agent is given something before each look.
struct Bench {
    agent: Agent,
    sampler: Sampler,
    watcher: Watcher,
    log: Log,
    looks: u64,
}

impl Bench {
    fn new() -> Self {
        let mut bench = Self {
            agent: Agent::new(lldp::settings()),
            sampler: Sampler::new(fake::info()),
            watcher: Watcher::default(),
            log: Log::default(),
            looks: 0,
        };
        bench.look();
        bench
    }

    fn hear(&mut self, says: &Lldpdu) {
        self.agent.receive(0, &says.encode(Mac([2, 0, 0, 0, 0, 7])), self.looks * 100);
    }

    /// What is told of LLDP at the next look.
    fn look(&mut self) -> Vec<Value> {
        self.looks += 1;
        let now = self.looks * 100;
        self.agent.tick(now, &|_| true, &mut |_, _| true);
        let reading: LldpReading = self.agent.reading(now);
        let reading = crate::snapshot::Reading { lldp: reading.into(), ..fake::reading(self.looks) };
        let snapshot = self.sampler.sample(reading, 1_700_000_000_000 + now, now);
        let last = self.log.last();
        self.watcher.observe(&snapshot, &mut self.log);
        let told = self.log.after(last).map(|event| event.body.clone());
        told.filter(|body| body["event"].as_str().unwrap().starts_with("lldp")).collect()
    }

    fn kinds(&mut self) -> Vec<(String, String)> {
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        self.look().iter().map(|body| (word(&body["event"]), word(&body["phase"]))).collect()
    }
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[test]
fn neighbours_come_fit_or_do_not_and_go() {
    let mut b = Bench::new();
    b.hear(&lldp::host(7, 1 << 3 | 1 << 4));
    let told = b.look();
    assert_eq!(told.len(), 2, "{told:?}");
    let (came, pfc) = (&told[0], &told[1]);
    assert_eq!(
        (&came["event"], &came["phase"], &came["port"]),
        (&json!("lldp"), &json!("start"), &json!("p0"))
    );
    assert_eq!((&came["chassis"], &came["system_name"]), (&json!("02:00:00:00:ff:07"), &json!("host7")));
    assert_eq!((&pfc["event"], &pfc["phase"]), (&json!("lldp_pfc"), &json!("alarm")));
    assert_eq!((&pfc["ours"], &pfc["theirs"], &pfc["willing"]), (&json!([3]), &json!([3, 4]), &json!(true)));
    assert!(pfc["remedy"].as_str().unwrap().contains("both ends"));
    // As it was: nothing more is told.
    b.hear(&lldp::host(7, 1 << 3 | 1 << 4));
    assert_eq!(b.kinds(), []);
    b.hear(&lldp::host(7, 1 << 3));
    assert_eq!(b.kinds(), pairs(&[("lldp_pfc", "end")]));
    let mut odd = lldp::host(7, 1 << 3);
    odd.max_frame = Some(9216);
    odd.ets.as_mut().unwrap().ets.bandwidth[3] = 50;
    b.hear(&odd);
    let told = b.look();
    let kinds: Vec<_> = told.iter().map(|body| body["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["lldp_ets", "lldp_frame_size"]);
    assert_eq!((&told[0]["priorities"], &told[1]["theirs_bytes"]), (&json!([3]), &json!(9216)));
    // It goes: what did not fit has ended, too.
    odd.ttl = 0;
    b.hear(&odd);
    assert_eq!(b.kinds(), pairs(&[("lldp_ets", "end"), ("lldp_frame_size", "end"), ("lldp", "end")]));
    odd.ttl = 120;
    b.hear(&odd);
    b.look();
    odd.ttl = 0;
    b.hear(&odd);
    assert_eq!(b.look().last().unwrap()["why"], "shutdown");
    assert_eq!(b.kinds(), []);
}

/// A neighbour that is another one every time has a bounded share of the log, and in the end what is told is what is.
#[test]
fn who_comes_and_goes_without_end_does_not_fill_the_log() {
    let mut b = Bench::new();
    let mut told = 0;
    for round in 0..600u32 {
        let mut says = lldp::host((round % 200) as u8, 0);
        b.hear(&says);
        told += b.look().len();
        says.ttl = 0;
        b.hear(&says);
    }
    assert!(told < 4 * (16 + 60), "{told} in a minute");
    for _ in 0..200 {
        b.look();
    }
    b.hear(&lldp::host(7, 1 << 3));
    assert_eq!(b.kinds(), pairs(&[("lldp", "start")]));
}
