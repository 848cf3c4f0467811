"""A back end of ``torch.distributed`` that sums in the network, for tensors on a CPU.

    import torch.distributed as dist
    import weir_inc.torch

    weir_inc.torch.register("10.1.0.9:52300", token="s3cret", job="train")
    dist.init_process_group("weir", init_method="env://")        # as torchrun sets it
    dist.all_reduce(gradients)
    model = torch.nn.parallel.DistributedDataParallel(model)

Every process group is a job of the controller, named ``job-`` and a random number, with one process for each host. Floats are folded in
the order of ranks in the tree, so all processes have the same bits, and the same bits again in another run.

Engines sum. What is no sum is made of one: a broadcast, a gather or a scatter is an OR with zeros, which is exact for every type and costs as
much as an all-reduce of what every process would have at its end. ``send``, ``recv`` and ``all_to_all`` are not there, and refuse.

Tried with PyTorch 1.13 of Debian 12 (``apt-get install python3-torch``).
"""

from __future__ import annotations

import secrets
import sys
import threading
import weakref
from collections import deque
from concurrent.futures import Future
from datetime import timedelta
from queue import SimpleQueue
from typing import Any, Callable, Optional

import torch
import torch.distributed as dist

from . import Group, Operator, Type, WeirIncError

__all__ = ["NAME", "WeirProcessGroup", "register"]

#: Name of the back end.
NAME = "weir"

#: How long the members of a process group wait for one another, and for results, if torch says nothing.
_TIMEOUT = timedelta(minutes=30)

_TYPES = {
    torch.float32: Type.F32,
    torch.float64: Type.F64,
    torch.float16: Type.F16,
    torch.bfloat16: Type.BF16,
    torch.int32: Type.I32,
    torch.int64: Type.I64,
}
_ARITHMETIC = {"SUM": Operator.SUM, "AVG": Operator.SUM, "MIN": Operator.MIN, "MAX": Operator.MAX, "PRODUCT": Operator.PROD}
_BITS = {"BAND": Operator.AND, "BOR": Operator.OR, "BXOR": Operator.XOR}


def register(controller: str, *, token: str, job: str, **options: Any) -> None:
    """Makes the back end ``weir`` known to ``torch.distributed``; before ``init_process_group``, once.

    ``controller``, ``token``, ``job`` and ``options`` are those of :class:`weir_inc.Group`. The ``timeout`` of a process group is its
    ``join_timeout`` and ``result_timeout``, where ``options`` do not name them.
    """

    def create(store: dist.Store, rank: int, size: int, timeout: timedelta = _TIMEOUT) -> WeirProcessGroup:
        if rank == 0:
            store.set("weir_job", f"{job}-{secrets.token_hex(4)}")
        name = store.get("weir_job").decode()
        seconds = timeout.total_seconds()
        given = {"join_timeout": seconds, "result_timeout": seconds, **options}
        # A job is of two hosts at least; one process has nothing to fold.
        group = Group(controller, token=token, job=name, hosts=size, index=rank, **given) if size > 1 else None
        return WeirProcessGroup(group, rank, size)

    dist.Backend.register_backend(NAME, create)


class _Work(dist._Work):
    """A collective that runs or is over."""

    def __init__(self, running: Future[None], result: list[Any]) -> None:
        super().__init__()
        self._running = running
        self._result: Optional[list[Any]] = result
        self._future: Any = torch.futures.Future()
        running.add_done_callback(self._ends)

    def _ends(self, running: Future[None]) -> None:
        error = running.exception()
        if error is None:
            self._future.set_result(self._result)
        else:
            self._future.set_exception(error)

    def forget(self) -> None:
        """Nobody asks for the tensors any more."""
        self._result = self._future = None

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        # Zero is torch's word for no limit of its own.
        self._running.result(timeout.total_seconds() if timeout else None)
        return True

    def get_future(self) -> Any:
        return self._future

    def is_completed(self) -> bool:
        return self._running.done()

    def is_success(self) -> bool:
        return self._running.done() and self._running.exception() is None

    def exception(self) -> Optional[BaseException]:
        return self._running.exception() if self._running.done() else None

    def result(self) -> list[Any]:
        return self._result or []


class _Kept:
    """Collectives that torch may still wait for.

    What C++ holds of an object of Python does not keep the object (PyTorch 1.13): without it a wait there would be that of the base class,
    which never ends. So the last ones are kept here, without their tensors where nothing in Python can ask for these.
    """

    #: More than a step of training has between the start of a collective and the wait for it.
    LAST = 4096
    #: References to one that nobody else has: of the list, of the loop, of the call that counts, and of the callback for its end.
    OWN = 4

    def __init__(self) -> None:
        self._whole: list[_Work] = []
        self._last: deque[_Work] = deque(maxlen=self.LAST)

    def add(self, work: _Work) -> None:
        left = []
        for before in self._whole:
            if before.is_completed() and sys.getrefcount(before) <= self.OWN:
                before.forget()
                self._last.append(before)
            else:
                left.append(before)
        self._whole = [*left, work]


class WeirProcessGroup(dist.ProcessGroup):
    """The process group behind the back end. Collectives run one after the other, in the order they were called in."""

    def __init__(self, group: Optional[Group], rank: int, size: int) -> None:
        super().__init__(rank, size)
        self._group, self._rank, self._size = group, rank, size
        self._queue: SimpleQueue[Optional[tuple[Future[None], Callable[[], Any]]]] = SimpleQueue()
        self._kept = _Kept()
        # A daemon: a process that ends in an error is not held up by a collective whose others still wait for it.
        thread = threading.Thread(target=_serve, args=(self._queue,), name=NAME, daemon=True)
        thread.start()
        weakref.finalize(self, _end, self._queue, thread)

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def getBackendName(self) -> str:
        return NAME

    def _get_backend_name(self) -> str:
        return NAME

    def __repr__(self) -> str:
        return f"WeirProcessGroup(rank={self._rank}, size={self._size})"

    # What a caller gets wrong raises here, at once; what the network does raises in `wait`.

    def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> _Work:
        tensor = _only(tensors)
        fold = self._fold(tensor, opts.reduceOp)
        return self._start(lambda: fold(tensor), tensors)

    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> _Work:
        tensor, root = _only(tensors), opts.rootRank == self._rank
        fold = self._fold(tensor, opts.reduceOp)
        return self._start(lambda: fold(tensor if root else tensor.clone()), tensors)

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> _Work:
        tensor, root = _only(tensors), opts.rootRank == self._rank

        def run() -> None:
            if not root:
                tensor.zero_()
            self._merge(tensor)

        return self._start(run, tensors)

    def allgather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None) -> _Work:
        parts, own = _only(outputs), _only(inputs)
        self._fits(parts, own)

        return self._start(lambda: self._gather_into(parts, own), outputs)

    def _allgather_base(self, output: torch.Tensor, own: torch.Tensor, opts: Any = None) -> _Work:
        if output.numel() != self._size * own.numel() or output.dtype != own.dtype:
            raise ValueError(f"the output has room for {self._size} times the input, of its type")
        return self._start(lambda: output.view(-1).copy_(self._gather(own).view(-1)), [output])

    def gather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any) -> _Work:
        own, root = _only(inputs), opts.rootRank == self._rank
        parts = _only(outputs) if root else []
        if root:
            self._fits(parts, own)

        return self._start(lambda: self._gather_into(parts, own), outputs)

    def scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any) -> _Work:
        own, root = _only(outputs), opts.rootRank == self._rank
        parts = _only(inputs) if root else []
        if root:
            self._fits(parts, own)

        def run() -> None:
            whole = torch.stack([part.detach() for part in parts]) if root else own.new_zeros((self._size, *own.shape))
            self._merge(whole)
            own.copy_(whole[self._rank])

        return self._start(run, outputs)

    def reduce_scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any) -> _Work:
        own, parts = _only(outputs), _only(inputs)
        self._fits(parts, own)
        fold = self._fold(own, opts.reduceOp)

        def run() -> None:
            whole = torch.stack([part.detach() for part in parts])
            fold(whole)
            own.copy_(whole[self._rank])

        return self._start(run, outputs)

    def _reduce_scatter_base(self, own: torch.Tensor, whole: torch.Tensor, opts: Any) -> _Work:
        if whole.numel() != self._size * own.numel() or whole.dtype != own.dtype:
            raise ValueError(f"the input is {self._size} times the output, of its type")
        parts = list(whole.reshape(self._size, *own.shape))
        return self.reduce_scatter([own], [parts], opts)

    def barrier(self, opts: Any = None) -> _Work:
        return self._start(self._group.barrier if self._group else lambda: None, [])

    def send(self, *_: Any) -> Any:
        raise NotImplementedError("engines sum; there is no way from one process to another in the back end `weir`")

    recv = recv_anysource = alltoall = alltoall_base = send

    def _start(self, run: Callable[[], Any], result: list[Any]) -> _Work:
        running: Future[None] = Future()
        work = _Work(running, result)
        self._kept.add(work)
        self._queue.put((running, run))
        return work

    def _fits(self, parts: list[torch.Tensor], own: torch.Tensor) -> None:
        if len(parts) != self._size or any(p.shape != own.shape or p.dtype != own.dtype for p in parts):
            raise ValueError(f"{self._size} tensors of one shape and type are needed, one of each process")

    def _fold(self, like: torch.Tensor, operator: Any) -> Callable[[torch.Tensor], None]:
        """What folds tensors of this type in place; raises if nothing does."""
        name = str(getattr(operator, "op", operator)).rsplit(".", 1)[-1].upper()
        _plain(like)
        if name in _BITS:
            if like.is_floating_point() or like.is_complex():
                raise TypeError(f"{name} is of integers, not of {like.dtype}")
            # Bits do not care where an element ends.
            return lambda tensor: self._sum(tensor, _BITS[name], Type.U32)
        kind = _TYPES.get(like.dtype)
        if name not in _ARITHMETIC or kind is None:
            known = ", ".join(str(t).removeprefix("torch.") for t in _TYPES)
            raise TypeError(f"{name} of {like.dtype} is not folded by engines; these are: {', '.join(_ARITHMETIC)} of {known}")
        if name == "AVG" and not like.is_floating_point():
            raise TypeError(f"AVG is of floats, not of {like.dtype}")

        def fold(tensor: torch.Tensor) -> None:
            self._sum(tensor, _ARITHMETIC[name], kind)
            if name == "AVG":
                tensor.div_(self._size)

        return fold

    def _gather(self, own: torch.Tensor) -> torch.Tensor:
        """All processes' tensors, stacked."""
        whole = own.new_zeros((self._size, *own.shape))
        whole[self._rank] = own.detach()
        self._merge(whole)
        return whole

    def _gather_into(self, parts: list[torch.Tensor], own: torch.Tensor) -> None:
        """The same, each where it is wanted; nowhere, if there are no places."""
        for part, got in zip(parts, self._gather(own)):
            part.copy_(got)

    def _merge(self, tensor: torch.Tensor) -> None:
        """Replaces a tensor that is zero but for what this process knows by what they know together."""
        _plain(tensor)
        self._sum(tensor, Operator.OR, Type.U32)

    def _sum(self, tensor: torch.Tensor, operator: Operator, kind: Type) -> None:
        if self._group is None or tensor.numel() == 0:
            return
        tensor = tensor.detach()
        flat = tensor.contiguous().view(-1).view(torch.uint8)
        rest = -flat.numel() % 4 if kind == Type.U32 else 0
        data = torch.cat([flat, flat.new_zeros(rest)]) if rest else flat
        outcome = self._group.allreduce(data.numpy(), operator, kind)
        if outcome.count != self._size:
            raise WeirIncError(f"a result of {outcome.count} processes, not of {self._size}")
        if data.data_ptr() != tensor.data_ptr():
            tensor.copy_(data[: flat.numel()].view(tensor.dtype).view(tensor.shape))


def _serve(queue: SimpleQueue[Optional[tuple[Future[None], Callable[[], Any]]]]) -> None:
    while (job := queue.get()) is not None:
        running, run = job
        error = None
        try:
            run()
        except BaseException as raised:  # noqa: BLE001: whoever waits raises it
            error = raised
        # Whoever waits goes on when nothing here holds the group or its tensors any more.
        del job, run
        if error is None:
            running.set_result(None)
        else:
            running.set_exception(error)
        del running, error


def _end(queue: SimpleQueue[Any], thread: threading.Thread) -> None:
    """When the group is gone, or the program ends: a thread that is in the middle of torch then would abort it."""
    queue.put(None)
    if thread is not threading.current_thread():
        thread.join(1.0)


def _only(tensors: list[Any]) -> Any:
    if len(tensors) != 1:
        raise ValueError(f"one tensor a process, not {len(tensors)}")
    return tensors[0]


def _plain(tensor: torch.Tensor) -> None:
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        raise TypeError(f"tensors are dense and on a CPU, not {tensor.layout} on {tensor.device}")
