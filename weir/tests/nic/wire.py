"""Raw frames on the taps that are the guest's wires."""
import select
import socket
import struct
import time

SOL_PACKET, PACKET_AUXDATA, PACKET_IGNORE_OUTGOING = 263, 8, 23
PAUSE_ADDRESS = bytes.fromhex("0180c2000001")


class Wire:
    """One end of a cable whose other end is a NIC of the guest."""

    def __init__(self, tap):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self.socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
        self.socket.bind((tap, 0))
        self.tap = tap

    def taken(self):
        """Frames the NIC has taken from the tap."""
        with open("/proc/self/net/dev", encoding="ascii") as devices:
            line = next(line for line in devices if line.strip().startswith(self.tap + ":"))
        return int(line.split(":")[1].split()[9])

    def send(self, frame):
        for _ in range(1000):
            try:
                return self.socket.send(frame)
            except OSError as error:
                if error.errno != 105:  # ENOBUFS
                    raise
                time.sleep(0.001)
        raise TimeoutError("a tap takes no frames")

    def receive(self, seconds=0.0):
        """The next frame with its VLAN tag, which the kernel takes out; None after that long."""
        if not select.select([self.socket], [], [], seconds)[0]:
            return None
        frame, extras, _, _ = self.socket.recvmsg(65536, 256)
        for level, kind, data in extras:
            if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
                status, _, _, _, _, tci, tpid = struct.unpack("IIIHHHH", data[:20])
                if status & 0x10:
                    frame = frame[:12] + struct.pack("!HH", tpid if status & 0x40 else 0x8100, tci) + frame[12:]
        return frame

    def drain(self, quiet=0.3):
        """All frames until none comes for so long."""
        frames = []
        while (frame := self.receive(quiet)) is not None:
            frames.append(frame)
        return frames


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def udp(dst, src, length, dscp=0, number=0, tags=b""):
    """A frame of `length` bytes without FCS, its number in the first 8 bytes of payload."""
    head = dst + src + tags
    room = length - len(head) - 2 - 28
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, dscp << 2 | 2, 28 + room, number & 0xFFFF, 0, 64, 17, 0,
                     bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
    ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    body = struct.pack("!Q", number) + bytes((i * 7 + length) & 255 for i in range(room - 8))
    return head + b"\x08\x00" + ip + struct.pack("!HHHH", 1000, 4791, 8 + room, 0) + body[:room]


def number_of(frame):
    """The number of an untagged one; None: it is none."""
    return struct.unpack("!Q", frame[42:50])[0] if frame[12:14] == b"\x08\x00" and len(frame) >= 50 else None


def raw(dst, src, length):
    return dst + src + b"\x88\xb5" + bytes((i * 3 + length) & 255 for i in range(length - 14))


def pfc(src, priority, quanta):
    times = [quanta if p == priority else 0 for p in range(8)]
    return PAUSE_ADDRESS + src + struct.pack("!HHH8H", 0x8808, 0x0101, 1 << priority, *times) + bytes(26)


def pause_of(frame, priority):
    """Quanta a PFC frame asks for; None: it is none, or not about this priority."""
    if frame[:6] != PAUSE_ADDRESS or frame[12:16] != b"\x88\x08\x01\x01":
        return None
    fields = struct.unpack("!H8H", frame[16:34])
    return fields[1 + priority] if fields[0] >> priority & 1 else None
