//! What the main thread sees of ports: links that come up and go down, at what speed, and devices that are taken away.

use super::devices;
use super::io::{Dpdk, Io};
use super::office::Office;
use super::worker::WorkerPort;
use crate::output::say;
use serde_json::{Map, json};
use weir_config::{PortConfig, PortRate, show_rate};
use weir_dataplane::types::PortId;
use weir_dpdk::{Capabilities, LinkWatch, Port, Started};
use weir_mgmt::snapshot::News;

/// What a worker gives back when the device of a port is taken away: for another thread to close.
#[derive(Debug)]
pub struct Departed<D: Io = Dpdk> {
    /// Which port it was.
    pub id: PortId,
    /// What its owner had.
    #[allow(dead_code, reason = "sent back to be dropped where that disturbs nobody")]
    pub port: Option<WorkerPort<D>>,
    /// What another worker had.
    #[allow(dead_code, reason = "sent back to be dropped where that disturbs nobody")]
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

/// One port.
#[derive(Debug)]
struct Watched {
    name: String,
    rate: PortRate,
    lossless: bool,
    capabilities: Capabilities,
    owner: usize,
    link: LinkWatch,
    up: bool,
    device: Device,
}

/// All ports of a switch.
#[derive(Debug)]
pub struct Links {
    ports: Vec<Watched>,
    /// From each worker.
    departed: Vec<rtrb::Consumer<Departed>>,
}

impl Links {
    /// The ports of a configuration, with what their devices can do and the workers that own them.
    pub fn new(
        configs: &[PortConfig],
        capabilities: Vec<Capabilities>,
        owner: &[usize],
        departed: Vec<rtrb::Consumer<Departed>>,
    ) -> Self {
        let one = |((config, capabilities), owner): ((&PortConfig, Capabilities), &usize)| Watched {
            name: config.name.clone(),
            rate: config.rate,
            lossless: config.pgs.iter().any(|pg| pg.lossless),
            capabilities,
            owner: *owner,
            link: LinkWatch::default(),
            up: false,
            device: Device::There,
        };
        Self { ports: configs.iter().zip(capabilities).zip(owner).map(one).collect(), departed }
    }

    /// Frames can pass at a port, as last seen.
    pub fn is_up(&self, port: usize) -> bool {
        self.ports[port].up
    }

    /// Looks at every port, and tells workers, and whoever watches, what has changed.
    pub fn attend(&mut self, ports: &[Port<Started>], office: &mut Office) {
        for departed in &mut self.departed {
            while let Ok(gone) = departed.pop() {
                let device = &mut self.ports[usize::from(gone.id.0)].device;
                if let Device::Leaving { workers } = device {
                    *workers -= 1;
                }
            }
        }
        for (i, (watched, port)) in self.ports.iter_mut().zip(ports).enumerate() {
            let id = PortId(i as u16);
            match watched.device {
                Device::Gone => {}
                // A queue may be a moment longer on its way here; the next look finds it.
                Device::Leaving { workers: 0 } if port.give_up().is_ok() => {
                    watched.device = Device::Gone;
                    say!("port {}: its device has been let go", watched.name);
                    tell(office, "removed", watched, None);
                }
                Device::Leaving { .. } => {}
                Device::There if port.is_removed() => {
                    if office.workers.detach(watched.owner, id) {
                        watched.up = false;
                        watched.device = Device::Leaving { workers: office.workers.len() };
                        say!("port {}: its device is being taken away", watched.name);
                        tell(office, "removing", watched, None);
                    }
                }
                Device::There => watched.look(id, port, office),
            }
        }
    }
}

impl Watched {
    fn look(&mut self, id: PortId, port: &Port<Started>, office: &mut Office) {
        if let Ok(Some(link)) = self.link.poll(port) {
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
            say!("port {}: link {}{at}", self.name, if link.up { "up" } else { "down" });
            if let Some(odd) = speed.and_then(|bps| self.oddity(bps)) {
                say!("port {}: {odd}", self.name);
            }
        }
    }

    /// How the configured rate and the link's do not fit.
    fn oddity(&self, speed: u64) -> Option<String> {
        let rate = self.rate.bps()?;
        if rate > speed {
            Some(format!("rate = {} is more than its link has: the link's counts", show_rate(rate)))
        } else if rate < speed && self.lossless {
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
    let mut fields = Map::new();
    fields.insert("port".into(), json!(port.name));
    fields.insert("driver".into(), json!(port.capabilities.driver));
    if let Some(speed) = speed {
        fields.insert("bps".into(), json!(speed));
    }
    office.news.push(News::Event { kind: "link", phase, fields });
}
