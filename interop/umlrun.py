#!/usr/bin/env python3
"""Run a User-mode Linux guest in the background with its agent line (guest
ttyS1) on a unix socket, as QEMU does for its guests.

umlrun.py NAME [--tap IFNAME] LINUX [ARG...]
                  files in $INTEROP_RUN: NAME.pid NAME.agent NAME.console
--tap: the guest's vec0 is the program end of that tap of the current network
namespace.  (Opened here, without a virtio-net header: UML's own "tap" transport
insists on one, and then puts unsegmented, unchecksummed frames on the wire.)
Ends with the guest; on SIGTERM it ends the guest (and the guest's processes).
"""
import fcntl
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

RUN = os.environ.get("INTEROP_RUN", "/tmp/weir-interop/run")
name, argv = sys.argv[1], sys.argv[2:]
base = os.path.join(RUN, name)
if argv[0] == "--tap":
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, 0x400454ca,            # TUNSETIFF: IFF_TAP | IFF_NO_PI
                struct.pack("16sH22x", argv[1].encode(), 0x1002))
    os.set_inheritable(tap, True)
    argv = argv[2:] + ["vec0:transport=fd,fd=%d,vec=0,mtu=%s" % (
        tap, os.environ.get("INTEROP_MTU", "1500"))]
else:
    tap = None
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
con = open(base + ".console", "wb")
null = open(os.devnull, "rb")
os.dup2(null.fileno(), 0)
os.dup2(con.fileno(), 1)
os.dup2(con.fileno(), 2)
ours, theirs = socket.socketpair()
lst = socket.socket(socket.AF_UNIX)
if os.path.exists(base + ".agent"):
    os.unlink(base + ".agent")
lst.bind(base + ".agent")
lst.listen(1)
fd = theirs.fileno()
os.set_inheritable(fd, True)
os.environ.setdefault("TMPDIR", "/dev/shm")
# A guest that is told of a frame before it has a handler would end without a word: until then it hears nothing.
signal.signal(signal.SIGIO, signal.SIG_IGN)
p = subprocess.Popen(argv + ["ssl1=fd:%d" % fd], close_fds=False,
                     start_new_session=True)
theirs.close()
with open(base + ".pid", "w") as f:
    f.write("%d\n" % os.getpid())


def end(*_):
    # the guest's own processes are traced children in the same session
    try:
        os.killpg(p.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def nudge():
    """The tap driver signals SIGIO before it makes the descriptor readable; a
    guest quick enough to look in between would sleep on that frame until the
    next one.  Look again on its behalf."""
    po = select.poll()
    po.register(tap, select.POLLIN)
    while p.poll() is None:
        if po.poll(500):
            time.sleep(0.001)
            if po.poll(0):
                p.send_signal(signal.SIGIO)


if tap is not None:
    threading.Thread(target=nudge, daemon=True).start()
signal.signal(signal.SIGTERM, end)
client = None
while p.poll() is None:
    fds = [lst, ours] + ([client] if client else [])
    r, _, _ = select.select(fds, [], [], 0.5)
    if lst in r:
        c, _ = lst.accept()
        if client:
            client.close()
        client = c
    if ours in r:
        d = ours.recv(65536)
        if not d:
            break
        if client:
            try:
                client.sendall(d)
            except OSError:
                client.close()
                client = None
    if client and client in r:
        try:
            d = client.recv(512)      # a tty line is 4 KiB of buffer
        except OSError:
            d = b""
        if d:
            ours.sendall(d)
        else:
            client.close()
            client = None
end()
p.wait()
for s in (".agent", ".pid"):
    try:
        os.unlink(base + s)
    except FileNotFoundError:
        pass
