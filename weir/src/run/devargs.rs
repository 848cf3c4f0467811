//! A device and its arguments, as DPDK takes them: `net_af_packet0,iface=veth0`.

/// The value of `key=`, of devices of these drivers only.
pub fn argument<'a>(device: &'a str, drivers: &[&str], key: &str) -> Option<&'a str> {
    let mut parts = device.split(',');
    parts.next().filter(|name| drivers.iter().any(|driver| name.starts_with(driver)))?;
    parts.find_map(|part| part.strip_prefix(key)?.strip_prefix('='))
}
