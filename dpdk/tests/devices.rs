//! Devices that reach outside the process. These need root; without it they say so and do nothing.

use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weir_dataplane::frame::Frame;
use weir_dpdk::{Burst, Eal, MacControl, Mempool, Port, PortConfig, Started, free_burst};

fn eal() -> &'static Eal {
    static EAL: OnceLock<Eal> = OnceLock::new();
    EAL.get_or_init(|| {
        Eal::init(&["--no-huge", "--no-shconf", "--no-telemetry", "--file-prefix=weir-test", "-m", "128"])
            .expect("EAL starts")
    })
}

fn open(devargs: &str, pool: &Mempool) -> Port<Started> {
    let mut port = Port::probe(eal(), devargs).unwrap();
    port.configure(&PortConfig { mtu: Some(1500), ..PortConfig::default() }, pool).unwrap();
    port.start().unwrap()
}

/// Two interfaces of the kernel joined back to back, gone on drop.
struct Veth {
    names: [String; 2],
}

impl Veth {
    /// `None` where we may not make one.
    fn new() -> Option<Self> {
        // Tests of one process run side by side.
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Relaxed);
        let names = ["a", "b"].map(|end| format!("wt{}{end}{number}", std::process::id()));
        let made = ip(&["link", "add", &names[0], "type", "veth", "peer", "name", &names[1]]);
        if !made {
            eprintln!("skipped: making a veth pair needs root (CAP_NET_ADMIN) and ip(8)");
            return None;
        }
        let veth = Self { names };
        for name in &veth.names {
            // No IPv6, so that the kernel sends nothing of its own.
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
            assert!(ip(&["link", "set", name, "up"]));
        }
        Some(veth)
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        ip(&["link", "del", &self.names[0]]);
    }
}

fn ip(args: &[&str]) -> bool {
    Command::new("ip").args(args).output().is_ok_and(|o| o.status.success())
}

/// Frames that go out at one end of a pair come in at the other, those of PFC too.
fn carries_pfc_frames(tx: &Port<Started>, rx: &Port<Started>, pool: &Mempool) {
    assert_eq!(tx.capabilities().unwrap().mac_control, MacControl::Visible);
    let (mut tx, mut rx) = (tx.tx_queue(0).unwrap(), rx.rx_queue(0).unwrap());
    // 802.1Qbb: destination, source, MAC control, opcode 0x0101, enable priority 3, eight times.
    let mut pfc = vec![1, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x88, 0x08, 0x01, 0x01, 0, 8];
    pfc.extend([0, 0, 0, 0, 0, 0, 0xff, 0xff]);
    pfc.resize(60, 0);
    let mut burst: Burst = (0..5).map(|_| pool.frame(&pfc).unwrap()).collect();
    assert_eq!(tx.transmit(&mut burst), 5);
    let mut got = Burst::new();
    let patience = Instant::now();
    while got.len() < 5 && patience.elapsed() < Duration::from_secs(10) {
        rx.receive(&mut got);
        got.retain(|f| f.bytes()[..6] == pfc[..6]);
    }
    assert_eq!(got.len(), 5);
    assert!(got.iter().all(|f| f.bytes() == pfc));
    free_burst(&mut got);
}

#[test]
fn net_af_packet_over_veth_carries_pfc_frames() {
    let Some(veth) = Veth::new() else { return };
    let pool = Mempool::new(eal(), "veth", 2047, 0, 2048).unwrap();
    {
        let [a, b] = [0, 1].map(|i| open(&format!("net_af_packet{i},iface={}", veth.names[i]), &pool));
        assert_eq!(a.mtu().unwrap(), 1500);
        carries_pfc_frames(&a, &b, &pool);
    }
    assert_eq!(pool.in_use(), 0);
}

/// Sends a frame by an interface, through its queueing discipline, as what the kernel sends goes.
fn send_as_the_kernel_does(interface: &str, frame: &[u8]) {
    let name = std::ffi::CString::new(interface).unwrap();
    // SAFETY: the name ends in zero, sockaddr_ll is valid when zero, and the kernel reads both as long as they are said to be.
    let sent = unsafe {
        let mut to: libc::sockaddr_ll = std::mem::zeroed();
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
        let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
        let len = size_of_val(&to) as u32;
        let sent = libc::sendto(socket, frame.as_ptr().cast(), frame.len(), 0, (&raw const to).cast(), len);
        libc::close(socket);
        sent
    };
    assert_eq!(sent, frame.len() as isize, "{}", std::io::Error::last_os_error());
}

/// What the machine itself sends by the interface of a port goes out; it did not come in.
#[test]
fn a_port_receives_nothing_that_others_send_by_its_interface() {
    for driver in ["net_af_packet", "net_pcap"] {
        let Some(veth) = Veth::new() else { return };
        let pool = Mempool::new(eal(), &format!("o_{driver}"), 2047, 0, 2048).unwrap();
        let [port, peer] =
            [10, 11].map(|n| open(&format!("{driver}{n},iface={}", veth.names[n - 10]), &pool));
        let frame = |from: u8| [[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, from, 0x88, 0xb5], [from; 14]].concat();
        let patience = Instant::now();
        // All frames of ours that a port has got when the one from `until` is among them.
        let received = |port: &Port<Started>, until: u8| {
            let (mut rx, mut burst, mut froms) = (port.rx_queue(0).unwrap(), Burst::new(), Vec::new());
            while !froms.contains(&until) {
                assert!(patience.elapsed() < Duration::from_secs(10), "no frame from {until}");
                rx.receive(&mut burst);
                let ours = burst.iter().filter(|f| f.bytes()[12..14] == [0x88, 0xb5]);
                froms.extend(ours.map(|f| f.bytes()[11]));
                free_burst(&mut burst);
            }
            froms
        };
        send_as_the_kernel_does(&veth.names[0], &frame(7));
        assert_eq!(received(&peer, 7), [7]);
        let mut burst = Burst::new();
        burst.push(pool.frame(&frame(8)).unwrap());
        assert_eq!(peer.tx_queue(0).unwrap().transmit(&mut burst), 1);
        assert_eq!(received(&port, 8), [8], "{driver}");
        drop((port, peer));
        assert_eq!(pool.in_use(), 0, "{driver}");
    }
}

/// Its driver may keep frames when a port is closed: that of 22.11 does.
#[test]
fn net_af_xdp_over_veth_carries_pfc_frames() {
    let protocols = std::fs::read_to_string("/proc/net/protocols").unwrap_or_default();
    if !protocols.lines().any(|line| line.starts_with("XDP ")) {
        eprintln!("skipped: this kernel has no AF_XDP");
        return;
    }
    let Some(veth) = Veth::new() else { return };
    let pool = Mempool::new(eal(), "xdp", 16_383, 0, 2048).unwrap();
    let [a, b] = [0, 1].map(|i| open(&format!("net_af_xdp{i},iface={}", veth.names[i]), &pool));
    carries_pfc_frames(&a, &b, &pool);
}

#[test]
fn net_tap_comes_up_with_an_interface_of_the_kernel() {
    if std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun").is_err()
        || Veth::new().is_none()
    {
        eprintln!("skipped: net_tap needs root (CAP_NET_ADMIN) and /dev/net/tun");
        return;
    }
    let pool = Mempool::new(eal(), "tap", 2047, 0, 2048).unwrap();
    {
        let name = format!("wtap{}", std::process::id());
        let port = open(&format!("net_tap0,iface={name}"), &pool);
        assert!(std::path::Path::new("/sys/class/net").join(&name).exists());
        assert_eq!(port.capabilities().unwrap().driver, "net_tap");
    }
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn net_memif_joins_two_ports_without_root() {
    let dir = tempfile::tempdir().unwrap();
    // The driver keys its sockets by path, and one of its sockets cannot be both ends: two spellings.
    let sockets = [dir.path().join("memif.sock"), dir.path().join(".//memif.sock")];
    let pool = Mempool::new(eal(), "memif", 4095, 0, 2048).unwrap();
    let devargs = |n: usize, role| {
        format!("net_memif{n},role={role},socket={},socket-abstract=no", sockets[n].display())
    };
    {
        let mut client = Port::probe(eal(), &devargs(1, "client")).unwrap();
        client.configure(&PortConfig::default(), &pool).unwrap();
        let refused = client.start().expect_err("no server listens yet");
        let server = open(&devargs(0, "server"), &pool);
        let client = refused.port.start().unwrap();
        let patience = Instant::now();
        while !(server.link().unwrap().up && client.link().unwrap().up) {
            assert!(patience.elapsed() < Duration::from_secs(10), "the two ends do not meet");
            std::thread::sleep(Duration::from_millis(5));
        }
        let (mut tx, mut rx) = (client.tx_queue(0).unwrap(), server.rx_queue(0).unwrap());
        let mut burst: Burst = (0..32_u8).map(|i| pool.frame(&[i; 100]).unwrap()).collect();
        assert_eq!(tx.transmit(&mut burst), 32);
        while burst.len() < 32 && patience.elapsed() < Duration::from_secs(20) {
            rx.receive(&mut burst);
        }
        assert!(burst.iter().zip(0..).all(|(f, i)| f.bytes() == [i; 100]));
        assert_eq!(burst.len(), 32);
    }
    assert_eq!(pool.in_use(), 0);
}
