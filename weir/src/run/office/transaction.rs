//! All workers go over to another configuration, or all stay with the one they have.
//!
//! An order has a number, and so has its answer. If a worker refuses, or says nothing in time, every worker is sent
//! the way back, which undoes that order and no other: who has not carried it out has nothing to undo. A worker reads
//! its messages in the order they were sent, so one that comes back late finds the order and its undoing behind each
//! other. Until it has said so the workers may disagree, and the switch is not ready.

use super::super::control::{Command, Reply};
use super::workers::Workers;
use std::time::{Duration, Instant};
use weir_dataplane::switch::Change;
use weir_dataplane::types::Nanos;

/// A worker that has not answered by then is not waited for any more.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// From the order to the instant at which all workers obey it: each has seen it by then, ns.
const AHEAD: Nanos = 2_000_000;

/// A way from one configuration to another, and the way back.
#[derive(Clone, Debug)]
pub struct Step {
    pub there: Change,
    pub back: Change,
}

impl Step {
    /// From where this one leads to where it comes from.
    pub fn reversed(&self) -> Self {
        Self { there: self.back.clone(), back: self.there.clone() }
    }
}

/// How it ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// All went over, this far apart, ns.
    Over(Nanos),
    /// All are where they were: why.
    Back(String),
    /// Some have not said that they are where they were: why, and who.
    Split(String),
}

/// What a worker said: when it obeyed, or why it did not.
type Said = Result<Nanos, String>;

/// One under way.
#[derive(Debug)]
pub struct Transaction {
    id: u64,
    back: Change,
    deadline: Instant,
    said: Vec<Option<Said>>,
    /// Why all go back, once they do.
    why: Option<String>,
}

impl Transaction {
    /// Sends all workers over, who have room for it. `id` and the number after it belong to this transaction.
    pub fn begin(workers: &mut Workers, id: u64, step: &Step, clock: Nanos, now: Instant) -> Self {
        let mut this = Self {
            id,
            back: step.back.clone(),
            deadline: now + PATIENCE,
            said: vec![None; workers.len()],
            why: None,
        };
        this.send(workers, &step.there, None, clock);
        this
    }

    fn send(&mut self, workers: &mut Workers, change: &Change, undoes: Option<u64>, clock: Nanos) {
        for (worker, said) in self.said.iter_mut().enumerate() {
            *said = None;
            let change = Box::new(change.clone());
            workers.send(worker, Command::Apply { id: self.id, undoes, at: clock + AHEAD, change });
        }
    }

    /// Hears what workers say, and goes on; `Some`: it has ended.
    pub fn poll(&mut self, workers: &mut Workers, clock: Nanos, now: Instant) -> Option<Ended> {
        self.hear(workers);
        let late = now >= self.deadline;
        if !late && self.said.contains(&None) {
            return None;
        }
        let trouble = self.trouble();
        match (&self.why, trouble) {
            (None, None) => {
                let at =
                    |f: fn(Nanos, Nanos) -> Nanos| self.said.iter().flatten().flatten().copied().reduce(f);
                Some(Ended::Over(at(Nanos::max)? - at(Nanos::min)?))
            }
            (None, Some(trouble)) => {
                self.why = Some(trouble);
                self.deadline = now + PATIENCE;
                let undone = self.id;
                self.id += 1;
                let back = self.back.clone();
                self.send(workers, &back, Some(undone), clock);
                None
            }
            (Some(why), None) => Some(Ended::Back(why.clone())),
            (Some(why), Some(trouble)) => Some(Ended::Split(format!("{why}; on the way back: {trouble}"))),
        }
    }

    /// After [`Ended::Split`]: all have said by now that they are where they were.
    pub fn is_settled(&mut self, workers: &mut Workers) -> bool {
        self.hear(workers);
        self.trouble().is_none()
    }

    /// Who has not done what it was told, and why.
    fn trouble(&self) -> Option<String> {
        let all = self.said.iter().enumerate().filter_map(|(worker, said)| match said {
            None => Some(format!("worker {worker} has not answered in {} s", PATIENCE.as_secs())),
            Some(Err(why)) => Some(format!("worker {worker}: {why}")),
            Some(Ok(_)) => None,
        });
        let all: Vec<String> = all.collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    fn hear(&mut self, workers: &mut Workers) {
        for (worker, said) in self.said.iter_mut().enumerate() {
            while let Some(reply) = workers.hear(worker) {
                // Anything else nobody waits for any more.
                if let Reply::Applied { id, at, result, .. } = reply
                    && id == self.id
                {
                    *said = Some(result.map(|()| at).map_err(|error| error.to_string()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::control::Obeyed;
    use super::*;
    use weir_config::runtime::{Device, switch_params};
    use weir_dataplane::fdb::FdbFull;
    use weir_dataplane::switch::ApplyError;
    use weir_dataplane::types::Mac;

    /// Carries out what it is sent when it is let.
    struct Fake {
        commands: rtrb::Consumer<Command>,
        replies: rtrb::Producer<Reply>,
        obeyed: Obeyed,
        /// Has gone over.
        over: bool,
        refuses: bool,
    }

    impl Fake {
        fn works(&mut self, at: Nanos) {
            while let Ok(Command::Apply { id, undoes, change, .. }) = self.commands.pop() {
                let mut result = Ok(());
                if self.obeyed.carries_out(id, undoes) {
                    self.over = undoes.is_none();
                    if self.over && self.refuses {
                        result = Err(ApplyError::Fdb(FdbFull));
                    }
                }
                self.replies.push(Reply::Applied { id, at, change, result }).unwrap();
            }
        }
    }

    fn step() -> Step {
        let text = "[[port]]\nname = \"p0\"\ndevice = \"ring\"\n[buffer]\nsize = \"8MiB\"\n[port_defaults]\nrate = \"1G\"\n";
        let config = weir_config::load("t.toml", text).unwrap().config;
        let device = Device { mac: Mac::from_u64(1), pfc: true, ..Device::default() };
        let params = switch_params(&config, &[device], 1).unwrap();
        let change = Change::between(&params, &params).unwrap();
        Step { there: change.clone(), back: change }
    }

    fn switch(workers: usize) -> (Workers, Vec<Fake>) {
        let mut ends = Workers::default();
        let hire = |_| {
            let (commands, replies) = ends.hire();
            Fake { commands, replies, obeyed: Obeyed::default(), over: false, refuses: false }
        };
        let fakes = (0..workers).map(hire).collect();
        (ends, fakes)
    }

    fn over(fakes: &[Fake]) -> Vec<bool> {
        fakes.iter().map(|fake| fake.over).collect()
    }

    #[test]
    fn all_go_over() {
        let (mut workers, mut fakes) = switch(2);
        let start = Instant::now();
        let mut change = Transaction::begin(&mut workers, 1, &step(), 0, start);
        assert_eq!(change.poll(&mut workers, 0, start), None);
        fakes[0].works(10);
        assert_eq!(change.poll(&mut workers, 0, start), None);
        fakes[1].works(17);
        assert_eq!(change.poll(&mut workers, 0, start), Some(Ended::Over(7)));
        assert_eq!(over(&fakes), [true, true]);
    }

    #[test]
    fn one_that_refuses_takes_all_back() {
        let (mut workers, mut fakes) = switch(3);
        fakes[1].refuses = true;
        let start = Instant::now();
        let mut change = Transaction::begin(&mut workers, 1, &step(), 0, start);
        fakes.iter_mut().for_each(|fake| fake.works(1));
        assert_eq!(change.poll(&mut workers, 0, start), None);
        fakes.iter_mut().for_each(|fake| fake.works(2));
        let Some(Ended::Back(why)) = change.poll(&mut workers, 0, start) else { panic!("{change:?}") };
        assert!(why.starts_with("worker 1: "), "{why}");
        assert_eq!(over(&fakes), [false; 3]);
    }

    #[test]
    fn one_that_stalls_takes_all_back_and_undoes_what_it_does_late() {
        for works_before_the_undoing in [false, true] {
            let (mut workers, mut fakes) = switch(2);
            let start = Instant::now();
            let mut change = Transaction::begin(&mut workers, 7, &step(), 0, start);
            fakes[0].works(1);
            assert_eq!(change.poll(&mut workers, 0, start + PATIENCE / 2), None);
            assert_eq!(change.poll(&mut workers, 0, start + PATIENCE), None, "they are told to go back");
            fakes[0].works(2);
            assert_eq!(over(&fakes), [false, false]);
            let late = start + PATIENCE * 2;
            let Some(Ended::Split(why)) = change.poll(&mut workers, 0, late) else { panic!("{change:?}") };
            assert!(why.contains("worker 1 has not answered") && !why.contains("worker 0"), "{why}");
            assert!(!change.is_settled(&mut workers));
            // It comes back, and finds both.
            if works_before_the_undoing {
                // It had gone over in time, and its answer alone was late.
                fakes[1].obeyed.carries_out(7, None);
                fakes[1].over = true;
                let first = fakes[1].commands.pop().unwrap();
                let Command::Apply { id, change: old, .. } = first else { panic!("{first:?}") };
                fakes[1].replies.push(Reply::Applied { id, at: 3, change: old, result: Ok(()) }).unwrap();
                assert!(!change.is_settled(&mut workers), "a late answer settles nothing");
            }
            fakes[1].works(4);
            assert!(change.is_settled(&mut workers));
            assert_eq!(over(&fakes), [false, false]);
            // A late answer is not taken for that to the next order.
            let mut next = Transaction::begin(&mut workers, 9, &step(), 0, start);
            assert_eq!(next.poll(&mut workers, 0, start), None);
            fakes.iter_mut().for_each(|fake| fake.works(5));
            assert_eq!(next.poll(&mut workers, 0, start), Some(Ended::Over(0)));
        }
    }

    #[test]
    fn one_that_answers_nothing_is_not_sent_more_than_it_can_answer() {
        let (mut workers, mut fakes) = switch(1);
        let mut sent = 0;
        while workers.have_room() {
            Transaction::begin(&mut workers, sent, &step(), 0, Instant::now());
            sent += 1;
        }
        assert!(sent > 1 && sent < REPLIES_OF_A_WORKER, "{sent}");
        fakes[0].works(1);
        assert!(workers.have_room());
    }

    const REPLIES_OF_A_WORKER: u64 = super::super::workers::REPLIES as u64;
}
