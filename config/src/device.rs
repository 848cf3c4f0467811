//! Devices of ports: the text, as DPDK takes it.

use super::read::{Ctx, Val};
use super::types::DeviceKind;

const DRIVERS: &[&str] = &[
    "net_ring",
    "net_memif",
    "net_af_packet",
    "net_af_xdp",
    "net_tap",
    "net_vhost",
    "net_virtio_user",
    "net_pcap",
    "net_null",
];

/// What a device is, by its text; what it cannot be is noted.
pub(super) fn kind(ctx: &mut Ctx<'_>, device: &Val<String>) -> Option<DeviceKind> {
    let (id, args) = device.v.split_once(',').unwrap_or((&device.v, ""));
    if device.v.contains(['\0', '\n']) {
        ctx.error(
            device.span,
            "port.device",
            "a device name cannot contain NUL or a line break",
            "remove it",
        );
        return None;
    }
    match device.v.as_str() {
        "ring" => return Some(DeviceKind::Ring),
        "inc" => return Some(DeviceKind::Inc),
        _ => {}
    }
    if is_pci(id) {
        return Some(DeviceKind::Pci);
    }
    let driver = id.trim_end_matches(|c: char| c.is_ascii_digit());
    if !DRIVERS.contains(&driver) {
        let message =
            format!("`{}` is no PCI address, no virtual device, not `ring` and not `inc`", device.v);
        let remedy = format!("use 0000:3b:00.0, ring, inc, or one of {} with a number", DRIVERS.join(", "));
        ctx.error(device.span, "port.device", message, remedy);
        return None;
    }
    if driver == id {
        let message = format!("`{id}` has no number: EAL tells instances apart by it");
        ctx.error(device.span, "port.device", message, format!("write {id}0"));
        return None;
    }
    let needs_iface = matches!(driver, "net_af_packet" | "net_af_xdp" | "net_vhost");
    if needs_iface && !args.split(',').any(|a| a.strip_prefix("iface=").is_some_and(|v| !v.is_empty())) {
        let message = format!("{driver} needs to know its interface");
        ctx.error(device.span, "port.device", message, format!("write \"{id},iface=...\""));
        return None;
    }
    Some(DeviceKind::Vdev)
}

/// `[dddd:]bb:dd.f`
fn is_pci(id: &str) -> bool {
    let hex = |s: &str, len: usize| s.len() == len && s.bytes().all(|b| b.is_ascii_hexdigit());
    let parts: Vec<&str> = id.split(':').collect();
    let (domain_ok, rest) = match parts[..] {
        [domain, bus, slot] => (hex(domain, 4), Some((bus, slot))),
        [bus, slot] => (true, Some((bus, slot))),
        _ => (false, None),
    };
    domain_ok
        && rest.is_some_and(|(bus, slot)| {
            hex(bus, 2)
                && slot
                    .split_once('.')
                    .is_some_and(|(d, f)| hex(d, 2) && matches!(f.as_bytes(), [b'0'..=b'7']))
        })
}

/// What is behind a virtual device, in words, where a second port on the same would take frames or peers from the
/// first: two sockets on an interface each get every frame, and a memif region has one server and one client.
pub(super) fn wire(device: &str) -> Option<String> {
    let argument = |driver: &str, key: &str| device_argument(device, &[driver], key);
    let iface = ["net_af_packet", "net_tap", "net_vhost"].iter().find_map(|driver| argument(driver, "iface"));
    if let Some(iface) = iface {
        return Some(iface.to_owned());
    }
    if let Some(iface) = argument("net_af_xdp", "iface") {
        // Sockets on different queues share an interface.
        let queue = argument("net_af_xdp", "start_queue").filter(|queue| *queue != "0");
        return Some(queue.map_or(iface.to_owned(), |queue| format!("{iface} queue {queue}")));
    }
    let memif = |key: &str| argument("net_memif", key);
    let role = match memif("role") {
        Some("server" | "master") => "server",
        _ => "client",
    };
    let (id, socket) = (memif("id").unwrap_or("0"), memif("socket").unwrap_or(MEMIF_SOCKET));
    device.starts_with("net_memif").then(|| format!("{role} of memif {id} at {socket}"))
}

/// Where a `net_memif` device has its socket if it is not told.
pub const MEMIF_SOCKET: &str = "/run/memif.sock";

/// The value of `key=` in a device as DPDK takes it, `net_af_packet0,iface=veth0`, of devices of these drivers only.
pub fn device_argument<'a>(device: &'a str, drivers: &[&str], key: &str) -> Option<&'a str> {
    let mut parts = device.split(',');
    parts.next().filter(|name| drivers.iter().any(|driver| name.starts_with(driver)))?;
    parts.find_map(|part| part.strip_prefix(key)?.strip_prefix('='))
}

/// The device of a port, of a text that stands for those of all ports: `{port}` is its name, `{n}` its number.
pub fn device_of(all: &str, port: &str, n: usize) -> String {
    all.replace("{port}", port).replace("{n}", &n.to_string())
}
