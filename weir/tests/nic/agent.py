"""In the guest: runs shell commands that come as JSON lines through a virtio port, one at a time.

{"id": N, "run": TEXT, "seconds": N} is answered with {"id": N, "code": N, "output": TEXT}; 124 is the code of a command that took too long.
"""
import json
import os
import signal
import subprocess
import sys
import time

port = os.open(sys.argv[1], os.O_RDWR)


def run(command, seconds):
    process = subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=seconds)
        code = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        code = 124
    return code, output.decode("utf-8", "replace")


def answer(reply):
    data = json.dumps(reply).encode() + b"\n"
    while data:
        try:
            data = data[os.write(port, data[:4096]):]
        except OSError:  # Nobody is connected.
            time.sleep(0.05)


pending = b""
while True:
    try:
        chunk = os.read(port, 65536)
    except OSError:
        chunk = b""
    if not chunk:  # Nobody is connected.
        time.sleep(0.05)
    pending += chunk
    *lines, pending = pending.split(b"\n")
    for line in lines:
        try:
            asked = json.loads(line)
        except ValueError:
            continue
        code, output = run(asked["run"], asked["seconds"])
        answer({"id": asked["id"], "code": code, "output": output})
