"""The back end of torch.distributed beside gloo: four processes, and a place that folds for them instead of engines."""

import os
import socket
import struct
import sys
import tempfile
import threading
import unittest
import weakref

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402

import weir_inc  # noqa: E402
import weir_inc.torch as back_end  # noqa: E402

SIZE = 4
TYPES = {kind: dtype for dtype, kind in back_end._TYPES.items()} | {weir_inc.Type.U32: torch.int32}
FOLDS = {
    weir_inc.Operator.SUM: torch.add,
    weir_inc.Operator.MAX: torch.maximum,
    weir_inc.Operator.MIN: torch.minimum,
    weir_inc.Operator.PROD: torch.mul,
    weir_inc.Operator.AND: torch.bitwise_and,
    weir_inc.Operator.OR: torch.bitwise_or,
    weir_inc.Operator.XOR: torch.bitwise_xor,
}
HEAD = struct.Struct("<iii")


def receive(connection, count):
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


class Engine:
    """Folds what `size` processes send, in the order of their ranks, and fails once it is told to."""

    def __init__(self, size):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.size = size
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        ranks = {}
        while len(ranks) < self.size:
            connection, _ = self.listener.accept()
            ranks[receive(connection, 1)[0]] = connection
        try:
            while True:
                calls = [(HEAD.unpack(receive(ranks[r], HEAD.size)), ranks[r]) for r in range(self.size)]
                assert len({head for head, _ in calls}) == 1, f"calls differ: {calls}"
                (operator, kind, length), _ = calls[0]
                parts = [bytearray(receive(connection, length)) for _, connection in calls]
                for _, connection in calls:
                    connection.sendall(self.fold(operator, kind, parts))
        except EOFError:
            for connection in (*ranks.values(), self.listener):
                connection.close()

    @staticmethod
    def fold(operator, kind, parts):
        if not parts[0]:
            return b""
        tensors = [torch.frombuffer(part, dtype=TYPES[kind]) for part in parts]
        total = tensors[0]
        for tensor in tensors[1:]:
            total = FOLDS[operator](total, tensor)
        return total.view(torch.uint8).numpy().tobytes()


class Remote:
    """A `weir_inc.Group` whose engine is an `Engine`."""

    def __init__(self, controller, *, token, job, hosts, index, **options):
        assert token == "t" and job.startswith("train-") and options["result_timeout"] > 0, (token, job, options)
        host, port = controller.split(":")
        self.connection = socket.create_connection((host, int(port)))
        self.connection.sendall(bytes([index]))
        self.hosts = hosts

    def call(self, operator, kind, data):
        try:
            self.connection.sendall(HEAD.pack(operator, kind, len(data)) + data)
            return receive(self.connection, len(data))
        except (EOFError, OSError):
            raise weir_inc.WeirIncError("unreachable, rank 3") from None

    def allreduce(self, data, operator=weir_inc.Operator.SUM, type=None):
        memoryview(data).cast("B")[:] = self.call(operator, type, bytes(data))
        return weir_inc.Outcome(self.hosts, weir_inc.Flags(0))

    def barrier(self):
        # Whoever is early waits for the answer to one byte.
        self.call(weir_inc.Operator.OR, weir_inc.Type.U32, bytes(4))


def process(rank, port, where, what, size):
    back_end.Group = Remote
    back_end.register(f"127.0.0.1:{port}", token="t", job="train")
    dist.init_process_group("weir", init_method=f"file://{where}/store", rank=rank, world_size=size)
    globals()[what](rank)


def on_all(what, size=SIZE):
    with tempfile.TemporaryDirectory() as where:
        mp.spawn(process, (Engine(size).port, where, what, size), nprocs=size)


def like_gloo(rank):
    gloo = dist.new_group(backend="gloo")
    torch.manual_seed(rank)
    for dtype in back_end._TYPES:
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT):
            # Exact in every type. Gloo of 1.13 does not know bfloat16.
            data = torch.randint(-3, 4, (3, 5)).to(dtype)
            reference = data.clone() if dtype != torch.bfloat16 else data.float()
            work = dist.all_reduce(data, op, async_op=True)
            dist.all_reduce(reference, op, group=gloo)
            work.wait()
            assert torch.equal(data, reference.to(dtype)), (dtype, op)
    for dtype in (torch.int32, torch.int64, torch.uint8, torch.int8):
        for op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR):
            data = torch.randint(0, 100, (7,)).to(dtype)
            reference = data.clone()
            dist.all_reduce(data, op)
            dist.all_reduce(reference, op, group=gloo)
            assert torch.equal(data, reference), (dtype, op)
    # Moves of whole tensors, of every type and an odd number of bytes.
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool):
        data = torch.randint(0, 2, (3,)).to(dtype) + torch.tensor([rank % 2]).to(dtype)
        parts = [torch.empty_like(data) for _ in range(SIZE)]
        dist.all_gather(parts, data)
        assert torch.equal(parts[rank], data)
        for root in range(SIZE):
            got = data.clone()
            dist.broadcast(got, root)
            assert torch.equal(got, parts[root]), dtype
            dist.gather(data, [torch.empty_like(data) for _ in range(SIZE)] if rank == root else None, root)
            dist.scatter(got, [part.clone() for part in parts] if rank == root else None, root)
            assert torch.equal(got, parts[rank])
    # Not all of a tensor's memory, and in another order.
    whole = torch.zeros(4, 6)
    whole[:, ::2] = torch.arange(12.0).view(4, 3)
    dist.all_reduce(whole[:, ::2].t())
    assert torch.equal(whole[:, ::2], SIZE * torch.arange(12.0).view(4, 3)) and not whole[:, 1::2].any()
    data = torch.full((2,), float(rank))
    dist.all_reduce(data, dist.ReduceOp.AVG)
    assert data.tolist() == [1.5, 1.5]
    data = torch.full((2,), float(rank))
    dist.reduce(data, 2)
    assert data.tolist() == ([6.0, 6.0] if rank == 2 else [rank, rank])
    out = torch.zeros(2)
    dist.reduce_scatter(out, [torch.full((2,), float(rank + part)) for part in range(SIZE)])
    assert out.tolist() == [6.0 + SIZE * rank] * 2
    data = torch.tensor(1.0)
    works = [dist.all_reduce(data, async_op=True) for _ in range(3)]
    works[-1].wait()
    assert data.item() == SIZE**3 and all(work.is_completed() and work.is_success() for work in works)
    dist.barrier()


def train(rank, group, steps=4):
    torch.manual_seed(100 + rank)  # parameters differ until they are broadcast
    model = torch.nn.Sequential(torch.nn.Linear(20, 50), torch.nn.ReLU(), torch.nn.BatchNorm1d(50), torch.nn.Linear(50, 3))
    if rank == 0:
        torch.manual_seed(7)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter)
    model = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(rank)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, 20)).square().mean().backward()
        optimizer.step()
    return torch.cat([parameter.detach().view(-1) for parameter in model.parameters()])


def trains_like_gloo(rank):
    ours, theirs = train(rank, None), train(rank, dist.new_group(backend="gloo"))
    assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-6), (ours - theirs).abs().max()
    every = [torch.empty_like(ours) for _ in range(SIZE)]
    dist.all_gather(every, ours)
    assert all(torch.equal(ours, other) for other in every), "processes have other bits"


def refuses(rank):
    data = torch.zeros(2)
    for call, error in (
        (lambda: dist.all_reduce(torch.zeros(2, dtype=torch.int16)), "SUM of torch.int16 is not folded"),
        (lambda: dist.all_reduce(torch.zeros(2, dtype=torch.bool)), "SUM of torch.bool is not folded"),
        (lambda: dist.all_reduce(data, dist.ReduceOp.BOR), "BOR is of integers"),
        (lambda: dist.all_reduce(data.int(), dist.ReduceOp.AVG), "AVG is of floats"),
        (lambda: dist.all_reduce(data.to_sparse()), "dense and on a CPU"),
        (lambda: dist.all_gather([data] * (SIZE - 1), data), "4 tensors of one shape"),
        (lambda: dist.send(data, (rank + 1) % SIZE), "no way from one process to another"),
    ):
        try:
            call()
        except Exception as got:  # noqa: BLE001
            assert error in str(got), got
        else:
            raise AssertionError(f"no error: {error}")
    # Nothing of that reached the engine.
    dist.all_reduce(data)


def loses_a_process(rank):
    data = torch.ones(4)
    dist.all_reduce(data)
    if rank == 3:
        os._exit(0)
    try:
        dist.all_reduce(data)
    except weir_inc.WeirIncError as error:
        assert "unreachable, rank 3" in str(error)
    else:
        raise AssertionError("a sum without one of them")
    try:
        train(rank, None, steps=1)
    except Exception:  # noqa: BLE001: DDP says it in words of its own
        pass
    else:
        raise AssertionError("a step without gradients")


def alone(rank):
    data = torch.ones(3)
    dist.all_reduce(data)
    dist.broadcast(data, 0)
    dist.barrier()
    assert data.tolist() == [1.0, 1.0, 1.0]


def fails_while_others_wait(rank):
    if rank == 0:
        dist.all_reduce(torch.ones(2), async_op=True)
        raise ValueError("one of them")
    threading.Event().wait()


def destroyed(rank):
    held = dist.all_reduce(torch.ones(2), async_op=True)
    tensors = []
    for _ in range(3):
        data = torch.ones(2)
        tensors.append(weakref.ref(data))
        dist.all_reduce(data)
    del data
    held.wait()
    assert held.get_future().wait()[0].tolist() == [2.0, 2.0]
    del held
    # When one is over, what was before it is let go of by the next.
    assert tensors[0]() is None, "tensors of collectives that are over are kept"
    group = weakref.ref(dist.group.WORLD._group)
    dist.destroy_process_group()
    assert group() is None, "a group is left when nobody has it any more"


class Tests(unittest.TestCase):
    def test_every_collective_is_what_gloo_makes_of_it(self):
        on_all("like_gloo")

    def test_a_model_is_trained_as_with_gloo_and_every_process_has_the_same_bits(self):
        on_all("trains_like_gloo")

    def test_what_engines_do_not_do_is_refused_before_anything_is_sent(self):
        on_all("refuses")

    def test_a_process_that_is_gone_is_an_error_for_all(self):
        on_all("loses_a_process")

    def test_one_process_has_nothing_to_fold(self):
        on_all("alone", 1)

    def test_a_process_that_fails_is_not_held_up_by_a_collective_that_runs(self):
        with self.assertRaisesRegex(mp.ProcessRaisedException, "one of them"):
            on_all("fails_while_others_wait", 2)

    def test_what_is_over_keeps_no_tensors_and_a_group_that_is_destroyed_leaves_its_job(self):
        on_all("destroyed", 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
