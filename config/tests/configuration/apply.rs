//! A switch under lossless load whose configuration changes and changes.

use weir_config::Config;
use weir_config::runtime::{Device, switch_params};
use weir_dataplane::fdb::Lookup;
use weir_dataplane::frame::{Frame, OwnedFrame};
use weir_dataplane::pfc::frame::{Control, decode};
use weir_dataplane::rng::Rng;
use weir_dataplane::switch::{Change, Conservation, Switch, SwitchParams, Wire};
use weir_dataplane::types::{BURST, Burst, Mac, Nanos, PortId};

const PORTS: usize = 4;

fn config(more: &str, rate: &str) -> Config {
    let mut text =
        format!("[qos]\npreset = \"roce-lossless\"\n[port_defaults]\nmtu = 1600\nrate = \"{rate}\"\n");
    for i in 0..PORTS {
        text += &format!("[[port]]\nname = \"p{i}\"\ndevice = \"ring\"\n");
    }
    text += more;
    weir_config::load("test.toml", &text).unwrap_or_else(|found| panic!("{text}\n{found:?}")).config
}

fn params_of(config: &Config, shards: usize) -> SwitchParams {
    let device = |i: usize| Device {
        mac: Mac::from_u64(i as u64),
        shard: (i % shards) as u8,
        pfc: true,
        ..Device::default()
    };
    let devices: Vec<_> = (0..PORTS).map(device).collect();
    switch_params(config, &devices, shards).unwrap()
}

/// Everything an operator would turn, at random.
fn random(rng: &mut Rng) -> Config {
    let mut below = |n: u32| rng.next_u32() % n;
    let more = format!(
        "[buffer]\nsize = \"{}KiB\"\nframes = 16384\ncontrol_bytes = \"{}KiB\"\n\
         [[buffer.profile]]\nname = \"lossless\"\ndynamic_th = {}\nreserved = \"{}B\"\nxon_offset = \"{}KiB\"\n\
         [[wred]]\nname = \"roce\"\nkmin = \"{}KB\"\nkmax = \"{}KB\"\npmax = \"{}%\"\n\
         [[scheduler]]\nname = \"roce\"\nweight = {}\n\
         [watchdog]\ndetection_time = \"{}ms\"\n\
         [fdb]\nageing = \"{}s\"\nunknown_unicast = \"flood\"\n\
         [[fdb.static]]\nmac = \"02:00:00:00:01:0{}\"\nport = \"p1\"\n",
        4096 + below(4096),
        below(256),
        below(9) as i32 - 6,
        below(20) * 512,
        below(64),
        5 + below(40),
        50 + below(400),
        1 + below(100),
        1 + below(100),
        200 + below(400),
        10 + below(600),
        below(8),
    );
    config(&more, ["800M", "1G", "1500M"][below(3) as usize])
}

#[derive(Default)]
struct Host {
    sent: Vec<Vec<u8>>,
    paused: u8,
}

impl Wire<OwnedFrame> for Host {
    fn send(&mut self, frames: &mut Burst<OwnedFrame>) -> usize {
        let n = frames.len();
        self.sent.extend(frames.drain(..).map(|f| f.bytes().to_vec()));
        n
    }

    fn send_control(&mut self, frame: &[u8]) -> bool {
        let Control::Pfc(pfc) = decode(frame) else { panic!("no PFC frame") };
        for priority in (0..8).filter(|p| pfc.enable >> p & 1 == 1) {
            self.paused = self.paused & !(1 << priority) | u8::from(pfc.time[priority] > 0) << priority;
        }
        true
    }
}

fn data(from: u8, to: u8, number: u32) -> OwnedFrame {
    let mut bytes = vec![0; 1000];
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from]);
    bytes[12..18].copy_from_slice(&[8, 0, 0x45, 26 << 2 | 2, 3, 218]);
    bytes[22..24].copy_from_slice(&[64, 17]);
    bytes[40..44].copy_from_slice(&number.to_be_bytes());
    OwnedFrame::new(bytes)
}

/// Three hosts send to one as fast as they may; every step they are a burst late in obeying.
struct Load {
    switches: Vec<Switch<OwnedFrame>>,
    hosts: Vec<Host>,
    sent: u32,
    pauses: u64,
}

impl Load {
    fn new(params: &SwitchParams, shards: usize) -> Self {
        let mut switches = Switch::<OwnedFrame>::sharded(params, shards).unwrap();
        let hosts = (0..PORTS).map(|_| Host::default()).collect();
        for i in 0..PORTS {
            let mut hello: Burst<_> = [data(i as u8, 0xee, 0)].into_iter().collect();
            switches[i % shards].receive(PortId(i as u16), &mut hello, 0);
        }
        Self { switches, hosts, sent: 0, pauses: 0 }
    }

    fn step(&mut self, now: Nanos) {
        let shards = self.switches.len();
        for i in 1..PORTS {
            if self.hosts[i].paused & 8 == 0 {
                let n = self.sent;
                let mut burst: Burst<_> = (0..8).map(|k| data(i as u8, 0, n + k)).collect();
                self.sent += 8;
                self.switches[i % shards].receive(PortId(i as u16), &mut burst, now);
            }
        }
        for i in 0..PORTS {
            let before = self.hosts[i].paused;
            let switch = &mut self.switches[i % shards];
            switch.transmit(PortId(i as u16), BURST, now, &mut self.hosts[i]);
            self.pauses += u64::from(before & 8 == 0 && self.hosts[i].paused & 8 != 0);
        }
        self.exchange(now);
    }

    /// Lcores hear of each other, and send what others want sent.
    fn exchange(&mut self, now: Nanos) {
        for switch in &mut self.switches {
            switch.tick(now);
            for (i, host) in self.hosts.iter_mut().enumerate() {
                switch.transmit_granted(PortId(i as u16), BURST, now, host);
            }
        }
    }

    fn check(&self) {
        let mut books = Conservation::default();
        for switch in &self.switches {
            books.add(&switch.conservation());
        }
        assert_eq!((books.error(), books.dropped), (0, 0), "{books:?}");
        if let [one] = &self.switches[..] {
            one.admission().audit().unwrap();
        }
    }
}

fn two_hundred_changes(shards: usize, tx_per_lcore: bool, seed: u64) {
    let mut rng = Rng::new(seed);
    let params_of = |config: &Config| {
        let mut params = params_of(config, shards);
        params.ports.iter_mut().for_each(|port| port.tx_per_lcore = tx_per_lcore);
        // As long as a switch runs, frames are charged as at its start: for a buffer of 8 MiB here.
        params.mmu.least_charge = 512;
        params
    };
    let mut params = params_of(&random(&mut rng));
    let mut load = Load::new(&params, shards);
    let mut now = 0;
    for change in 0..200 {
        let target = params_of(&random(&mut rng));
        let plan = Change::between(&params, &target).unwrap();
        for switch in &mut load.switches {
            switch.apply(&mut plan.clone(), now).unwrap();
            assert_eq!(switch.admission().params(), &target.mmu);
        }
        params = target;
        for _ in 0..20 + change % 50 {
            now += 20_000;
            load.step(now);
        }
        load.check();
    }
    assert!(load.pauses > 50, "{} pauses: nobody was near a line", load.pauses);
    // What is held leaves, nothing is forgotten, everybody may go on.
    for host in &mut load.hosts {
        host.paused = 0xff;
    }
    for _ in 0..20_000 {
        now += 20_000;
        load.exchange(now);
        for i in 0..PORTS {
            load.switches[i % shards].transmit(PortId(i as u16), BURST, now, &mut load.hosts[i]);
        }
    }
    load.check();
    let received: usize = load.hosts[0].sent.iter().filter(|f| f[5] == 0).count();
    assert_eq!(received as u32, load.sent);
    assert!(load.hosts.iter().skip(1).all(|host| host.paused & 8 == 0), "somebody is still paused");
}

#[test]
fn a_change_under_lossless_load_loses_nothing() {
    two_hundred_changes(1, false, 7);
}

#[test]
fn a_change_of_two_shards_one_after_the_other_loses_nothing() {
    two_hundred_changes(2, false, 8);
    two_hundred_changes(2, true, 9);
}

#[test]
fn what_was_made_once_is_refused_by_name() {
    let a = params_of(&config("", "1G"), 1);
    for (spoil, word) in [
        (&(|p: &mut SwitchParams| p.frames += 1) as &dyn Fn(&mut SwitchParams), "frames"),
        (&|p: &mut SwitchParams| p.fdb_capacity += 1, "capacity"),
        (&|p: &mut SwitchParams| p.ports[1].mtu -= 1, "mtu"),
        (&|p: &mut SwitchParams| p.ports[1].shard += 1, "lcore"),
        (&|p: &mut SwitchParams| drop(p.ports.pop()), "ports"),
        (&|p: &mut SwitchParams| p.seed += 1, "seed"),
        (&|p: &mut SwitchParams| p.mmu.cell_bytes += 1, "cell"),
        (&|p: &mut SwitchParams| p.mmu.least_charge += 1, "least charge"),
        (&|p: &mut SwitchParams| p.mmu.total = 1, "over-committed"),
    ] {
        let mut b = a.clone();
        spoil(&mut b);
        let error = Change::between(&a, &b).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn static_entries_come_and_go_and_find_room_in_a_full_table() {
    let station =
        |n: u32, port: &str| format!("[[fdb.static]]\nmac = \"02:00:00:00:01:{n:02x}\"\nport = \"{port}\"\n");
    let head = "[fdb]\ncapacity = 16\n";
    let a = params_of(&config(&format!("{head}{}{}", station(1, "p1"), station(2, "p2")), "1G"), 1);
    let b = params_of(&config(&format!("{head}{}{}", station(1, "p3"), station(3, "p2")), "1G"), 1);
    let mut switch = Switch::<OwnedFrame>::new(a.clone()).unwrap();
    for n in 0..40 {
        let mut hello: Burst<_> = [data(n, 0xee, 0)].into_iter().collect();
        switch.receive(PortId(0), &mut hello, 1);
    }
    assert_eq!(switch.fdb().len(), 16);
    let mut change = Change::between(&a, &b).unwrap();
    switch.apply(&mut change, 2).unwrap();
    let statics = switch.fdb().iter().filter(|entry| entry.is_static).count();
    assert_eq!((statics, switch.fdb().len() <= 16), (2, true));
    for (key, port) in &b.stations {
        assert_eq!(switch.fdb().lookup(*key), Lookup::Port(*port));
    }
}

#[test]
fn an_entry_keeps_the_share_of_its_life_it_has_left() {
    let aged = |text: &str| params_of(&config(&format!("[fdb]\nageing = \"{text}\"\n"), "1G"), 1);
    let (long, short) = (aged("100s"), aged("10s"));
    let mut switch = Switch::<OwnedFrame>::new(long.clone()).unwrap();
    let second = 1_000_000_000;
    let mut hello: Burst<_> = [data(1, 0xee, 0)].into_iter().collect();
    switch.receive(PortId(0), &mut hello, 0);
    let run = |switch: &mut Switch<OwnedFrame>, from: u64, to: u64| {
        // Enough ticks for a whole sweep of the table each second.
        for at in from..to {
            (0..3000).for_each(|_| switch.tick(at * second));
        }
    };
    run(&mut switch, 1, 50);
    switch.apply(&mut Change::between(&long, &short).unwrap(), 50 * second).unwrap();
    run(&mut switch, 50, 54);
    assert_eq!(switch.fdb().len(), 1);
    run(&mut switch, 54, 58);
    assert_eq!(switch.fdb().len(), 0);
}
