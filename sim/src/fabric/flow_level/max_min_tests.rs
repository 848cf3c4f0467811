//! Rates against progressive filling from nothing, on random networks.

use super::{MaxMin, units};
use weir_dataplane::rng::Rng;

/// Progressive filling as the textbook has it: of all links the one whose open flows get least fixes them.
fn progressive_filling(capacities: &[u64], paths: &[Vec<u32>]) -> Vec<f64> {
    let mut left: Vec<f64> = capacities.iter().map(|c| *c as f64).collect();
    let mut rates = vec![None; paths.len()];
    loop {
        let open = |link: usize| {
            let on = |path: &Vec<u32>| path.contains(&(link as u32));
            (0..paths.len()).filter(move |f| on(&paths[*f])).collect::<Vec<_>>()
        };
        let share = |link: usize| {
            let flows = open(link).into_iter().filter(|f| rates[*f].is_none()).count();
            (flows > 0).then(|| left[link] / flows as f64)
        };
        let least = (0..left.len()).filter_map(|link| Some((share(link)?, link)));
        let Some((share, link)) = least.min_by(|a, b| a.0.total_cmp(&b.0)) else { break };
        for flow in open(link) {
            if rates[flow].is_none() {
                rates[flow] = Some(share);
                paths[flow].iter().for_each(|link| left[*link as usize] -= share);
            }
        }
    }
    rates.into_iter().map(Option::unwrap).collect()
}

/// Levels are rounded down, by less than a unit each: 0.03 bit/s.
const ROUNDED: f64 = 500.0;

struct Network {
    capacities: Vec<u64>,
    rates: MaxMin,
    /// Flows that are there: number of the share, path.
    flows: Vec<(u32, Vec<u32>)>,
    /// Rates of shares, as the rounds have told them.
    told: Vec<u64>,
    rng: Rng,
}

impl Network {
    fn new(seed: u64, links: usize, speeds: &[u64]) -> Self {
        let (mut rng, mut rates) = (Rng::new(seed), MaxMin::default());
        let capacities: Vec<u64> =
            (0..links).map(|_| units(speeds[rng.next_u64() as usize % speeds.len()])).collect();
        for capacity in &capacities {
            rates.add_link(*capacity);
        }
        Self { capacities, rates, flows: Vec::new(), told: Vec::new(), rng }
    }

    fn below(&mut self, n: usize) -> usize {
        ((u64::from(self.rng.next_u32()) * n as u64) >> 32) as usize
    }

    fn come(&mut self) {
        // As another one goes, whose rate it has from the next round on.
        if !self.flows.is_empty() && self.below(3) == 0 {
            let like = self.below(self.flows.len());
            let (share, path) = self.flows[like].clone();
            self.rates.add_to(share);
            self.flows.push((share, path));
            return;
        }
        let hops = 1 + self.below(6.min(self.capacities.len()));
        let mut path: Vec<u32> = Vec::new();
        while path.len() < hops {
            let link = self.below(self.capacities.len()) as u32;
            if !path.contains(&link) {
                path.push(link);
            }
        }
        let flow = self.rates.add(&path);
        self.told.resize(self.told.len().max(flow as usize + 1), 0);
        self.told[flow as usize] = 0;
        self.flows.push((flow, path));
    }

    fn go(&mut self) {
        let at = self.below(self.flows.len());
        let (flow, _) = self.flows.swap_remove(at);
        self.rates.remove(flow);
    }

    /// Settles, and compares all rates. How many have changed.
    fn check(&mut self, what: &str) -> usize {
        let changed = self.rates.settle();
        for flow in &changed {
            let rate = self.rates.rate(*flow);
            assert_ne!(rate, self.told[*flow as usize], "{what}: told of a change that is none");
            self.told[*flow as usize] = rate;
        }
        let paths: Vec<Vec<u32>> = self.flows.iter().map(|(_, path)| path.clone()).collect();
        let exact = progressive_filling(&self.capacities, &paths);
        for ((flow, path), exact) in self.flows.iter().zip(exact) {
            let rate = self.rates.rate(*flow);
            assert_eq!(rate, self.told[*flow as usize], "{what}: not told of a change");
            assert!((rate as f64 - exact).abs() <= 1e-9 * exact + ROUNDED, "{what}: {path:?} {rate} {exact}");
        }
        for (link, capacity) in self.capacities.iter().enumerate() {
            let on = self.flows.iter().filter(|(_, path)| path.contains(&(link as u32)));
            let rates: Vec<u64> = on.map(|(flow, _)| self.rates.rate(*flow)).collect();
            let sum: u128 = rates.iter().map(|r| u128::from(*r)).sum();
            assert!(sum <= u128::from(*capacity), "{what}: {sum} on a link of {capacity}");
            let largest = rates.iter().max().copied().unwrap_or(0);
            let full = sum as f64 >= *capacity as f64 * (1.0 - 1e-9) - ROUNDED;
            let contended = full && rates.len() > 1;
            assert!(
                contended || !self.rates.is_contended(link as u32),
                "{what}: link {link} is said to hold flows back: {rates:?} of {capacity}, largest {largest}"
            );
        }
        changed.len()
    }
}

#[test]
fn rates_are_those_of_progressive_filling_whatever_comes_and_goes() {
    let speeds: [&[u64]; 4] = [
        &[100_000_000_000],
        &[25_000_000_000, 100_000_000_000, 400_000_000_000],
        // Levels that no binary fraction has, and such as differ by little.
        &[3_000_000_007, 3_000_000_008, 7],
        &[1, 2, 3, 1_000_000_000_000_000],
    ];
    for seed in 0..400 {
        let links = 1 + seed as usize % 17;
        let mut network = Network::new(seed, links, speeds[seed as usize % speeds.len()]);
        for step in 0..60 {
            // Several at once now and then, and none in the end.
            for _ in 0..1 + network.below(3) {
                let grow = network.flows.is_empty() || step < 40 && network.below(3) > 0;
                if grow { network.come() } else { network.go() }
            }
            network.check(&format!("seed {seed}, step {step}"));
        }
    }
}

#[test]
fn nothing_is_looked_at_that_cannot_change() {
    // Pairs of flows on a link each, and a flow apart: what happens at one pair is nothing to the others.
    let mut rates = MaxMin::default();
    let links: Vec<u32> = (0..100).map(|_| rates.add_link(units(1000))).collect();
    let flows: Vec<u32> = links.iter().flat_map(|link| [*link; 2]).map(|link| rates.add(&[link])).collect();
    assert_eq!(rates.settle().len(), 200);
    rates.remove(flows[10]);
    assert_eq!(rates.settle(), [flows[11]]);
    assert_eq!((rates.rate(flows[11]), rates.visited()), (units(1000), &links[5..6]));
    // A flow with less than the level of a full link on its way leaves that to those who share it.
    let narrow = rates.add_link(units(100));
    let slow = rates.add(&[narrow, links[7]]);
    let mut changed = rates.settle();
    changed.sort_unstable();
    assert_eq!((changed, slow), (vec![slow, flows[14], flows[15]], flows[10]), "its number is given again");
    assert_eq!([flows[14], slow].map(|f| rates.rate(f)), [units(450), units(100)]);
    assert!(rates.is_contended(links[7]) && !rates.is_contended(narrow), "alone on a narrow link");
}

#[test]
fn a_link_of_one_share_grows_with_its_flows() {
    let mut rates = MaxMin::default();
    let (line, cap) = (rates.add_link(units(100)), rates.add_pace(units(30)));
    let paced = rates.add(&[line, cap]);
    for (flows, rate) in [(1, 30), (2, 30), (3, 30), (4, 25), (5, 20)] {
        if flows > 1 {
            rates.resize_pace(cap, flows, units(30));
            rates.add_to(paced);
        }
        rates.settle();
        assert_eq!(rates.rate(paced), units(rate), "{flows}");
        assert_eq!(rates.is_contended(line), flows > 3);
    }
    for flows in [4, 3] {
        rates.remove(paced);
        rates.resize_pace(cap, flows, units(30));
    }
    rates.settle();
    assert_eq!((rates.rate(paced), rates.is_contended(line)), (units(30), false));
}

/// Who has all that its pace or its own line gives it is held back by nobody else, however full the link that they share.
#[test]
fn a_link_that_is_full_of_what_is_asked_of_it_holds_nobody_back() {
    for is_pace in [true, false] {
        for (of_each, is_contended) in [
            (&[25, 25, 25, 25][..], false),
            (&[60, 40], false),
            (&[60, 40, 1], true),
            (&[50, 51], true),
            (&[99], false),
        ] {
            let mut rates = MaxMin::default();
            let line = rates.add_link(units(100));
            for own in of_each {
                let own = if is_pace { rates.add_pace(units(*own)) } else { rates.add_link(units(*own)) };
                rates.add(&[line, own]);
            }
            rates.settle();
            assert_eq!(rates.is_contended(line), is_contended, "{of_each:?}");
        }
    }
    // Two flows that share two links hold each other back.
    let mut rates = MaxMin::default();
    let lines = [rates.add_link(units(100)), rates.add_link(units(100))];
    let share = rates.add(&lines);
    rates.add_to(share);
    rates.settle();
    assert!(lines.iter().any(|line| rates.is_contended(*line)));
}

#[test]
fn links_of_single_flows_are_given_again() {
    let mut rates = MaxMin::default();
    let line = rates.add_link(units(100));
    let cap = rates.add_pace(units(30));
    let flows = [rates.add(&[line, cap]), rates.add(&[line])];
    rates.settle();
    assert_eq!(flows.map(|f| rates.rate(f)), [units(30), units(70)]);
    rates.remove(flows[0]);
    rates.remove_link(cap);
    assert_eq!(rates.settle(), [flows[1]]);
    assert_eq!((rates.add_pace(units(10)), rates.rate(flows[1])), (cap, units(100)));
}
