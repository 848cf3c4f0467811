//! Endpoints with many queue pairs to many peers: what is kept of them is what asking each of them says.

use super::tests::{DELAY, GEN2, LITE, PFC, config, losing, message, qp};
use super::*;
use crate::rclink::cbfc::CreditConfig;
use crate::rclink::frame::Format;

const ENDPOINTS: usize = 5;
/// Queue pairs between two endpoints.
const CLASSES: [Class; 3] = [Class::Request(0), Class::Request(2), Class::Response];

/// The number at `from` of the first queue pair to `to`.
fn first_qp(from: usize, to: usize) -> usize {
    (to - usize::from(to > from)) * CLASSES.len()
}

fn all_to_all(format: Format, flow_control: FlowControl, retransmit: bool) -> Vec<Endpoint> {
    let endpoint = |from: usize| {
        let config = EndpointConfig { retransmit, ..config(from as u8, format, flow_control) };
        let mut endpoint = Endpoint::new(config).unwrap();
        for to in (0..ENDPOINTS).filter(|to| *to != from) {
            for (nth, class) in CLASSES.into_iter().enumerate() {
                let peer_qp = (first_qp(to, from) + nth) as u16;
                let number = endpoint.create_qp(QpConfig { peer_qp, depth: 20, ..qp(to as u8, class) });
                assert_eq!(number, Ok((first_qp(from, to) + nth) as u16));
            }
        }
        endpoint
    };
    (0..ENDPOINTS).map(endpoint).collect()
}

/// What is kept of queue pairs is what they say.
fn assert_in_step(endpoint: &mut Endpoint, now: Nanos) {
    let (paused, resume) = (endpoint.reaction.paused_mask(now), endpoint.reaction.next_expiry());
    let (mut due, mut waiting) = (NEVER, 0);
    for qp in &endpoint.qps {
        let (frame, timer, waits) = endpoint.when(qp);
        let held = frame != NEVER && paused >> qp.channel & 1 == 1;
        due = due.min(timer).min(if held { frame.max(resume) } else { frame });
        waiting |= u8::from(waits) << qp.channel;
    }
    let owing = endpoint.qps.iter().enumerate().filter(|(_, qp)| qp.order.owes() && !qp.failed);
    assert_eq!(endpoint.owing, owing.map(|(at, _)| at as u16).collect());
    assert_eq!((endpoint.times.due(paused, resume), endpoint.credit_wait()), (due, waiting));
    assert!(endpoint.next_timeout(now).unwrap_or(NEVER) <= due);
}

/// Messages at random over a network that loses one frame in `one_in`. Returns how many were read, and how often data waited for
/// credits or was paused.
fn play(mut endpoints: Vec<Endpoint>, one_in: u64, seed: u64) -> (u64, u64) {
    let mut rng = weir_dataplane::rng::Rng::new(seed);
    let mut draw = move |below: u32| rng.next_u32() % below;
    let mut arrives = losing(one_in, seed);
    let mut flying: VecDeque<(Nanos, usize, Vec<u8>)> = VecDeque::new();
    let (mut read, mut held) = (0, 0);
    for now in (0..1_000_000).step_by(50) {
        while flying.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, to, bytes) = flying.pop_front().unwrap();
            endpoints[to].handle_frame(&bytes, now);
        }
        for from in 0..ENDPOINTS {
            let endpoint = &mut endpoints[from];
            endpoint.handle_timeout(now);
            // Who reads seldom fills its memory.
            while draw(8) == 0
                && let Some(event) = endpoint.poll_event(now)
            {
                read += u64::from(matches!(event, Event::Received { .. }));
            }
            let at = draw(endpoint.qps.len() as u32) as u16;
            let _ = endpoint.post(at, message(now, 1000));
            if let Some(bytes) = endpoint.poll_transmit(now).map(|frame| frame.bytes.to_vec()) {
                // PFC of whoever has no place for more holds the others back, as that of a switch would.
                let control = bytes[12..14] == [0x88, 0x08];
                let hears = |to: &usize| *to != from && (control || endpoints[*to].takes(&bytes));
                for to in (0..ENDPOINTS).filter(hears).collect::<Vec<_>>() {
                    let mut bytes = bytes.clone();
                    if arrives(from, &mut bytes) {
                        flying.push_back((now + DELAY, to, bytes));
                    }
                }
            }
            let endpoint = &mut endpoints[from];
            assert_in_step(endpoint, now);
            let paused = endpoint.reaction.paused_mask(now);
            held += u64::from((paused | endpoint.credit_wait()) != 0);
        }
    }
    (read, held)
}

impl Endpoint {
    /// A frame is for this endpoint.
    fn takes(&self, bytes: &[u8]) -> bool {
        let codec = &self.config.codec;
        codec.read(bytes).is_ok_and(|frame| frame.dst == codec.station(self.config.station.mac))
    }
}

#[test]
fn whose_turn_it_is_and_who_waits_is_known_without_asking() {
    // Room for a few messages.
    let credits = CreditConfig { size: 256, overhead: 4, limit: 20, report_every: 2 };
    let cbfc = FlowControl::Cbfc { credits, interval: 20_000 };
    for (format, flow_control) in [(GEN2, PFC), (GEN2, cbfc), (LITE, cbfc), (Format::Standard, PFC)] {
        for (retransmit, one_in) in [(true, 30), (true, 100_000), (false, 50)] {
            let (read, held) = play(all_to_all(format, flow_control, retransmit), one_in, one_in);
            assert!(read > 1000 && held > 100, "{format:?} {flow_control:?} {one_in}: {read} {held}");
        }
    }
}
