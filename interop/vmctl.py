#!/usr/bin/env python3
"""Talk to the agent in a lab guest (see guest/labagent.py).

vmctl.py NAME wait [SECONDS]          until the agent answers
vmctl.py NAME run [-t SECONDS] CMD    run a shell command; its output, its status
vmctl.py NAME bg LOG CMD              run in the background, output to LOG
vmctl.py NAME get GUESTPATH HOSTPATH  copy a file out
vmctl.py NAME put HOSTPATH GUESTPATH  copy a file in
vmctl.py NAME quit                    power off the guest

NAME's endpoint is $INTEROP_RUN/NAME.agent: a unix socket (QEMU virtio-serial) or a
tty (UML serial line), or a link to one.
"""
import base64
import fcntl
import json
import os
import random
import select
import socket
import stat
import sys
import termios
import time
import tty

RUN = os.environ.get("INTEROP_RUN", "/tmp/weir-interop/run")


class Agent:
    def __init__(self, name):
        self.path = os.path.realpath(os.path.join(RUN, name + ".agent"))
        # one client at a time: the line is shared
        self.lockf = open(os.path.join(RUN, name + ".lock"), "w")
        fcntl.flock(self.lockf, fcntl.LOCK_EX)
        st = os.stat(self.path)
        if stat.S_ISSOCK(st.st_mode):
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(self.path)
            self.fd = self.sock.fileno()
        else:
            self.fd = os.open(self.path, os.O_RDWR | os.O_NOCTTY)
            tty.setraw(self.fd, termios.TCSANOW)
        self.buf = b""

    def write(self, data):
        while data:
            n = os.write(self.fd, data[:1024])
            data = data[n:]

    def readline(self, until):
        while b"\n" not in self.buf:
            left = until - time.time()
            if left <= 0:
                return None
            r, _, _ = select.select([self.fd], [], [], left)
            if not r:
                return None
            try:
                b = os.read(self.fd, 65536)
            except OSError:
                b = b""
            if not b:
                return None
            self.buf += b
        line, self.buf = self.buf.split(b"\n", 1)
        return line

    def ask(self, req, timeout):
        req["id"] = random.randrange(1 << 48)
        self.write(b"\n" + json.dumps(req).encode() + b"\n")
        until = time.time() + timeout
        while True:
            line = self.readline(until)
            if line is None:
                return None
            try:
                rep = json.loads(line)
            except ValueError:
                continue
            if isinstance(rep, dict) and rep.get("id") == req["id"] \
                    and "rc" in rep:
                return rep


def main(a):
    if len(a) < 3:
        sys.exit(__doc__)
    name, verb, rest = a[1], a[2], a[3:]
    if verb == "wait":
        until = time.time() + float(rest[0] if rest else 60)
        while time.time() < until:
            try:
                if Agent(name).ask({"ping": 1}, 2):
                    return 0
            except OSError:
                pass
            time.sleep(0.2)
        print("no answer from", name, file=sys.stderr)
        return 1
    timeout = 60.0
    if rest and rest[0] == "-t":
        timeout = float(rest[1])
        rest = rest[2:]
    ag = Agent(name)
    if verb == "run":
        rep = ag.ask({"cmd": " ".join(rest), "timeout": timeout}, timeout + 15)
        if rep is None:
            print("no answer from", name, file=sys.stderr)
            return 125
        sys.stdout.write(rep["out"])
        return rep["rc"] if 0 <= rep["rc"] < 256 else 1
    if verb == "bg":
        cmd = "setsid sh -c '%s' >%s 2>&1 </dev/null & echo $!" % (
            " ".join(rest[1:]).replace("'", "'\\''"), rest[0])
        rep = ag.ask({"cmd": cmd, "timeout": 20}, 30)
    elif verb == "get":
        rep = ag.ask({"get": rest[0]}, 300)
        if rep and "data" in rep:
            with open(rest[1], "wb") as f:
                f.write(base64.b64decode(rep["data"]))
    elif verb == "put":
        with open(rest[0], "rb") as f:
            d = base64.b64encode(f.read()).decode()
        rep = ag.ask({"put": rest[1], "data": d,
                      "mode": os.stat(rest[0]).st_mode & 0o777}, 300)
    elif verb == "quit":
        ag.ask({"cmd": "busybox sync; busybox poweroff -f", "timeout": 5}, 1)
        return 0
    else:
        sys.exit(__doc__)
    if rep is None:
        print("no answer from", name, file=sys.stderr)
        return 125
    if rep.get("out"):
        sys.stdout.write(rep["out"])
    return 0 if rep["rc"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
