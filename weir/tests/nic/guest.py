"""A QEMU guest with emulated NICs on taps, hugepages and an IOMMU; without KVM, so slow."""
import base64
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time

from image import sh

OFFLOADS = "csum,gso,guest_csum,guest_tso4,guest_tso6,guest_ufo,host_tso4,host_tso6,host_ufo"
# QEMU's device and its options. What stands on a conventional PCI bus cannot be unplugged.
DEVICES = {
    "e1000e": "e1000e",
    "e1000": "e1000",
    "igb": "igb",
    "vmxnet3": "vmxnet3",
    "virtio": "virtio-net-pci,disable-legacy=on,iommu_platform=on,mrg_rxbuf=on,speed=1000,duplex=full"
              + "".join(f",{name}=off" for name in OFFLOADS.split(",")),
}
CONVENTIONAL = ("e1000",)
QEMU = os.environ.get("QEMU", "qemu-system-x86_64")
# Longest frame the taps carry, without its Ethernet header.
TAP_MTU = 9500
# Memory of each node, MiB, and pages of 2 MiB, of which each node has half.
NODE, HUGEPAGES = 1536, 900


def has_device(nic):
    """This QEMU emulates the NIC."""
    return f'name "{DEVICES[nic].split(",")[0]}"' in sh(QEMU, "-device", "help")


class Guest:
    """Boots with two NICs of a kind; NIC i is on tap nic<i> and, unless conventional, on memory node i, as cores 1 and 2 are. Its agent runs
    one command at a time."""

    def __init__(self, cache, initramfs, nic):
        self.folder = tempfile.mkdtemp(prefix="weir-nic.")
        devices = []
        for i in range(2):
            tap = f"nic{i}"
            sh("ip", "tuntap", "add", "dev", tap, "mode", "tap", "vnet_hdr")
            with open(f"/proc/sys/net/ipv6/conf/{tap}/disable_ipv6", "w", encoding="ascii") as off:
                off.write("1")
            sh("ip", "link", "set", tap, "mtu", str(TAP_MTU), "txqueuelen", "10000", "up")
            bus = f"bus=pcie.0,addr=0x{16 + i:x}"
            if nic not in CONVENTIONAL:
                devices += ["-device", f"pxb-pcie,id=node{i},numa_node={i},bus_nr={64 + 32 * i},{bus}",
                            "-device", f"pcie-root-port,id=slot{i},chassis={i},bus=node{i}"]
                bus = f"bus=slot{i}"
            devices += ["-netdev", f"tap,id=net{i},ifname={tap},script=no,downscript=no,vhost=off",
                        "-device", f"{DEVICES[nic]},id=nic{i},netdev=net{i},{bus},romfile=,mac=52:54:00:78:00:{i:02x}"]
        agent, control = (os.path.join(self.folder, name) for name in ("agent", "qmp"))
        self.process = subprocess.Popen(
            [QEMU, "-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max", "-smp", "3", "-m", str(2 * NODE),
             "-object", f"memory-backend-ram,id=memory0,size={NODE}M", "-numa", "node,nodeid=0,cpus=0-1,memdev=memory0",
             "-object", f"memory-backend-ram,id=memory1,size={NODE}M", "-numa", "node,nodeid=1,cpus=2,memdev=memory1",
             "-machine", "q35,kernel-irqchip=off", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
             "-kernel", os.path.join(cache, "vmlinuz"), "-initrd", initramfs,
             "-append", "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check net.ifnames=0 intel_iommu=on iommu=pt "
                        f"hugepages={HUGEPAGES}",
             "-drive", f"if=none,id=disk,file={os.path.join(cache, 'disk')},format=raw,snapshot=on,cache=unsafe",
             "-device", "virtio-blk-pci,drive=disk,bus=pcie.0",
             "-device", "intel-iommu,intremap=off,caching-mode=on",
             "-device", "virtio-serial-pci,bus=pcie.0", "-chardev", f"socket,id=agent,path={agent},server=on,wait=off",
             "-device", "virtserialport,chardev=agent,name=agent", "-serial", f"file:{os.path.join(self.folder, 'console')}",
             "-qmp", f"unix:{control},server=on,wait=off", *devices],
            stdin=subprocess.DEVNULL, stdout=open(os.path.join(self.folder, "qemu"), "wb"), stderr=subprocess.STDOUT)
        self.asked = 0
        try:
            self.control = self.connect("qmp")
            self.agent = self.connect("agent")
            self.qmp("qmp_capabilities")
            self.await_agent(300)
        except OSError as error:
            said = "".join(self.read(name) for name in ("qemu", "console"))
            self.end()
            raise RuntimeError(f"the guest does not answer: {said[-1000:]}") from error
        self.addresses = self.run("cd /sys/bus/pci/devices; grep -l ^0x02 */class | cut -d/ -f1").split()

    def read(self, name):
        """What QEMU, or the guest's kernel, has written."""
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def connect(self, name):
        end = time.monotonic() + 30
        while True:
            try:
                stream = socket.socket(socket.AF_UNIX)
                stream.connect(os.path.join(self.folder, name))
                return stream, stream.makefile("r", encoding="utf-8")
            except OSError:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise
                time.sleep(0.1)

    def await_agent(self, seconds):
        end = time.monotonic() + seconds
        while True:
            try:
                return self.ask("true", 1)
            except TimeoutError:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise
                # A stream that has timed out cannot be read any more.
                self.agent[0].close()
                self.agent = self.connect("agent")

    def ask(self, command, seconds):
        """Exit code and output of a shell command."""
        stream, reader = self.agent
        self.asked += 1
        stream.settimeout(seconds + 60 if seconds > 1 else seconds)
        stream.sendall(b"\n" + json.dumps({"id": self.asked, "run": command, "seconds": seconds}).encode() + b"\n")
        for line in reader:
            # What was asked before, of one that was not up, may be answered late, and in part.
            try:
                reply = json.loads(line)
            except ValueError:
                continue
            if reply["id"] == self.asked:
                return reply["code"], reply["output"]
        raise ConnectionError("the guest has ended")

    def run(self, command, seconds=60):
        """Output of a shell command, whatever its exit code."""
        return self.ask(command, seconds)[1]

    def qmp(self, command, **arguments):
        """QEMU's answer to a command."""
        stream, reader = self.control
        stream.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while True:
            reply = json.loads(reader.readline())
            if "error" in reply:
                raise RuntimeError(f"{command}: {reply['error']['desc']}")
            if "return" in reply:
                return reply["return"]

    def set_link(self, index, up):
        """Plugs a cable in, or out."""
        self.qmp("set_link", name=f"nic{index}", up=up)

    def put(self, path, text):
        """Writes a file."""
        encoded = base64.b64encode(text.encode()).decode()
        self.run(f"echo {encoded} | base64 -d >{path}")

    def bind(self, driver):
        """Gives the NICs to a driver of the kernel: uio_pci_generic, vfio-pci. What they have then."""
        self.run(f"modprobe vfio_iommu_type1 allow_unsafe_interrupts=1; modprobe {driver}")
        for address in self.addresses:
            self.run(f"d=/sys/bus/pci/devices/{address}; echo {driver} >$d/driver_override; "
                     f"[ ! -e $d/driver ] || echo {address} >$d/driver/unbind; echo {address} >/sys/bus/pci/drivers_probe")
        return [self.run(f"basename $(readlink /sys/bus/pci/devices/{a}/driver)").strip() for a in self.addresses]

    def free_hugepages(self):
        """2 MiB pages nobody has, by node."""
        pages = "/sys/devices/system/node/node%d/hugepages/hugepages-2048kB/free_hugepages"
        return [int(self.run(f"cat {pages % node}")) for node in range(2)]

    def registers(self, index, offset, write=None):
        """A register of a NIC, by its offset in the first BAR; `write`: an expression of its value `v` to set it to."""
        change = f"r[{offset // 4}]={write};" if write else ""
        resource = f"/sys/bus/pci/devices/{self.addresses[index]}/resource0"
        text = (f"import mmap,os;r=memoryview(mmap.mmap(os.open('{resource}',os.O_RDWR|os.O_SYNC),16384)).cast('I');"
                f"v=r[{offset // 4}];{change}print(v)")
        return int(self.run(f'python3 -c "{text}"'))

    def end(self):
        """Ends the guest and what belongs to it."""
        self.process.terminate()
        self.process.wait(30)
        for i in range(2):
            subprocess.run(["ip", "link", "del", f"nic{i}"], check=False, capture_output=True)
        shutil.rmtree(self.folder)
