//! The lcores that EAL arguments ask for, in the EAL's own grammar: `-l 0-2`, `-c 7`, `--lcores=0@(0,1),1@0,2@1`.

use super::port::MAX_LCORES;
use super::read::number_ranges;
use std::collections::{BTreeMap, BTreeSet};

/// Numbers of CPUs.
pub type Cpus = BTreeSet<u64>;

/// Lcores, and the CPUs each may run on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lcores {
    /// Those of the main lcore, which moves no frames.
    pub main: Cpus,
    /// Those of each other lcore, in the order of their numbers.
    pub workers: Vec<Cpus>,
}

impl Lcores {
    /// A main lcore that may run on any of these CPUs, and a worker on each.
    pub fn one_for_each(cpus: impl IntoIterator<Item = u64>) -> Self {
        let main: Cpus = cpus.into_iter().collect();
        Self { workers: main.iter().map(|cpu| Cpus::from([*cpu])).collect(), main }
    }

    /// CPUs that a worker may run on.
    pub fn of_workers(&self) -> Cpus {
        self.workers.iter().flatten().copied().collect()
    }

    /// CPUs of all lcores.
    pub fn all(&self) -> Cpus {
        self.of_workers().union(&self.main).copied().collect()
    }

    /// The first of these CPUs for which no worker is left when each takes the first that may run there.
    pub fn unplaced(&self, cpus: impl IntoIterator<Item = u64>) -> Option<u64> {
        let mut idle: Vec<&Cpus> = self.workers.iter().collect();
        cpus.into_iter().find(|cpu| {
            let place = idle.iter().position(|worker| worker.contains(cpu));
            place.map(|place| idle.remove(place)).is_none()
        })
    }
}

/// Options of the EAL that choose lcores, or where they run, in ways that are not looked into.
const OTHER: &[&str] = &["--remap-lcore-ids", "-R", "-s", "-S"];

/// The lcores these EAL arguments ask for. `None`: they ask for none, or it cannot be told.
pub fn lcores(args: &[String]) -> Option<Lcores> {
    let (mut found, mut main) = (None, None);
    for (i, arg) in args.iter().enumerate() {
        if OTHER.iter().any(|option| arg == option || arg.starts_with(&format!("{option}="))) {
            return None;
        }
        let value = |option: &str| match arg.strip_prefix(option)? {
            "" => args.get(i + 1).map(String::as_str),
            rest if option.starts_with("--") => rest.strip_prefix('='),
            rest => Some(rest),
        };
        if let Some(list) = value("--lcores").or_else(|| value("-l")) {
            found = Some(places(list)?);
        } else if let Some(mask) = value("-c") {
            let mask = u128::from_str_radix(mask.trim_start_matches("0x"), 16).ok()?;
            let set = (0..MAX_LCORES).filter(|n| mask >> n & 1 == 1);
            found = Some(set.map(|n| (n, Cpus::from([n]))).collect());
        } else if let Some(id) = value("--main-lcore") {
            main = Some(id.parse().ok()?);
        }
    }
    let mut places: BTreeMap<u64, Cpus> = found?;
    let main = main.or_else(|| places.keys().next().copied())?;
    Some(Lcores { main: places.remove(&main)?, workers: places.into_values().collect() })
}

/// `1,2@(5-7),(3-5)@(0,2),(0,6),7-8`: lcores, `@` where they run; those of a group without `@` run where any of them would.
fn places(list: &str) -> Option<BTreeMap<u64, Cpus>> {
    let mut places = BTreeMap::new();
    for part in outside_groups(list) {
        let (ids, cpus) = part.split_once('@').map_or((part, None), |(ids, cpus)| (ids, Some(cpus)));
        let group = ids.starts_with('(');
        let ids = set(ids)?;
        let shared = match cpus {
            Some(cpus) => Some(set(cpus)?),
            None => group.then(|| ids.clone()),
        };
        places.extend(ids.into_iter().map(|id| (id, shared.clone().unwrap_or_else(|| Cpus::from([id])))));
    }
    Some(places)
}

/// The parts between commas that stand in no group.
fn outside_groups(list: &str) -> Vec<&str> {
    let mut inside = false;
    let comma = move |c: char| {
        inside = match c {
            '(' => true,
            ')' => false,
            _ => inside,
        };
        c == ',' && !inside
    };
    list.split(comma).map(str::trim).collect()
}

/// `3`, `1-3` or `(1,3-5)`.
fn set(text: &str) -> Option<Cpus> {
    let inner = text.strip_prefix('(').map_or(Some(text), |rest| rest.strip_suffix(')'))?;
    let ranges = number_ranges(inner).ok()?;
    let fits = ranges.iter().all(|(_, last)| *last < MAX_LCORES);
    fits.then(|| ranges.into_iter().flat_map(|(first, last)| first..=last).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(args: &[&str]) -> Option<(Vec<u64>, Vec<Vec<u64>>)> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let list = |cpus: Cpus| cpus.into_iter().collect::<Vec<_>>();
        lcores(&args).map(|l| (list(l.main), l.workers.into_iter().map(list).collect()))
    }

    #[test]
    fn every_form_of_the_eal_is_read() {
        let plain = Some((vec![0], vec![vec![1], vec![2]]));
        for args in [
            &["-l", "0-2"][..],
            &["-l0-2"],
            &["--lcores", "0-2"],
            &["--lcores=0,1,2"],
            &["-c", "7"],
            &["-c0x7"],
            &["--no-huge", "-l", "5", "-l", "0-2"],
        ] {
            assert_eq!(of(args), plain, "{args:?}");
        }
        assert_eq!(of(&["-l", "0-2", "--main-lcore", "1"]), Some((vec![1], vec![vec![0], vec![2]])));
        assert_eq!(of(&["--lcores=0@(0,3),1@0,2@3"]), Some((vec![0, 3], vec![vec![0], vec![3]])));
        // The example of DPDK's guide.
        let guide = of(&["--lcores", "1,2@(5-7),(3-5)@(0,2),(0,6),7-8"]).unwrap();
        assert_eq!(guide.0, [0, 6]);
        let workers =
            [&[1][..], &[5, 6, 7], &[0, 2], &[0, 2], &[0, 2], &[0, 6], &[7], &[8]].map(<[u64]>::to_vec);
        assert_eq!(guide.1, workers);
    }

    #[test]
    fn what_cannot_be_told_is_not_guessed() {
        for args in [
            &[][..],
            &["--no-huge"],
            &["-l"],
            &["-l", "two"],
            &["-l", "0-900"],
            &["-l", "0-1", "-s", "3"],
            &["--lcores=(0,1"],
            &["-l", "0-1", "--main-lcore", "7"],
        ] {
            assert_eq!(of(args), None, "{args:?}");
        }
    }

    #[test]
    fn each_cpu_takes_a_worker_of_its_own() {
        let both = lcores(&["--lcores=0@(0,1),1@(0,1)".to_owned()]).unwrap();
        assert_eq!((both.unplaced([1]), both.unplaced([0, 1]), both.unplaced([7])), (None, Some(1), Some(7)));
        assert_eq!(Lcores::one_for_each([0, 1]).unplaced([1, 0]), None);
    }
}
