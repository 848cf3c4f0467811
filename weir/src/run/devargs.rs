//! A device and its arguments, as DPDK takes them: `net_af_packet0,iface=veth0`.

pub use weir_config::device_argument as argument;

/// The full PCI address of a device: `3b:00.0` is `0000:3b:00.0`, and what stands behind a comma belongs to the driver.
pub fn address(device: &str) -> String {
    let address = device.split(',').next().unwrap_or(device);
    if address.matches(':').count() == 1 { format!("0000:{address}") } else { address.to_owned() }
}
