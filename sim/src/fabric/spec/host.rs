//! What all hosts are: RoCEv2 or RC Link, and their congestion control.

use super::Congestion;
use crate::fabric::congestion::{DctcpSpec, HpccSpec, SwiftSpec, TimelySpec, WindowKind};
use crate::fabric::nscc::NsccSpec;
use crate::fabric::rate_control;
use crate::fabric::transport::{SelectiveSpec, TransportKind};
use crate::fabric::units::{Duration, Rate, Size};
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use weir_endpoint::rclink::class::ClassMap;

/// Packets per ACK unless told.
pub(in crate::fabric) const ACK_EVERY: u16 = 16;

/// What hosts speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// RoCEv2.
    #[default]
    Rocev2,
    /// RC Link, the endpoint side of PAXI.
    Rclink,
}

/// Formats of RC Link frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LinkFormat {
    /// Ethernet, IPv4, UDP.
    #[default]
    Standard,
    /// Traffic class in the source address.
    AfhGen1,
    /// Stations of 16 bits.
    #[serde(rename = "afh_gen2_16b")]
    AfhGen2,
    /// The same without EtherType, tag and reliability header: nothing is sent again.
    AfhLite,
}

/// What holds senders back (CBFC_EN).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowControlKind {
    /// Pauses, from the switch and from receive memories.
    #[default]
    Pfc,
    /// Credits, end to end and per virtual channel; hosts neither send nor obey pauses, and switches send none.
    Cbfc,
}

/// Priority, or virtual channel, of each class of RC Link traffic.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LinkPriorities {
    /// Raw Ethernet (TYPE3).
    #[schemars(extend("x-default" = usual_class(|c| c.raw)))]
    pub raw: Option<u8>,
    /// Multicast (TYPE2).
    #[schemars(extend("x-default" = usual_class(|c| c.multicast)))]
    pub multicast: Option<u8>,
    /// Responses.
    #[schemars(extend("x-default" = usual_class(|c| c.response)))]
    pub response: Option<u8>,
    /// Requests of banks 0 to 3.
    #[schemars(extend("x-default" = usual_class(|c| c.request)))]
    #[serde(deserialize_with = "banks")]
    pub request: Option<[u8; 4]>,
    /// Acknowledgements and credits.
    #[schemars(extend("x-default" = usual_class(|c| c.ack)))]
    pub ack: Option<u8>,
}

/// Priority of a class, or its virtual channel, in words.
fn usual_class<T: std::fmt::Debug>(of: impl Fn(&ClassMap) -> T) -> String {
    let [pauses, credits] =
        [ClassMap::priorities(), ClassMap::channels()].map(|classes| format!("{:?}", of(&classes)));
    if pauses == credits { pauses } else { format!("{pauses}; with credits {credits}") }
}

/// One priority for each bank. The reader of TOML would pass over further ones.
fn banks<'de, D: Deserializer<'de>>(from: D) -> Result<Option<[u8; 4]>, D::Error> {
    let given = Vec::deserialize(from)?;
    let wrong = |given: Vec<u8>| D::Error::custom(format!("{} priorities; requests have 4", given.len()));
    given.try_into().map(Some).map_err(wrong)
}

/// Windows of RC Link's rate control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum CcWindow {
    /// 4.096 us.
    #[default]
    #[serde(rename = "4us")]
    Us4,
    /// 8.192 us.
    #[serde(rename = "8us")]
    Us8,
    /// 16.384 us.
    #[serde(rename = "16us")]
    Us16,
    /// 32.768 us.
    #[serde(rename = "32us")]
    Us32,
    /// 65.536 us.
    #[serde(rename = "65us")]
    Us65,
}

/// RC Link hosts.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LinkHostSpec {
    /// Format of the frames.
    pub format: LinkFormat,
    /// Go-back-N; without it (LITE mode) everything is sent once.
    pub retransmit: bool,
    /// Packets in flight, and responses queued at once, 1 to 2048.
    pub window: u16,
    /// Bytes are counted per such window.
    pub cc_window: CcWindow,
    /// A flow with `cc = "backoff"` halves its rate at most once per such time.
    pub cut_period: Duration,
    /// A flow with `cc = "backoff"` raises its rate by a hundredth after each such time.
    pub raise_period: Duration,
    /// Pauses or credits.
    pub flow_control: FlowControlKind,
    /// Bytes of a credit: 32, 64, 128, 256, 1024 or 2048.
    pub credit_bytes: u16,
    /// Credits of each channel and peer: the memory of the receiver.
    pub credits: u32,
    /// Freed credits are reported once they are worth so many longest frames, 1 to 7.
    pub credit_report: u8,
    /// Freed credits are reported at least this often, which mends losses.
    pub credit_interval: Duration,
    /// Messages are read this fast at most, in frames with gaps; as they come unless given.
    pub read_rate: Option<Rate>,
    /// What receive memories have room for after a pause was asked for; what the cable, what is
    /// at either end of it, three frames and a pause take unless given.
    pub round_trip: Option<Duration>,
    /// Priority of each class.
    pub priorities: LinkPriorities,
}

impl Default for LinkHostSpec {
    fn default() -> Self {
        Self {
            format: LinkFormat::Standard,
            retransmit: true,
            window: 512,
            cc_window: CcWindow::Us4,
            cut_period: Duration::of(50_000),
            raise_period: Duration::of(10_000),
            flow_control: FlowControlKind::Pfc,
            credit_bytes: 256,
            credits: 4096,
            credit_report: 2,
            credit_interval: Duration::of(10_000),
            read_rate: None,
            round_trip: None,
            priorities: LinkPriorities::default(),
        }
    }
}

/// Where acknowledgements of RoCEv2 hosts go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AckClass {
    /// In the class of the data they acknowledge.
    Data,
    /// In that of CNPs.
    Cnp,
}

/// All hosts.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HostSpec {
    /// What they speak.
    pub protocol: Protocol,
    /// RC Link hosts.
    pub rclink: LinkHostSpec,
    /// PFC priorities they obey; those that are lossless at the switch they are connected to unless given.
    pub pfc_priorities: Option<Vec<u8>>,
    /// From the last bit of a PFC frame to its effect.
    pub pfc_response_delay: Duration,
    /// From the making of a frame to the line.
    pub tx_delay: Duration,
    /// From the last bit of any other frame to its effect.
    pub rx_delay: Duration,
    /// Payload bytes of a full packet: 1 to 4096, in RC Link 1 to 1344.
    pub payload: u16,
    /// Packets per ACK, 1 to 4096. Where congestion control follows every one of them it is 1 unless given.
    #[schemars(extend("default" = ACK_EVERY))]
    pub ack_every: Option<u16>,
    /// Retransmission timeout.
    pub timeout: Duration,
    /// What they do about frames that are lost or overtake one another.
    pub transport: TransportKind,
    /// Constants of `transport = "selective_repeat"`.
    pub selective_repeat: SelectiveSpec,
    /// Least time between two CNPs of a flow. An RC Link receiver remembers the last eight queue pairs it sent any for (DEV-13): of more that
    /// are marked at once CNPs can be closer.
    pub cnp_interval: Duration,
    /// Priority of CNPs, of which pauses hold them back, and of ACKs that go as they do. Of RoCEv2: RC Link has classes of its
    /// own.
    pub cnp_priority: u8,
    /// Class of ACKs: that of their data or that of CNPs, as control packets of Ultra Ethernet have one of their own. Of RoCEv2; `data`, of
    /// NSCC `cnp` unless given.
    pub ack_class: Option<AckClass>,
    /// Congestion control of all workloads that do not say another in `cc`.
    #[schemars(extend("default" = Congestion::default()))]
    pub congestion_control: Option<Congestion>,
    /// Rate control of flows with `cc = "dcqcn"`.
    pub dcqcn: DcqcnSpec,
    /// HPCC, with INT or PINT.
    pub hpcc: HpccSpec,
    /// TIMELY.
    pub timely: TimelySpec,
    /// DCTCP.
    pub dctcp: DctcpSpec,
    /// Swift.
    pub swift: SwiftSpec,
    /// NSCC.
    pub nscc: NsccSpec,
    /// How the bytes in flight of HPCC, TIMELY and DCTCP follow the rate; `variable`, of TIMELY `none`, unless given.
    pub window: Option<WindowKind>,
    /// Bytes in flight at line rate; the largest bandwidth-delay product of the flows unless given.
    pub window_bytes: Option<Size>,
    /// Base round trip of HPCC and NSCC; the largest of the flows unless given.
    pub base_rtt: Option<Duration>,
}

impl Default for HostSpec {
    fn default() -> Self {
        Self {
            protocol: Protocol::Rocev2,
            rclink: LinkHostSpec::default(),
            pfc_priorities: None,
            pfc_response_delay: Duration::of(0),
            tx_delay: Duration::of(0),
            rx_delay: Duration::of(0),
            payload: 1024,
            ack_every: None,
            timeout: Duration::of(4_000_000),
            transport: TransportKind::default(),
            selective_repeat: SelectiveSpec::default(),
            cnp_interval: Duration::of(50_000),
            cnp_priority: 6,
            ack_class: None,
            congestion_control: None,
            dcqcn: DcqcnSpec::default(),
            hpcc: HpccSpec::default(),
            timely: TimelySpec::default(),
            dctcp: DctcpSpec::default(),
            swift: SwiftSpec::default(),
            nscc: NsccSpec::default(),
            window: None,
            window_bytes: None,
            base_rtt: None,
        }
    }
}

impl HostSpec {
    /// Whether acknowledgements of flows with this congestion control go in the class of CNPs.
    pub fn acks_as_cnps(&self, cc: Congestion) -> bool {
        let usual = if cc == Congestion::Nscc { AckClass::Cnp } else { AckClass::Data };
        self.protocol == Protocol::Rocev2 && self.ack_class.unwrap_or(usual) == AckClass::Cnp
    }
}

/// Who of an adapter decides how fast a flow sends (CC-018 to CC-020).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scheme {
    /// Scheme 1: hardware computes the rate and keeps it.
    Hardware,
    /// Scheme 2: firmware writes the rate, hardware keeps it.
    FirmwareRate,
    /// Scheme 3: firmware stops and starts the flow.
    Firmware,
}

/// What firmware computes the rate with (schemes 2 and 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FirmwareAlgorithm {
    /// DCQCN, as hardware does.
    #[default]
    Dcqcn,
    /// Half the rate at a CNP, once per `cut_period`; then `additive` more per `increase_period`.
    Backoff,
}

/// DCQCN: a named set of parameters and what differs from it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DcqcnSpec {
    /// The form of ConnectX adapters with their defaults, in place of the paper's: CNPs cut the rate at the end of a `cut_period` in which
    /// one came, alpha is looked at once per `alpha_period`, and of cuts in a row the first alone lowers the target.
    pub connectx: bool,
    /// Gain of alpha, 1024ths.
    #[schemars(extend("x-default" = rate_control::usual(|p| p.gain)))]
    pub gain: Option<u32>,
    /// Alpha at the first CNP, 1024ths.
    #[schemars(extend("x-default" = rate_control::usual(|p| p.initial_alpha)))]
    pub initial_alpha: Option<u32>,
    /// Additive increase.
    #[schemars(extend("x-default" = rate_control::usual(|p| Rate::of(p.additive))))]
    pub additive: Option<Rate>,
    /// Hyper increase.
    #[schemars(extend("x-default" = rate_control::usual(|p| Rate::of(p.hyper))))]
    pub hyper: Option<Rate>,
    /// Increase timer.
    #[schemars(extend("x-default" = rate_control::usual(|p| Duration::of(p.increase_period))))]
    pub increase_period: Option<Duration>,
    /// Alpha decays after each such time without a CNP.
    #[schemars(extend("x-default" = rate_control::usual(|p| Duration::of(p.alpha_period))))]
    pub alpha_period: Option<Duration>,
    /// One cut per such time, after a CNP; with `connectx` at the end of one in which a CNP came.
    #[schemars(extend("x-default" = rate_control::usual(|p| Duration::of(p.cut_period))))]
    pub cut_period: Option<Duration>,
    /// Bytes between two increases.
    #[schemars(extend("x-default" = rate_control::usual(|p| Size::of(p.byte_threshold))))]
    pub byte_threshold: Option<Size>,
    /// A cut takes alpha / 2^shift.
    #[schemars(extend("x-default" = rate_control::usual(|p| p.rate_shift)))]
    pub rate_shift: Option<u32>,
    /// Increases before the next stage.
    #[schemars(extend("x-default" = rate_control::usual(|p| p.stages)))]
    pub stages: Option<u32>,
    /// A cut leaves at least this percentage of the rate.
    #[schemars(extend("x-default" = rate_control::usual(|p| p.min_left_percent)))]
    pub min_left_percent: Option<u32>,
    /// Rate set by the first CNP instead of a cut; there is a cut unless given.
    pub first_cnp_rate: Option<Rate>,
    /// Lowest rate.
    #[schemars(extend("x-default" = rate_control::usual(|p| Rate::of(p.min_rate))))]
    pub min_rate: Option<Rate>,
    /// Rate at the start.
    #[schemars(extend("x-default" = rate_control::usual(|p| Rate::of(p.initial_rate))))]
    pub initial_rate: Option<Rate>,
    /// As an adapter does under this scheme; the algorithm alone, and no limit to what is in flight, unless given.
    pub scheme: Option<Scheme>,
    /// What firmware computes the rate with (schemes 2 and 3). `backoff` knows of `cut_period`, `increase_period`,
    /// `additive`, `min_rate` and `initial_rate` alone: half the rate at a CNP, once per `cut_period`, then `additive` more
    /// after each `increase_period`.
    #[schemars(extend("default" = FirmwareAlgorithm::default()))]
    pub firmware_algorithm: Option<FirmwareAlgorithm>,
    /// Firmware looks this often (schemes 2 and 3).
    #[schemars(extend("default" = Duration::of(rate_control::FIRMWARE_PERIOD)))]
    pub firmware_period: Option<Duration>,
    /// Bytes of a work request, of which a flow is made: what is counted as in flight.
    #[schemars(extend("default" = Size::of(rate_control::MESSAGE)))]
    pub message: Option<Size>,
    /// Work requests in flight (schemes 1 and 2).
    #[schemars(extend("default" = rate_control::OUTSTANDING.0))]
    pub outstanding: Option<u32>,
    /// Work requests in flight for `restore_after` after a CNP (schemes 1 and 2).
    #[schemars(extend("default" = rate_control::OUTSTANDING.1))]
    pub outstanding_after_cnp: Option<u32>,
    /// For so long after a CNP `outstanding_after_cnp` holds.
    #[schemars(extend("default" = Duration::of(rate_control::OUTSTANDING.2)))]
    pub restore_after: Option<Duration>,
}
