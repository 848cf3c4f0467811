//! Threads that play windows: whoever has nothing to do takes the next group.

use super::FEW;
use crate::fabric::engine::world::Fabric;
use crate::fabric::time::Ps;
use std::sync::mpsc::{Receiver, RecvError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Scope;

/// How often a thread looks for news before it goes to sleep: as long as waking would take.
const LOOKS: u32 = 2000;

/// A group, when its window begins, and the time and number before which everything in it happens.
type Task<'a> = (Fabric<'a>, Ps, (Ps, u64));

/// What is to be played; the largest comes last.
#[derive(Clone)]
struct Tasks<'a>(Arc<Mutex<Vec<Task<'a>>>>);

/// The thread that asks, and others.
pub(super) struct Team<'a> {
    tasks: Tasks<'a>,
    /// Tells each of the others that there is something to play.
    calls: Vec<Sender<()>>,
    played: Receiver<Fabric<'a>>,
    /// Events of each group in the last window.
    last: Vec<u64>,
}

impl<'a> Tasks<'a> {
    /// Plays the largest group that nobody has taken.
    fn play_one(&self) -> Option<Fabric<'a>> {
        let next = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let (mut group, began, limit) = next?;
        group.play_window(began, limit);
        Some(group)
    }
}

/// Waits, awake at first.
fn receive<T>(from: &Receiver<T>) -> Result<T, RecvError> {
    for _ in 0..LOOKS {
        if let Ok(news) = from.try_recv() {
            return Ok(news);
        }
        std::hint::spin_loop();
    }
    from.recv()
}

impl<'a> Team<'a> {
    /// So many others, that end with this.
    pub fn new<'scope>(scope: &'scope Scope<'scope, '_>, others: usize) -> Self
    where
        'a: 'scope,
    {
        let tasks = Tasks(Arc::default());
        let (give, played) = channel();
        let other = |_| {
            let (call, called) = channel();
            let (tasks, give) = (tasks.clone(), give.clone());
            scope.spawn(move || {
                while receive(&called).is_ok() {
                    while let Some(group) = tasks.play_one() {
                        // Who does not listen any more has ended.
                        let _ = give.send(group);
                    }
                }
            });
            call
        };
        let calls = (0..others).map(other).collect();
        Self { tasks, calls, played, last: Vec::new() }
    }

    /// Plays a window of every group. Returns how many events that were.
    pub fn play(&mut self, groups: &mut Vec<Fabric<'a>>, began: Ps, limit: (Ps, u64)) -> u64 {
        self.last.resize(groups.len(), 0);
        let before: Vec<u64> = groups.iter().map(|group| group.events).collect();
        if self.calls.is_empty() || self.last.iter().sum::<u64>() < FEW {
            groups.iter_mut().for_each(|group| group.play_window(began, limit));
        } else {
            self.play_together(groups, began, limit);
        }
        self.last = groups.iter().zip(before).map(|(group, before)| group.events - before).collect();
        self.last.iter().sum()
    }

    fn play_together(&mut self, groups: &mut Vec<Fabric<'a>>, began: Ps, limit: (Ps, u64)) {
        let count = groups.len();
        let mut tasks: Vec<(u64, Task<'a>)> =
            self.last.iter().copied().zip(groups.drain(..).map(|group| (group, began, limit))).collect();
        // A group has about as many events as it had in the window before.
        tasks.sort_by_key(|(events, _)| *events);
        self.tasks
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(tasks.into_iter().map(|(_, task)| task));
        for call in &self.calls {
            // It listens as long as it runs.
            let _ = call.send(());
        }
        groups.extend(std::iter::from_fn(|| self.tasks.play_one()));
        while groups.len() < count
            && let Ok(group) = receive(&self.played)
        {
            groups.push(group);
        }
        groups.sort_by_key(|group| group.membership.as_ref().map(|membership| membership.own));
    }
}
