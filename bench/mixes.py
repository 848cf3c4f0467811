"""The traffic mixes of bench/side-by-side, bench/two-lcores and bench/instructions: their frames, and what a switch has to be told
for them.

A mix is one entry of MIXES. SITUATIONS are mixes for bench/instructions alone: what other people configure and send, in which weir is not
to be compared with a switch that has nothing of it. Its two captures, one per port, are drawn from one seed: they are the same whenever and
wherever they are written. Sizes count the FCS, which is not in a capture. Every station sends at least one frame of
the capture of its port, so once all of them have been heard nothing is flooded. OVS forwards all mixes: it learns, but
for AFH it has a rule per station. It has neither classes nor lossless queues in any of them.
"""

import pathlib
import random
import struct
from dataclasses import dataclass
from typing import Callable

BASE = pathlib.Path(__file__).resolve().parent / "side-by-side.toml"
SEED = 1
CLASSES = 8
VLAN = 100
FCS = 4
SHORTEST = 64
ROCE_PORT = 4791
ECT0 = 2
# Mbit/s: short frames never come that fast.
FULL_RATE = 100_000

# How often each kind of RoCEv2 frame comes: share, BTH opcode, bytes between BTH and ICRC. The path MTU is 1024 bytes.
ROCE_DATA, ROCE_ACK, ROCE_CNP = (8, 0x07, 1024), (4, 0x11, 4), (1, 0x81, 16)
ROCE_READ_REQUEST, ROCE_READ_RESPONSE = (1, 0x0C, 16), (2, 0x0E, 1024)
ROCE_KINDS = (ROCE_DATA, ROCE_ACK, ROCE_CNP, ROCE_READ_REQUEST, ROCE_READ_RESPONSE)
CNP_DSCP = 48

# The same of RC Link: share, opcode, payload, priority (preset paxi-standard). Requests are in one of two banks.
RCLINK_REQUESTS = (4, 0, 1344, 3), (4, 0, 1344, 4)
RCLINK_RESPONSE, RCLINK_ACK, RCLINK_CNP = (2, 0, 1344, 2), (4, 1, 0, 6), (1, 2, 0, 5)
RCLINK_KINDS = (*RCLINK_REQUESTS, RCLINK_RESPONSE, RCLINK_ACK, RCLINK_CNP)
# AFH says in an octet what kind of frame this is and its priority: a request of the first bank.
AFH_TRAFFIC_CLASS = 3 << 2
AFH_FLAGS = 0x82


# Frames in which a station moves to the other port and back: a millisecond at 20 million per second.
MOVES = 20480


@dataclass(frozen=True)
class Slot:
    """One place of a capture: its port and number, and which station sends to which one of which other port."""

    rng: random.Random
    port: int
    number: int
    source: int
    destination: int
    to: int

    def macs(self):
        return mac(self.to, self.destination), mac(self.port, self.source)


def mac(port, station):
    return bytes([2, 0, 0, station >> 8, port, station & 0xFF])


def ip(port, station):
    return bytes([10, station >> 8, port, station & 0xFF])


def in_turn(_, count, stations):
    """Pairs of stations one after the other, as many as a port has stations."""
    return [(n % stations, n * 7 % stations) for n in range(count)]


def at_random(rng, count, stations):
    """Source and destination of each frame independent of one another; but every station sends at least once."""
    sources = [*range(stations), *rng.choices(range(stations), k=count - stations)]
    rng.shuffle(sources)
    return [(source, rng.randrange(stations)) for source in sources]


def internet_checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def ethernet(slot, ethertype, packet, pcp=None):
    return not_padded(slot, ethertype, packet, pcp).ljust(SHORTEST - FCS, b"\0")


def not_padded(slot, ethertype, packet, pcp=None):
    """As veth, tap and virtio bring it, which are no wire."""
    tag = b"" if pcp is None else struct.pack("!HH", 0x8100, pcp << 13 | VLAN)
    return b"".join((*slot.macs(), tag, struct.pack("!H", ethertype), packet))


def ipv4(slot, datagram, dscp=0, ecn=0):
    head = struct.pack("!BBHHHBBH", 0x45, dscp << 2 | ecn, 20 + len(datagram), slot.number, 0, 64, 17, 0)
    head += ip(slot.port, slot.source) + ip(slot.to, slot.destination)
    return head[:10] + struct.pack("!H", internet_checksum(head)) + head[12:] + datagram


def udp(slot, payload, port=9, checksum=0):
    return struct.pack("!HHHH", 1024 + slot.source, port, 8 + len(payload), checksum) + payload


def plain(slot, size=64, dscp=0, pcp=None, ecn=0):
    """IPv4 and UDP, with or without an 802.1Q tag."""
    headers = 14 + (0 if pcp is None else 4) + 20 + 8
    return ethernet(slot, 0x0800, ipv4(slot, udp(slot, bytes(size - FCS - headers)), dscp, ecn), pcp)


def short(slot):
    """UDP with 0 to 17 bytes, the shortest packets that people send: frames of 42 to 59 bytes without FCS."""
    return not_padded(slot, 0x0800, ipv4(slot, udp(slot, bytes(slot.rng.randrange(18)))))


def at_dscp(choose):
    return lambda slot: plain(slot, dscp=choose(slot))


def of_sizes(*sizes):
    return lambda slot: plain(slot, slot.rng.choice(sizes))


def any_class(slot):
    """Class Selectors: with OF_DSCP each is a class."""
    return plain(slot, dscp=8 * slot.rng.randrange(CLASSES))


def tagged(choose):
    return lambda slot: plain(slot, pcp=choose(slot))


def roaming(slot):
    """One frame in MOVES of the second port comes from the first station of the other one, which is back with its next frame."""
    frame = plain(slot)
    return frame[:6] + mac(0, 0) + frame[12:] if (slot.port, slot.number) == (1, MOVES // 2) else frame


def imix(slot):
    """Best effort, bulk, RoCE and CNPs: classes 0, 1, 3 and 6."""
    size = slot.rng.choices((64, 594, 1518), weights=(7, 4, 1))[0]
    return plain(slot, size, dscp=slot.rng.choice((0, 10, 26, CNP_DSCP)))


def ipv6(slot):
    """IPv6 and UDP without payload: two bytes more than the shortest frame has room for."""
    address = lambda port, station: bytes([0xFD, *bytes(11), *ip(port, station)])
    addresses = address(slot.port, slot.source) + address(slot.to, slot.destination)
    checksum = internet_checksum(addresses + struct.pack("!II", 8, 17) + udp(slot, b""))
    return ethernet(slot, 0x86DD, struct.pack("!IHBB", 6 << 28, 8, 17, 64) + addresses + udp(slot, b"", checksum=checksum))


def ect(slot):
    return plain(slot, ecn=ECT0)


def any_ecn(slot):
    """Not ECT, ECT(0), ECT(1) or CE: what comes from other switches that mark."""
    return plain(slot, ecn=slot.rng.randrange(4))


def arp(slot):
    macs = slot.macs()
    request = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + macs[1] + ip(slot.port, slot.source)
    return ethernet(slot, 0x0806, request + bytes(6) + ip(slot.to, slot.destination))


def other(slot):
    """An EtherType that no switch knows."""
    return ethernet(slot, 0x88B5, bytes(46))


def any_kind(slot):
    """Frames of one class that have nothing in common but that."""
    return slot.rng.choice((any_ecn, ipv6, arp, other))(slot)


def broadcast(slot):
    return bytes([0xFF] * 6) + plain(slot)[6:]


def to_everybody(frame):
    return lambda slot: bytes([0xFF] * 6) + frame(slot)[6:]


def one_in(share, frame, others):
    """Every so many frames one of the first kind."""
    return lambda slot: (others if slot.number % share else frame)(slot)


def one_of(slot, kinds):
    """One of these at random, the first number of each being its share."""
    return slot.rng.choices(kinds, weights=[kind[0] for kind in kinds])[0]


def roce(slot):
    """RoCEv2. What stands behind the BTH is zero, the ICRC too: a switch looks at neither."""
    kind = one_of(slot, ROCE_KINDS)
    _, opcode, length = kind
    dscp = CNP_DSCP if kind is ROCE_CNP else 8 * slot.rng.randrange(CLASSES)
    bth = struct.pack("!BBHII", opcode, 0, 0xFFFF, slot.destination, slot.number)
    return ethernet(slot, 0x0800, ipv4(slot, udp(slot, bth + bytes(length) + bytes(4), ROCE_PORT), dscp, ECT0))


def reliability_header(slot, opcode):
    """The RH of RC Link: opcode, PSN and queue pair."""
    return struct.pack("!Q", opcode << 62 | (slot.number & 0xFFF) << 13 | slot.destination)


def rclink(slot):
    """RC Link in Standard frames: DSCP and PCP say the priority."""
    _, opcode, length, priority = one_of(slot, RCLINK_KINDS)
    datagram = udp(slot, reliability_header(slot, opcode) + bytes(length), ROCE_PORT)
    return ethernet(slot, 0x0800, ipv4(slot, datagram, priority, ECT0), priority)


def afh_gen1(slot):
    """The traffic class takes the place of the top byte of the source."""
    destination, source = slot.macs()
    return destination + bytes([AFH_TRAFFIC_CLASS]) + source[1:] + afh_payload(slot)


def afh_gen2(slot):
    """Flags and traffic class, each with a station of 16 bits."""
    return afh_compressed(slot) + afh_payload(slot)


def afh_lite(slot):
    """As GEN2, but the payload follows at once. OVS takes its first two bytes for an EtherType; they are zero."""
    return afh_compressed(slot) + bytes(SHORTEST - FCS - 12)


def afh_compressed(slot):
    destination, source = slot.macs()
    return bytes([AFH_FLAGS, 0, 0, 0, *destination[4:], AFH_TRAFFIC_CLASS, 0, 0, 0, *source[4:]])


def afh_payload(slot):
    return (struct.pack("!H", 0x88B5) + reliability_header(slot, 0)).ljust(SHORTEST - FCS - 12, b"\0")


def to_strangers(slot):
    """For stations that nobody has heard of."""
    return mac(2, slot.destination) + plain(slot)[6:]


def to_neighbours(slot):
    """For stations behind the port it comes by."""
    return mac(slot.port, slot.destination) + plain(slot)[6:]


def from_loop(slot):
    """One station, which is heard at both ports in turn."""
    return plain(slot)[:6] + mac(0, 0) + plain(slot)[12:]


def in_vlan(vlan, frame=plain):
    """With a tag of this VLAN."""
    return lambda slot: (lambda bytes: bytes[:12] + struct.pack("!HH", 0x8100, vlan) + bytes[12:])(frame(slot))


def in_any_vlan(vlans, frame=plain):
    return lambda slot: in_vlan(slot.rng.choice(vlans), frame)(slot)


def untagged_or_tagged(vlan, frame=plain):
    """From the first port without a tag, from the second one with one."""
    return lambda slot: in_vlan(vlan, frame)(slot) if slot.port else frame(slot)


def multicast(slot):
    return bytes([1, 0, 0x5E, 0, 1, slot.destination]) + plain(slot)[6:]


def runt(slot):
    """Cut off within its headers."""
    return plain(slot)[: slot.rng.randrange(1, 14)]


def garbage(slot):
    """Any bytes; a source that is no group, or every second one would be dropped for that."""
    bytes_ = bytearray(slot.rng.randbytes(SHORTEST - FCS))
    bytes_[0] &= 0xFE
    bytes_[6] &= 0xFE
    return bytes(bytes_)


def malformed(slot):
    """IPv4 that says it is longer than its frame."""
    return plain(slot)[:16] + struct.pack("!H", 1500) + plain(slot)[18:]


def from_group(slot):
    return plain(slot)[:6] + bytes([0xFF] * 6) + plain(slot)[12:]


def link_local(number):
    """For a reserved address."""
    return lambda slot: bytes([1, 0x80, 0xC2, 0, 0, number]) + ethernet(slot, 0x88B5, bytes(46))[6:]


def flow_control(slot):
    """A PFC frame in 32: priority 3 is paused, or not."""
    if slot.number % 32:
        return plain(slot, dscp=26)
    times = [0xFFFF * slot.rng.randrange(2) if priority == 3 else 0 for priority in range(CLASSES)]
    header = bytes.fromhex("0180c2000001") + slot.macs()[1] + struct.pack("!HHH", 0x8808, 0x0101, 1 << 3)
    return header + struct.pack("!8H", *times) + bytes(26)


def flows_of_stations(slot):
    """Many UDP flows between the same stations."""
    return ethernet(slot, 0x0800, ipv4(slot, struct.pack("!HHHH", slot.rng.randrange(1024, 65536), 9, 8, 0)))


OF_DSCP = "dscp_to_tc = {{ {} }}\n".format(", ".join(f'"{8 * n}-{8 * n + 7}" = {n}' for n in range(CLASSES)))
OF_PCP = 'trust = ["pcp"]\npcp_to_tc = {{ {} }}\n'.format(", ".join(f'"{n}" = {n}' for n in range(CLASSES)))

# The bits of a MAC address that are the station, where they are not all of it. Such stations are not learnt: weir does
# not by default, and OVS cannot, since the other bits are not the same in a source and a destination.
STATION_BITS = {"afh_gen1": 0xFF_FFFF_FFFF, "afh_gen2_16b": 0xFFFF, "afh_lite": 0xFFFF}


@dataclass(frozen=True)
class Mix:
    """Traffic that comes to both ports of a switch, and what weir and OVS have to be told for it."""

    name: str
    about: str
    frame: Callable[[Slot], bytes]
    order: Callable = in_turn
    # Of each port.
    stations: int = 64
    frames: int = 1024
    # weir's configuration: preset and format, lines of [qos] and [buffer], and what leaves a port is held to, Mbit/s.
    preset: str = "roce-lossless"
    format: str = "standard"
    qos: str = ""
    buffer: str = 'size = "8MiB"\n'
    rate: int = FULL_RATE
    # Other lines of [port_defaults], of each of the two ports, and behind them: further ports, which receive nothing, and tables.
    ports: str = ""
    each: tuple[str, str] = ("", "")
    rest: str = ""
    # How many ports send, from the first on, and to which one a frame goes that came by one of them.
    senders: int = 2
    to: Callable = lambda _, port: 1 - port
    # Ports whose stations send nothing, and cannot be learnt.
    silent: tuple[int, ...] = ()
    # Options of `weir bench pipeline`.
    options: tuple[str, ...] = ()

    def capture(self, rng, port):
        ways = self.order(rng, self.frames, self.stations)
        return [self.frame(Slot(rng, port, n, *way, self.to(rng, port))) for n, way in enumerate(ways)]

    def write(self, folder):
        """Writes the captures of the ports that send, `NAME-0.pcap` and so on."""
        folder.mkdir(parents=True, exist_ok=True)
        rng = random.Random(SEED)
        for port, path in enumerate(self.captures(folder)):
            with open(path, "wb") as out:
                out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
                for n, frame in enumerate(self.capture(rng, port)):
                    out.write(struct.pack("<IIII", 0, n, len(frame), len(frame)) + frame)

    def captures(self, folder):
        """Where they are."""
        return [folder / f"{self.name}-{port}.pcap" for port in range(self.senders)]

    def configuration(self):
        """weir's configuration: bench/side-by-side.toml with what this mix needs."""
        text = BASE.read_text()
        for old, new in (
            ("bench/pairs-", f"bench/{self.name}-"),
            ('preset = "roce-lossless"\n', f'preset = "{self.preset}"\n{self.qos}'),
            ('size = "8MiB"\n', self.buffer),
            ('rate = "100G"\n', f'rate = "{self.rate}M"\nformat = "{self.format}"\n{self.ports}'),
        ):
            assert old in text
            text = text.replace(old, new)
        for port, lines in enumerate(self.each):
            text = text.replace(f'name = "p{port}"\n', f'name = "p{port}"\n{lines}')
        return text + self.rest + "".join(f'\n[[fdb.static]]\nkey = {key}\nport = "p{port}"\n' for port, key in self.known())

    def known(self):
        """Port and address of the stations that a switch has to be told."""
        bits = STATION_BITS.get(self.format, (1 << 48) - 1)
        ports = range(self.senders) if self.format in STATION_BITS else self.silent
        return [(port, int.from_bytes(mac(port, n), "big") & bits) for port in ports for n in range(self.stations)]

    def flows(self):
        """OpenFlow rules for OVS, which numbers ports from 1: one for each station that it is told, or to learn."""
        colons = lambda address: address.to_bytes(6, "big").hex(":")
        rule = "dl_dst={}/{},actions={}".format
        told = [rule(colons(key), colons(STATION_BITS[self.format]), port + 1) for port, key in self.known()]
        return told or ["actions=NORMAL"]

    def policer(self):
        """Options of an egress-policer of OVS that lets as many of the shortest frames out as weir's shaper does at `rate`.

        It counts IP packets; the shaper also counts what is around them on the wire.
        """
        if self.rate >= FULL_RATE:
            return []
        ip_bytes = SHORTEST - FCS - 14
        return [f"other-config:cir={self.rate * 1_000_000 // 8 * ip_bytes // (SHORTEST + 20)}", "other-config:cbs=65536"]


in_classes = at_dscp(lambda slot: slot.number % CLASSES * 8)
any_dscp = at_dscp(lambda slot: slot.rng.randrange(64))
any_pcp = tagged(lambda slot: slot.rng.randrange(CLASSES))

# Four lossless groups per port need more headroom than one.
AFH = {"preset": "paxi-lite", "buffer": 'size = "32MiB"\n'}
# Long frames do come faster than 100 Gbit/s: ports of 100G would drop some of them.
LONG = {"rate": 2 * FULL_RATE, "buffer": 'size = "16MiB"\n'}
RCLINK = {"preset": "paxi-standard", "format": "paxi_standard", "rate": 2 * FULL_RATE,
          "buffer": 'size = "32MiB"\nover_subscribe_ratio = 2\n'}
# The captures take their frames from the same memory as the buffer.
MANY = {"stations": 4096, "frames": 8192, "buffer": 'size = "16MiB"\n'}

MIXES = {
    mix.name: mix
    for mix in (
        Mix("pairs", "64 pairs of stations in turn, one class", plain),
        Mix("classes8", "the same, 8 priorities in turn", in_classes, qos=OF_DSCP),
        Mix("random64", "64 x 64 stations at random", plain, at_random),
        Mix("random512", "512 x 512 stations at random", plain, at_random, 512),
        Mix("dscp512", "the same, DSCP at random over 64 values", any_dscp, at_random, 512, qos=OF_DSCP),
        Mix("dscp4096", "4096 x 4096 stations, DSCP at random", any_dscp, at_random, qos=OF_DSCP, **MANY),
        Mix("imix", "64, 594 and 1518 bytes 7:4:1, 4 classes, 64 stations at random", imix, at_random, qos=OF_DSCP),
        Mix("moving", "64 pairs in turn, and every millisecond a station moves to the other port and back", roaming, frames=MOVES,
            buffer='size = "32MiB"\n'),
        Mix("tag", "64 pairs in turn, one 802.1Q tag, one PCP", tagged(lambda _: 5), qos=OF_PCP),
        Mix("pcp", "tagged, 8 PCPs at random, 64 stations at random", any_pcp, at_random, qos=OF_PCP),
        Mix("ipv6", "64 pairs in turn, IPv6 with UDP: 66 bytes", ipv6),
        Mix("afh-gen2", "64 pairs in turn, AFH_GEN2 with stations of 16 bits", afh_gen2, format="afh_gen2_16b", **AFH),
        Mix("long", "1086 bytes, 64 stations at random", lambda slot: plain(slot, 1086), at_random, **LONG),
        # 74 000 frames per second; some 7 million come to each port.
        Mix("overload", "64 pairs in turn, 100 times the rate of the egress port: nearly all dropped", plain, rate=50),
        Mix("ecn", "64 x 64 stations at random, the ECN field, too", any_ecn, at_random),
        Mix("kinds", "64 x 64 stations at random, IPv4 with any ECN field, IPv6, ARP and an unknown EtherType in one class", any_kind,
            at_random),
        Mix("broadcast", "broadcasts of 64 stations", broadcast, at_random),
        Mix("storm", "the same, of which 100 Mbit/s may pass: nearly all dropped", broadcast, at_random,
            ports='storm_control = { broadcast = "100M" }\n'),
        Mix("roce", "RoCEv2: data, ACK, CNP, READ request and response; 8 classes, 64 stations at random", roce, at_random,
            qos=OF_DSCP, **LONG),
        Mix("afh-gen1", "64 pairs in turn, AFH_GEN1", afh_gen1, format="afh_gen1", **AFH),
        Mix("afh-lite", "64 pairs in turn, AFH_Lite", afh_lite, format="afh_lite", **AFH),
        Mix("rclink", "RC Link: request, response, ACK, CNP; tagged, 4 classes, 64 stations at random", rclink, at_random,
            **RCLINK),
    )
}

def to_any_of(ports):
    return lambda rng, port: rng.choice([to for to in range(ports) if to != port])


def to_last(_, __):
    """Two ports send to the third."""
    return 2


def further(ports, keys=""):
    """Ports behind the first two."""
    return "".join(f'\n[[port]]\nname = "p{n}"\ndevice = "net_null{n}"\n{keys}' for n in range(2, ports))


def groups(count, ports):
    """Multicast groups, as `multicast` names them, each with half of the ports behind the first."""
    rng = random.Random(1)
    members = lambda: ", ".join(f'"p{n}"' for n in sorted(rng.sample(range(1, ports), ports // 2)))
    entry = '\n[[fdb.group]]\nmac = "01:00:5e:00:01:{:02x}"\nports = [{}]\n'
    return "".join(entry.format(number, members()) for number in range(count))


THIRD = '\n[[port]]\nname = "p2"\ndevice = "net_null2"\n'
FOURTH = '\n[[port]]\nname = "p3"\ndevice = "net_null3"\n'
# Four ports need more headroom than two.
WIDE = 'size = "16MiB"\n'
ACCESS, TRUNK = "vlan = { access = 10 }\n", 'vlan = { trunk = "10" }\n'
TRUNKS = 'vlan = { trunk = "10-17", native = 10 }\n'
VLANS = {"each": (ACCESS, "mtu = 1604\n" + TRUNK)}
MIRROR = '\n[[mirror]]\nname = "m"\nports = "p0"\n'
UNLIMITED = 'storm_control = { broadcast = "90G", unknown_unicast = "90G", multicast = "90G" }\n'
MANY_STATIONS = "\n[fdb]\ncapacity = 32768\n"
TOO_MANY = "\n[fdb]\ncapacity = 64\n"
LAG = '\n[[lag]]\nname = "l"\nmembers = ["p1", "p2"]\n'
EARLY_DROP = """
[[wred]]
name = "early"
kmin = "1MB"
kmax = "2MB"
wred_drop = true

[[queue]]
queues = 0
wred = "early"
"""
MARKED = """
[[wred]]
name = "marked"
kmin = "1KB"
kmax = "10MB"

[[queue]]
queues = 0
wred = "marked"
"""

TO_31 = {"senders": 1, "silent": (1,), "buffer": 'size = "256MiB"\n', "rest": further(32)}
TO_THIRD = {"to": to_last, "silent": (2,), "rate": 4 * FULL_RATE, "buffer": 'size = "64MiB"\n'}

SITUATIONS = {
    mix.name: mix
    for mix in (
        Mix("mesh", "four ports, each frame for a station of any other one, 64 stations at random", plain, at_random, senders=4, to=to_any_of(4),
            buffer=WIDE, rest=THIRD + FOURTH),
        Mix("mesh32", "the same with 32 ports", plain, at_random, senders=32, to=to_any_of(32), buffer='size = "256MiB"\n', rest=further(32)),
        Mix("incast", "two ports send to a third one", plain, at_random, rest=THIRD, **TO_THIRD),
        Mix("incast-kinds", "the same, 64, 594 and 1518 bytes, 4 classes", imix, at_random, qos=OF_DSCP, rest=THIRD, **TO_THIRD),
        Mix("incast-marked", "the same as `incast`, ECT, to a queue whose depth marks some", ect, at_random, rest=THIRD + MARKED, **TO_THIRD),
        Mix("marked", "64 pairs in turn, ECT, to queues whose depth marks some", ect, rest=MARKED),
        Mix("unpadded", "64 pairs in turn, shorter than any frame on a wire: UDP with 0 to 17 bytes", short),
        Mix("three-tags", "64 pairs in turn, three tags", in_vlan(20, in_vlan(20, in_vlan(20)))),
        Mix("stations8192", "8192 x 8192 stations at random", plain, at_random, 8192, 16384, buffer='size = "32MiB"\n', rest=MANY_STATIONS),
        Mix("access", "64 pairs in turn, both ports in one VLAN, no tags", plain, ports=ACCESS),
        Mix("push-pop", "the same, the second port with tags: one is pushed or popped", untagged_or_tagged(10), **VLANS),
        Mix("vlan-flood", "broadcasts of 64 stations to a port of each kind, with tags and without", untagged_or_tagged(10, broadcast), at_random,
            **VLANS, buffer=WIDE, rest=THIRD + ACCESS + FOURTH + 'mtu = 1604\n' + TRUNK),
        Mix("vlan-other", "tagged with a VLAN that the ports are no members of", in_vlan(20), ports=TRUNK),
        Mix("lag-l2", "64 pairs in turn, the second port in a LAG by MAC addresses", plain, rest=THIRD + LAG + 'hash = "l2"\n'),
        Mix("lag-l4", "many flows of 64 pairs, the second port in a LAG by flow", flows_of_stations, rest=THIRD + LAG),
        Mix("lag-flood", "broadcasts of 64 stations where the second port is in a LAG by flow", broadcast, at_random, buffer=WIDE, rest=THIRD + LAG + FOURTH),
        Mix("limits", "64 pairs in turn, with limits to what is flooded", plain, ports=UNLIMITED),
        Mix("flood", "64 stations for 64 that nobody knows, to three ports", to_strangers, at_random, buffer=WIDE, rest=THIRD + FOURTH),
        Mix("flood-limit", "the same, of which 100 Mbit/s may pass", to_strangers, at_random, buffer=WIDE, rest=THIRD + FOURTH,
            ports='storm_control = { unknown_unicast = "100M" }\n'),
        Mix("flood-drop", "the same, dropped", to_strangers, at_random, ports='unknown_unicast = "drop"\n'),
        Mix("multicast", "64 stations for 64 groups, to three ports", multicast, at_random, buffer=WIDE, rest=THIRD + FOURTH),
        Mix("copies", "broadcasts, one of 32 ports sends", broadcast, at_random, **TO_31),
        Mix("copies-lengths", "the same, of 64, 128 and 300 bytes at random", to_everybody(of_sizes(64, 128, 300)), at_random, **TO_31),
        Mix("copies-classes", "the same, of 8 classes at random", to_everybody(any_class), at_random, qos=OF_DSCP, **TO_31),
        Mix("copies-vlans", "the same, of 8 VLANs at random, all ports are members of each", in_any_vlan(range(10, 18), broadcast), at_random,
            ports=TRUNKS, **TO_31 | {"rest": further(32, TRUNKS)}),
        Mix("copies-groups", "for 64 multicast groups at random, each of which has 16 of the other 31 ports", multicast, at_random,
            **TO_31 | {"rest": further(32) + groups(64, 32)}),
        Mix("copies-half", "every second frame is broadcast, the others are for stations of the second port", one_in(2, broadcast, plain), at_random, **TO_31),
        Mix("copies-tenth", "every tenth frame is broadcast", one_in(10, broadcast, plain), at_random, **TO_31),
        Mix("neighbours", "for stations behind the port it came by", to_neighbours, at_random),
        Mix("loop", "64 pairs in turn, one station heard at both ports", from_loop),
        Mix("fdb-full", "256 x 256 stations at random, of which the table holds 64: most is flooded, to three ports", plain, at_random, 256,
            buffer=WIDE, rest=THIRD + FOURTH + TOO_MANY),
        Mix("learn-limit", "the same, where a port may have 64", plain, at_random, 256, ports="learn_limit = 64\n", buffer=WIDE, rest=THIRD + FOURTH),
        Mix("early-drop", "64 pairs in turn, a class of which is dropped early", plain, rest=EARLY_DROP),
        Mix("early-drop-some", "64 pairs in turn, to queues whose depth drops some early", plain,
            rest=EARLY_DROP.replace("1MB", "1KB").replace("2MB", "64KB")),
        Mix("early-drop-overload", "the same, 100 times the rate of the egress port: nearly all dropped early", plain, rate=50,
            rest=EARLY_DROP.replace("1MB", "10KB").replace("2MB", "100KB")),
        Mix("mirror", "64 pairs in turn, what the first port receives and sends is copied to a third one", plain, rest=THIRD + MIRROR + 'to = "p2"\n'),
        Mix("mirror-none", "the same with a filter that nothing meets", plain, rest=THIRD + MIRROR + 'to = "p2"\nfilter = { udp_port = 1 }\n'),
        Mix("mirror-file", "the same into a file, 64 bytes of each", plain, rest=MIRROR + 'file = "/tmp/weir-bench.pcapng"\nsnaplen = 64\n'),
        Mix("trace-mac", "64 pairs in turn, while frames of the first port for another station are followed", plain,
            options=("--trace", "--dst", "02:00:00:00:00:99")),
        Mix("trace-udp", "the same, frames of another UDP port", plain, options=("--trace", "--udp-port", "1")),
        Mix("apply", "the same as `dscp4096`; before every 32768 frames the configuration is applied anew", any_dscp, at_random, qos=OF_DSCP, **MANY,
            options=("--apply",)),
        Mix("admin-down", "to ports that are switched off", plain, ports='admin = "down"\n'),
        Mix("runts", "frames cut off within their headers", runt),
        Mix("garbage", "any bytes, of stations that are never heard again", garbage),
        Mix("malformed", "IPv4 that says it is longer than its frame", malformed),
        Mix("from-group", "frames whose source is a group", from_group),
        Mix("too-long", "longer than the MTU", lambda slot: plain(slot, 1700), **LONG),
        Mix("bpdu", "link-local frames that are passed on, to three ports", link_local(0), buffer=WIDE, rest=THIRD + FOURTH),
        Mix("link-local", "link-local frames that are dropped", link_local(4)),
        Mix("pfc", "64 pairs in turn, a PFC frame in 32", flow_control, qos=OF_DSCP),
    )
}
