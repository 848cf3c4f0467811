//! What a run can tell while it runs.
use super::control::Heeded;
use crate::models::hpcc::Hpcc;
use weir_dataplane::types::Nanos;

/// A switch decided to send a PFC frame. Node ids and port numbers (from 1) are those of the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfcSent {
    /// When.
    pub at: Nanos,
    /// The switch.
    pub node: u32,
    /// The port that sends, and whose ingress group changed state.
    pub port: u16,
    /// The priority.
    pub prio: u8,
    /// Pause, or resume.
    pub pause: bool,
    /// Bytes of the group in reserve and shared.
    pub ingress: u32,
    /// Bytes of the group in headroom.
    pub headroom: u32,
    /// Shared bytes in use in the switch.
    pub shared: u32,
    /// Threshold of the group.
    pub threshold: u32,
}

/// A node received a PFC frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfcReceived {
    /// When.
    pub at: Nanos,
    /// The node.
    pub node: u32,
    /// The port, from 1.
    pub port: u16,
    /// The priority.
    pub prio: u8,
    /// Pause, or resume.
    pub pause: bool,
}

/// A sender's rate changed, or its first CNP came. State after the event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateChange {
    /// When.
    pub at: Nanos,
    /// The flow, in the order of the list.
    pub flow: u32,
    /// What happened.
    pub step: weir_endpoint::dcqcn::ns3::Step,
    /// Current rate, bit/s.
    pub rate: u64,
    /// Target rate, bit/s.
    pub target: u64,
    /// Congestion estimate.
    pub alpha: f64,
    /// Increase steps since the last cut.
    pub stage: u32,
}

/// Watches a run. `()` watches nothing and costs nothing.
pub trait Recorder {
    /// A PFC frame was handed to a port of a switch.
    fn pfc_sent(&mut self, _: PfcSent) {}
    /// A PFC frame arrived.
    fn pfc_received(&mut self, _: PfcReceived) {}
    /// A rate changed.
    fn rate_changed(&mut self, _: RateChange) {}
    /// A switch stored a frame; `mmu` counts it already. Port and switch indices from 0.
    fn stored(
        &mut self,
        _at: Nanos,
        _switch: usize,
        _mmu: &Hpcc,
        _in_port: usize,
        _prio: usize,
        _out_port: usize,
    ) {
    }
    /// A switch refused a frame that came in by `in_port`.
    fn refused(&mut self, _at: Nanos, _switch: usize, _in_port: usize, _prio: u8) {}
    /// A sender driven by acknowledgements took one into account.
    fn heeded(&mut self, _: &Heeded<'_>) {}
    /// A NACK for byte `psn` arrived at the sender of a flow.
    fn nack_received(&mut self, _at: Nanos, _flow: u32, _psn: u32) {}
    /// The last ACK of a flow arrived.
    fn completed(&mut self, _at: Nanos, _flow: u32) {}
    /// A frame left the buffer of a switch; `mmu` counts it no more.
    fn left(
        &mut self,
        _at: Nanos,
        _switch: usize,
        _mmu: &Hpcc,
        _out_port: usize,
        _prio: usize,
        _marked: bool,
    ) {
    }
    /// A data frame of a flow was handed to the link of its sender; `again`: not for the first time.
    fn data_sent(&mut self, _flow: u32, _again: bool) {}
    /// An acknowledgement was handed to the link of its sender, with what it says of congestion.
    fn answer_sent(&mut self) {}
    /// Payload of a flow arrived in order.
    fn delivered(&mut self, _at: Nanos, _flow: u32, _bytes: u32) {}
    /// The sampler ran: depth of the watched queue and shared use of its switch, in bytes.
    fn sampled(&mut self, _at: Nanos, _egress: u32, _shared: u32) {}
}

impl Recorder for () {}
