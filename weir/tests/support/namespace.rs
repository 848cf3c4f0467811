//! A network namespace of the test's own, with veth pairs in it.

use super::{run, tools};
use nix::sched::{CloneFlags, setns};
use serde_json::Value;
use std::fs::File;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A namespace that nobody else uses; gone, with all its interfaces, on drop.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

/// What the kernel counted on an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub rx_dropped: u64,
    pub tx_packets: u64,
    pub tx_dropped: u64,
}

impl Namespace {
    /// A new namespace.
    ///
    /// # Errors
    /// Why this machine has none for us.
    pub fn new() -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        tools(&["ip", "ethtool"])?;
        if !nix::unistd::geteuid().is_root() {
            return Err("network namespaces need root".to_owned());
        }
        let name = format!("weir-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let made = Command::new("ip").args(["netns", "add", &name]).output().map_err(|e| e.to_string())?;
        if !made.status.success() {
            return Err(format!("no network namespace: {}", String::from_utf8_lossy(&made.stderr).trim()));
        }
        let ns = Self { name };
        let sysctl = "for f in all default; do echo 1 > /proc/sys/net/ipv6/conf/$f/disable_ipv6; done";
        // A kernel without IPv6 sends no IPv6 frames of its own either.
        let _ = ns.command("sh").args(["-c", sysctl]).output();
        ns.veth("probe0", "probe1", 1500)?;
        run(ns.command("ip").args(["link", "del", "probe0"]));
        Ok(ns)
    }

    /// `program`, to be run inside.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// A veth pair, up, silent, without offloads; `mtu` counts as the kernel counts it.
    ///
    /// # Errors
    /// The kernel has no veth.
    pub fn veth(&self, one: &str, other: &str, mtu: u32) -> Result<(), String> {
        let mtu = mtu.to_string();
        let made = self
            .command("ip")
            .args(["link", "add", one, "mtu", &mtu, "type", "veth", "peer", "name", other, "mtu", &mtu])
            .output()
            .map_err(|e| e.to_string())?;
        if !made.status.success() {
            return Err(format!("no veth: {}", String::from_utf8_lossy(&made.stderr).trim()));
        }
        for end in [one, other] {
            let off = "tx off rx off sg off tso off gso off gro off txvlan off rxvlan off";
            // What a kernel does not know how to switch off it does not have.
            let _ = self.command("ethtool").args(["-K", end]).args(off.split(' ')).output();
            run(self.command("ip").args(["link", "set", end, "arp", "off", "up"]));
        }
        Ok(())
    }

    /// A veth pair into another namespace, up, as the kernel makes it: with all its offloads. The other end gets an
    /// address and mask.
    ///
    /// # Errors
    /// The kernel has no veth.
    pub fn cable(&self, one: &str, host: &Namespace, other: &str, address: &str) -> Result<(), String> {
        let pair = ["link", "add", one, "type", "veth", "peer", "name", other, "netns", &host.name];
        let made = self.command("ip").args(pair).output().map_err(|e| e.to_string())?;
        if !made.status.success() {
            return Err(format!("no veth: {}", String::from_utf8_lossy(&made.stderr).trim()));
        }
        self.set(one, "up");
        host.set(other, "up");
        run(host.command("ip").args(["address", "add", address, "dev", other]));
        Ok(())
    }

    /// Moves an interface to another namespace, where it is up.
    pub fn give(&self, interface: &str, to: &Namespace) {
        run(self.command("ip").args(["link", "set", interface, "netns", &to.name]));
        to.set(interface, "up");
    }

    /// Takes an interface down or up.
    pub fn set(&self, interface: &str, state: &str) {
        run(self.command("ip").args(["link", "set", interface, state]));
    }

    /// The address of an interface.
    pub fn mac(&self, interface: &str) -> Vec<u8> {
        let text = run(self.command("ip").args(["-j", "link", "show", "dev", interface]));
        let links: Value = serde_json::from_str(&text).expect("ip prints JSON");
        let text = links[0]["address"].as_str().expect("an address");
        text.split(':').map(|byte| u8::from_str_radix(byte, 16).expect("hexadecimal")).collect()
    }

    /// The kernel's counters of an interface.
    pub fn counts(&self, interface: &str) -> Counts {
        let text = run(self.command("ip").args(["-j", "-s", "link", "show", "dev", interface]));
        let links: Value = serde_json::from_str(&text).expect("ip prints JSON");
        let stats = &links[0]["stats64"];
        let count = |way: &str, what: &str| stats[way][what].as_u64().expect("a counter");
        Counts {
            rx_packets: count("rx", "packets"),
            rx_bytes: count("rx", "bytes"),
            rx_dropped: count("rx", "dropped"),
            tx_packets: count("tx", "packets"),
            tx_dropped: count("tx", "dropped"),
        }
    }

    /// Runs `work` on a thread inside; sockets it opens stay inside.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}", self.name);
        std::thread::scope(|scope| {
            let inside = scope.spawn(move || {
                let namespace = File::open(path).expect("the namespace is there");
                setns(namespace, CloneFlags::CLONE_NEWNET).expect("root may enter it");
                work()
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Best effort: a test that has failed must say why, not that.
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
    }
}
