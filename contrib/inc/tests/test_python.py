"""The Python package on the library with the device that is not there (tests/fake_verbs.c), and a controller in a thread."""

import json
import os
import socket
import sys
import threading
import unittest
from array import array

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import weir_inc  # noqa: E402

SEAT = {
    "id": 9, "rank": 2, "ranks": 4, "mac": "02:00:00:00:01:00", "ip": "10.0.0.200", "qpn": 258, "send_psn": 5,
    "recv_psn": 77, "mtu": 1024, "window": 64, "dscp": 26, "priority": 3, "order": [2, 0, 1, 3], "tree": [[0, 1], [2, 3]],
}


class Controller:
    """Gives the first ones to come a seat, or refuses them."""

    def __init__(self, answer, hosts=1):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.heard = []
        self.thread = threading.Thread(target=self.serve, args=(answer, hosts), daemon=True)
        self.thread.start()

    def serve(self, answer, hosts):
        connections = []
        for _ in range(hosts):
            connection, _ = self.listener.accept()
            lines = connection.makefile("rw")
            connections.append((connection, lines))
            self.heard.append(json.loads(lines.readline()))
            lines.write(json.dumps(answer) + "\n")
            lines.flush()
        for connection, lines in connections:
            with connection, lines:
                self.heard += [json.loads(line) for line in lines]
        self.listener.close()


def group(controller, **more):
    # The fake device has four ranks from the start.
    return weir_inc.Group(controller.address, token="s3cret", job="train", hosts=4, index=1, window=64, join_timeout=2, **more)


class Tests(unittest.TestCase):
    def test_sums_in_place(self):
        controller = Controller({"seat": SEAT})
        with group(controller) as g:
            self.assertEqual((g.rank, g.ranks, g.order, g.tree), (2, 4, [2, 0, 1, 3], [[0, 1], [2, 3]]))
            data = array("f", [i / 2 for i in range(5000)])
            self.assertEqual(g.allreduce(data), weir_inc.Outcome(4, weir_inc.Flags(0)))
            self.assertEqual(data, array("f", [i * 2.0 for i in range(5000)]))
            whole = array("i", [1, -2, 3])
            g.allreduce(whole)
            self.assertEqual(list(whole), [4, -8, 12])
            g.barrier()
            g.allreduce(array("d", [1.0]), weir_inc.Operator.MAX)
            g.allreduce(bytearray(6), weir_inc.Operator.MIN, weir_inc.Type.BF16)
            g.allreduce(array("f"))
        controller.thread.join(5)
        self.assertEqual([list(line) for line in controller.heard], [["join"], ["leave"]])
        self.assertEqual(controller.heard[0]["join"]["hosts"], 4)

    def test_stripes(self):
        controller = Controller({"seat": SEAT}, 2)
        with group(controller, stripes=2) as g:
            data = array("f", [i / 2 for i in range(5001)])
            self.assertEqual(g.allreduce(data).count, 4)
            self.assertEqual(data, array("f", [i * 2.0 for i in range(5001)]))
            parts = g.stripes(5001)
            self.assertEqual([part.elements for part in parts], [range(0, 2501), range(2501, 5001)])
            self.assertEqual((parts[1].rank, parts[1].tree), (2, SEAT["tree"]))
        controller.thread.join(5)
        self.assertEqual([line["join"]["job"] for line in controller.heard if "join" in line], ["train", "train/1"])

    def test_results_are_written_where_the_controller_is_told(self):
        controller = Controller({"seat": SEAT})
        with group(controller, write_results=True) as g:
            for _ in range(3):
                data = array("f", [i / 2 for i in range(5001)])
                self.assertEqual(g.allreduce(data).count, 4)
                self.assertEqual(data, array("f", [i * 2.0 for i in range(5001)]))
                g.barrier()
        controller.thread.join(5)
        told = controller.heard[0]["join"]
        self.assertEqual((set(told["results_to"]), told["results_to"]["bytes"]), ({"addr", "rkey", "bytes"}, 64 * 1024))
        self.assertNotIn("write", told)

    def test_refusals_are_errors(self):
        with self.assertRaisesRegex(weir_inc.WeirIncError, "the token is wrong"):
            group(Controller({"refused": {"why": "the token is wrong"}}))
        with self.assertRaisesRegex(weir_inc.WeirIncError, "index is 4 of 4"):
            weir_inc.Group("127.0.0.1:1", token="t", job="j", hosts=4, index=4)

    def test_numbers_that_would_become_others_are_errors(self):
        usual = {"token": "t", "job": "j", "hosts": 4, "index": 1}
        for more in ({"hosts": 65537}, {"hosts": -1}, {"index": 65537}, {"window": 2**32 + 64}, {"retry": 263}, {"stripes": 257}, {"mtu": -1}):
            with self.assertRaisesRegex(weir_inc.WeirIncError, next(iter(more)) + " is -?[0-9]+; it is at most"):
                weir_inc.Group("127.0.0.1:1", **{**usual, **more})
        with self.assertRaisesRegex(weir_inc.WeirIncError, "join_timeout is -1"):
            weir_inc.Group("127.0.0.1:1", **usual, join_timeout=-1)
        with self.assertRaisesRegex(weir_inc.WeirIncError, "at most 255 bytes"):
            weir_inc.Group("127.0.0.1:1", **{**usual, "token": "t" * 256})

    def test_buffers_that_cannot_be_folded(self):
        controller = Controller({"seat": SEAT})
        with group(controller) as g:
            for data in (b"1234", memoryview(array("f", range(8)))[::2], array("b", [1]), bytearray(4)):
                with self.assertRaises(TypeError):
                    g.allreduce(data)
            with self.assertRaisesRegex(TypeError, "no whole number of F64"):
                g.allreduce(bytearray(12), type=weir_inc.Type.F64)
        with self.assertRaisesRegex(weir_inc.WeirIncError, "has been left"):
            g.barrier()


if __name__ == "__main__":
    unittest.main(verbosity=2)
