//! What the main thread sees of ports: links that come up and go down, at what speed, devices that are taken away, and
//! interfaces of the kernel that are made anew: those of a container go with it, and come back with the next one.

use super::attached::Devices;
use super::devices::{self, OpenPort};
use super::io::{Dpdk, DpdkWire, Io};
use super::kernel;
use super::local::Outbox;
use super::mtu::{MtuChange, MtuWatch};
use super::office::Office;
use super::worker::{RING_LIMIT_EIGHTHS, WorkerPort};
use crate::output::{say, say_err};
use nix::net::if_::if_nametoindex;
use serde_json::json;
use std::time::{Duration, Instant};
use weir_config::{AdminStatus, PortConfig, show_rate};
use weir_dataplane::stats::{MarkingCurve, Published};
use weir_dataplane::switch::LocalProtocol;
use weir_dataplane::types::PortId;
use weir_dpdk::{Capabilities, LinkWatch, Mempool, Port, Started};
use weir_mgmt::board::Board;
use weir_mgmt::snapshot::{DeviceState, PortState};

/// How often it is looked whether an interface is another one, and whether one that is gone is back.
const LOOK: Duration = Duration::from_millis(500);

/// What one worker has of a port: given back when its device is taken away, for another thread to close, and taken when
/// there is one again.
#[derive(Debug)]
pub struct Queues<D: Io = Dpdk> {
    /// Which port it is.
    pub id: PortId,
    /// What its owner has.
    pub port: Option<WorkerPort<D>>,
    /// What another worker has.
    pub wire: Option<D::Tx>,
}

/// Where the device of a port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Device {
    There,
    /// Taken away, and so many workers still have queues of it.
    Leaving {
        workers: usize,
    },
    Gone,
}

/// The interface of the kernel behind a port.
#[derive(Debug)]
struct Interface {
    name: String,
    /// The one whose device the port has. The name may be another's by now.
    index: Option<u32>,
    /// When to look next.
    due: Instant,
    mtu: MtuWatch,
    /// Why the next one could not be had, as last said.
    refused: String,
}

/// What devices are opened with.
#[derive(Debug)]
pub struct Opening {
    /// Of each worker.
    pub pools: Vec<Mempool>,
    /// Transmit queues of each port.
    pub tx_queues: Vec<usize>,
}

/// What a port is for others beside its queues.
#[derive(Debug)]
struct Kept {
    outboxes: Vec<(LocalProtocol, Outbox)>,
    curve: Box<MarkingCurve>,
    published_curve: Published,
}

/// One port.
#[derive(Debug)]
struct Watched {
    config: PortConfig,
    capabilities: Capabilities,
    owner: usize,
    link: LinkWatch,
    /// As the driver said last.
    up: bool,
    /// As its device was told last.
    admin: AdminStatus,
    device: Device,
    interface: Option<Interface>,
    /// What its owner had, without the queues, while there is no device.
    kept: Option<Kept>,
}

/// All ports of a switch.
#[derive(Debug)]
pub struct Links {
    ports: Vec<Watched>,
    opening: Opening,
    /// From each worker.
    departed: Vec<rtrb::Consumer<Queues>>,
    /// What is told of the ports, and what was told last.
    states: Board<Vec<PortState>>,
    told: Vec<PortState>,
}

impl Links {
    /// The ports of a configuration, with what their devices can do and the workers that own them. What is known of them goes to
    /// `states`.
    pub fn new(
        configs: &[PortConfig],
        capabilities: Vec<Capabilities>,
        owner: &[usize],
        opening: Opening,
        (departed, states): (Vec<rtrb::Consumer<Queues>>, Board<Vec<PortState>>),
    ) -> Self {
        let one = |((config, capabilities), owner): ((&PortConfig, Capabilities), &usize)| Watched {
            config: config.clone(),
            capabilities,
            owner: *owner,
            link: LinkWatch::default(),
            up: false,
            admin: AdminStatus::Up,
            device: Device::There,
            interface: kernel::interface(&config.device).map(Interface::new),
            kept: None,
        };
        let ports = configs.iter().zip(capabilities).zip(owner).map(one).collect();
        Self { ports, opening, departed, states, told: Vec::new() }
    }

    /// Frames can pass at a port, as last seen.
    pub fn is_up(&self, port: usize) -> bool {
        self.ports[port].is_up()
    }

    /// Looks at every port, and tells workers, and whoever watches, what has changed.
    pub fn attend(&mut self, devices: &Devices, office: &mut Office) {
        for departed in &mut self.departed {
            while let Ok(Queues { id, port, .. }) = departed.pop() {
                let watched = &mut self.ports[id.index()];
                if let Device::Leaving { workers } = &mut watched.device {
                    *workers -= 1;
                }
                // With their last owner the queues are closed.
                watched.kept = watched.kept.take().or(port.map(Kept::of));
            }
        }
        let in_force = office.shown.get();
        for (i, watched) in self.ports.iter_mut().enumerate() {
            let id = PortId(i as u16);
            watched.follow_admin(id, in_force.config.admin_of(id), devices, office);
            let leaves = devices.ask(i, |port| port.is_removed() || watched.has_another(port));
            match watched.device {
                Device::Gone => watched.look_for_another(id, devices, &self.opening, office),
                // A queue may be a moment longer on its way here; the next look finds it.
                Device::Leaving { workers: 0 } if devices.give_up(i) => {
                    watched.device = Device::Gone;
                    say!("port {}: its device has been let go", watched.config.name);
                    tell(office, "removed", watched, None);
                }
                Device::Leaving { .. } => {}
                Device::There if leaves => {
                    if office.workers.detach(watched.owner, id) {
                        watched.up = false;
                        watched.device = Device::Leaving { workers: office.workers.len() };
                        say!("port {}: its device is being taken away", watched.config.name);
                        tell(office, "removing", watched, None);
                    }
                }
                Device::There => {
                    watched.look(id, devices, office);
                    watched.look_at_mtu(id, devices, office);
                }
            }
        }
        if !self.ports.iter().map(Watched::state).eq(self.told.iter().cloned()) {
            self.told = self.ports.iter().map(Watched::state).collect();
            self.states.set(self.told.clone());
        }
    }
}

impl Interface {
    fn new(name: &str) -> Self {
        let (index, due) = (if_nametoindex(name).ok(), Instant::now());
        Self { name: name.to_owned(), index, due, mtu: MtuWatch::new(), refused: String::new() }
    }

    /// The interface of that name, where it is time to look and there is one.
    fn now(&mut self) -> Option<u32> {
        if Instant::now() < self.due {
            return None;
        }
        self.due = Instant::now() + LOOK;
        let now = if_nametoindex(self.name.as_str()).ok();
        // What comes next is another one, even where it gets the same number.
        self.index = self.index.filter(|_| now.is_some());
        now
    }
}

impl Kept {
    fn of(WorkerPort { outboxes, curve, published_curve, .. }: WorkerPort) -> Self {
        Self { outboxes, curve, published_curve }
    }
}

impl Watched {
    fn is_up(&self) -> bool {
        self.up && self.admin == AdminStatus::Up
    }

    fn state(&self) -> PortState {
        let refused = self.interface.as_ref().map_or("", |interface| &interface.refused);
        let device = match self.device {
            Device::There => DeviceState::Present,
            Device::Leaving { .. } => DeviceState::Removing,
            Device::Gone if refused.is_empty() => DeviceState::Removed,
            Device::Gone => DeviceState::Refused(refused.to_owned()),
        };
        PortState { up: self.is_up(), device }
    }

    /// The switch has gone over to a configuration in which the port is switched on or off.
    fn follow_admin(&mut self, id: PortId, admin: AdminStatus, devices: &Devices, office: &Office) {
        if self.admin == admin {
            return;
        }
        self.admin = admin;
        self.tell_device(id, devices);
        let (word, phase) = match admin {
            AdminStatus::Up => ("on", "admin_up"),
            AdminStatus::Down => ("off", "admin_down"),
        };
        say!("port {}: switched {word}", self.config.name);
        tell(office, phase, self, None);
    }

    /// The peer sees it where the driver can do that; the switch does not need it.
    fn tell_device(&self, id: PortId, devices: &Devices) {
        let _ = devices.ask(id.index(), |port| port.set_link(self.admin == AdminStatus::Up));
    }

    /// The interface it has the device of is gone, and there is one of its name: deleted and made again, or moved away and
    /// back.
    fn has_another(&mut self, port: &Port<Started>) -> bool {
        let there = self.device == Device::There;
        let Some(interface) = self.interface.as_mut().filter(|_| there) else { return false };
        interface.now().is_some_and(|index| interface.index != Some(index) || port.is_orphan())
    }

    /// Goes on with the interface that has the name now, if it has a device of the kernel.
    fn look_for_another(&mut self, id: PortId, devices: &Devices, opening: &Opening, office: &mut Office) {
        let Some(interface) = &mut self.interface else { return };
        let Some(index) = interface.now() else { return };
        let (owner, workers) = (self.owner, office.workers.len());
        let tx_queues = opening.tx_queues[id.index()];
        let opened = devices::reopen(&office.eal, &self.config, (owner, tx_queues), &opening.pools[owner]);
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => {
                let error = format!("{error:#}");
                if interface.refused != error {
                    say_err!("weir: port {}: interface {}: {error}", self.config.name, interface.name);
                    let fields = json!({ "port": self.config.name, "driver": self.capabilities.driver, "error": error });
                    office.report("link", "refused", &fields);
                    interface.refused = error;
                }
                return;
            }
        };
        let OpenPort { port, rx, tx, tx_of_others, ring_size, .. } = opened;
        let carries = devices.carries(id.index());
        let wire = |worker: usize, tx| DpdkWire::new(tx, opening.pools[worker].clone(), carries.clone());
        let mut own = WorkerPort::new(id, rx, wire(owner, tx), Some(ring_size * RING_LIMIT_EIGHTHS / 8));
        if let Some(Kept { outboxes, curve, published_curve }) = self.kept.take() {
            (own.outboxes, own.curve, own.published_curve) = (outboxes, curve, published_curve);
        }
        let mut queues: Vec<Queues> = (0..workers).map(|_| Queues { id, port: None, wire: None }).collect();
        queues[owner].port = Some(own);
        for (worker, tx) in tx_of_others {
            queues[worker].wire = Some(wire(worker, tx));
        }
        if let Err(queues) = office.workers.attach(queues) {
            // The device is closed with its queues, and opened at another look.
            self.kept = queues.into_iter().find_map(|queues| queues.port.map(Kept::of));
            return;
        }
        (interface.index, interface.refused) = (Some(index), String::new());
        let name = interface.name.clone();
        devices.replace(id.index(), port);
        if self.admin == AdminStatus::Down {
            self.tell_device(id, devices);
        }
        (self.device, self.link) = (Device::There, LinkWatch::default());
        say!("port {}: interface {name} has been made anew and is in use again", self.config.name);
        tell(office, "attached", self, None);
    }

    fn look(&mut self, id: PortId, devices: &Devices, office: &mut Office) {
        if let Ok(Some(link)) = devices.ask(id.index(), |port| self.link.poll(port)) {
            // A full message ring is tried again at the next look: the watch is reset.
            if !office.workers.link(self.owner, id, link.up) {
                self.link = LinkWatch::default();
                return;
            }
            self.up = link.up;
            let speed = devices::speed(Some(link), &self.capabilities);
            // What a link that is down has to say of its speed is of no use.
            if let Some(speed) = speed {
                let known = &mut office.speeds[usize::from(id.0)];
                if known.replace(speed) != Some(speed) {
                    tell(office, "speed", self, Some(speed));
                }
            }
            let at = speed.map_or_else(String::new, |bps| format!(", {}", show_rate(bps)));
            say!("port {}: link {}{at}", self.config.name, if link.up { "up" } else { "down" });
            if let Some(odd) = speed.and_then(|bps| self.oddity(bps)) {
                say!("port {}: {odd}", self.config.name);
            }
        }
    }

    /// Frames of the port are lost from when its interface takes less than before.
    fn look_at_mtu(&mut self, id: PortId, devices: &Devices, office: &Office) {
        let Self { config, interface: Some(interface), .. } = self else { return };
        if !kernel::DRIVERS.contains(&&*self.capabilities.driver) {
            return;
        }
        let carries = devices.carries(id.index());
        let change = interface.mtu.look(config, &interface.name, carries.as_ref());
        let Some(MtuChange { mtu, trouble }) = change else { return };
        let mut fields = json!({ "port": config.name, "interface": interface.name, "interface_mtu": mtu, "mtu": config.mtu });
        let phase = match trouble {
            Some((detail, remedy)) => {
                say_err!("weir: port {}: {detail}\n  -> {remedy}", config.name);
                (fields["detail"], fields["remedy"]) = (json!(detail), json!(remedy));
                "alarm"
            }
            None => {
                say!("port {}: interface {} takes all frames of the port again", config.name, interface.name);
                "end"
            }
        };
        office.report("interface_mtu", phase, &fields);
    }

    /// How the configured rate and the link's do not fit.
    fn oddity(&self, speed: u64) -> Option<String> {
        let rate = self.config.rate.bps()?;
        if rate > speed {
            Some(format!("rate = {} is more than its link has: the link's counts", show_rate(rate)))
        } else if rate < speed && self.config.pgs.iter().any(|pg| pg.lossless) {
            Some(format!(
                "rate = {} is less than its link has: it is what the port sends; frames arrive at the link's, for which \
                 headroom was not reckoned unless xoff is given",
                show_rate(rate)
            ))
        } else {
            None
        }
    }
}

fn tell(office: &Office, phase: &'static str, port: &Watched, speed: Option<u64>) {
    let mut fields = json!({ "port": port.config.name, "driver": port.capabilities.driver });
    if let Some(speed) = speed {
        fields["bps"] = json!(speed);
    }
    office.report("link", phase, &fields);
}
