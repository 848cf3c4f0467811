"""Sums by the engines of a weir switch, for hosts with an RDMA device (soft-RoCE will do).

    from array import array
    import weir_inc

    with weir_inc.Group("10.1.0.9:52300", token="s3cret", job="train", hosts=2, index=0) as group:
        data = array("f", [1.0, 2.0, 3.0])
        group.allreduce(data)           # in place; every host has the same bits
        group.barrier()

Anything with a writable, contiguous buffer of a known element type can be summed: ``array.array``, NumPy arrays, memory views.
PyTorch tensors on a CPU: pass ``tensor.numpy()``.
"""

from __future__ import annotations

import ctypes
import enum
import json
import os
from typing import Any, NamedTuple, Optional

__all__ = ["Flags", "Group", "Operator", "Outcome", "Stripe", "Type", "WeirIncError"]


class WeirIncError(RuntimeError):
    """A job that could not be joined, or has failed: the text says why."""


class Type(enum.IntEnum):
    """What elements are."""

    I32 = 0
    F32 = 1
    U32 = 2
    I64 = 3
    F64 = 4
    F16 = 5
    BF16 = 6


class Operator(enum.IntEnum):
    """How elements become one. AND, OR and XOR are of integers."""

    SUM = 0
    MAX = 1
    MIN = 2
    PROD = 3
    AND = 4
    OR = 5
    XOR = 6


class Flags(enum.IntFlag):
    """What a fold met on its way."""

    OVERFLOW = 1
    NAN = 2
    INFINITE = 4


class Outcome(NamedTuple):
    """How a result came about."""

    #: Ranks in every part of it.
    count: int
    #: What the folds met.
    flags: Flags


class Stripe(NamedTuple):
    """A part of every vector, folded in a job of its own."""

    #: The elements in it.
    elements: range
    #: Place of this host in the order of folding there.
    rank: int
    #: Who is folded with whom there.
    tree: list[Any]


class _Options(ctypes.Structure):
    _fields_ = [
        ("controller", ctypes.c_char_p),
        ("token", ctypes.c_char_p),
        ("job", ctypes.c_char_p),
        ("hosts", ctypes.c_uint16),
        ("index", ctypes.c_uint16),
        ("device", ctypes.c_char_p),
        ("ip", ctypes.c_char_p),
        ("mtu", ctypes.c_uint32),
        ("window", ctypes.c_uint32),
        ("join_ms", ctypes.c_uint32),
        ("result_ms", ctypes.c_uint32),
        ("retry", ctypes.c_uint8),
        ("stripes", ctypes.c_uint8),
        ("write", ctypes.c_uint8),
        ("write_results", ctypes.c_uint8),
    ]


#: Element types of buffers, by kind and size of their format.
_FORMATS = {
    "i": Type.I32,
    "I": Type.U32,
    "f": Type.F32,
    "d": Type.F64,
    "e": Type.F16,
    "q": Type.I64,
}


def _load() -> ctypes.CDLL:
    here = os.path.dirname(os.path.abspath(__file__))
    path = os.environ.get("WEIR_INC_LIBRARY") or os.path.join(here, "..", "libweir_inc.so")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise WeirIncError(f"{error}; run `make` in contrib/inc, or set WEIR_INC_LIBRARY") from error
    handle, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_size_t)
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "join": (handle, [ctypes.POINTER(_Options), text, ctypes.c_size_t]),
        "allreduce": (ctypes.c_int, [handle, handle, ctypes.c_size_t, ctypes.c_int, ctypes.c_int]),
        "barrier": (ctypes.c_int, [handle]),
        "flags": (ctypes.c_uint, [handle]),
        "count": (ctypes.c_uint, [handle]),
        "rank": (ctypes.c_uint16, [handle]),
        "ranks": (ctypes.c_uint16, [handle]),
        "seat": (text, [handle]),
        "stripe": (text, [handle, ctypes.c_uint, ctypes.c_size_t, size, size]),
        "error": (text, [handle]),
        "leave": (None, [handle]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"weir_inc_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class Group:
    """A job of several hosts, this one among them."""

    def __init__(
        self,
        controller: str,
        *,
        token: str,
        job: str,
        hosts: int,
        index: int,
        device: Optional[str] = None,
        ip: Optional[str] = None,
        mtu: int = 1024,
        window: int = 256,
        join_timeout: float = 60.0,
        result_timeout: float = 10.0,
        retry: int = 7,
        stripes: int = 1,
        write: bool = False,
        write_results: bool = False,
    ) -> None:
        """Joins job ``job`` as host ``index`` of ``hosts``; returns when all have come.

        ``controller``: HOST:PORT. ``result_timeout``: seconds without a result after which a call fails.
        ``retry``: times the adapter sends again what nobody acknowledges. ``stripes``: jobs that vectors are spread over, 1
        to 16, so that several engines and trees work side by side. ``write``: contributes by RDMA WRITE with Immediate, not by
        SEND. ``write_results``: has results written by RDMA WRITE, not sent. Others may do otherwise in both.
        """
        self._handle: Optional[int] = None
        self._library = _load()
        # What does not fit the types of C would arrive there as another number.
        limits = {"hosts": 0xFFFF, "index": 0xFFFF, "mtu": 4096, "window": 4096, "retry": 7, "stripes": 16}
        given = {"hosts": hosts, "index": index, "mtu": mtu, "window": window, "retry": retry, "stripes": stripes}
        for name, value in given.items():
            if not 0 <= value <= limits[name]:
                raise WeirIncError(f"{name} is {value}; it is at most {limits[name]}, and not negative")
        for name, seconds in (("join_timeout", join_timeout), ("result_timeout", result_timeout)):
            if not 0.001 <= seconds <= 4e6:
                raise WeirIncError(f"{name} is {seconds}; it is 0.001 to 4000000 seconds")
        encode = lambda value: None if value is None else value.encode()  # noqa: E731
        options = _Options(
            encode(controller), encode(token), encode(job), hosts, index, encode(device), encode(ip),
            mtu, window, int(join_timeout * 1000), int(result_timeout * 1000), retry, stripes, bool(write),
            bool(write_results),
        )
        error = ctypes.create_string_buffer(256)
        self._handle = self._library.weir_inc_join(ctypes.byref(options), error, len(error))
        if not self._handle:
            raise WeirIncError(error.value.decode(errors="replace"))

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def __del__(self) -> None:
        self.leave()

    @property
    def rank(self) -> int:
        """Place of this host in the order of folding."""
        return int(self._library.weir_inc_rank(self._open()))

    @property
    def ranks(self) -> int:
        """How many there are."""
        return int(self._library.weir_inc_ranks(self._open()))

    @property
    def order(self) -> list[int]:
        """Rank of each host, by index."""
        return list(self._seat()["order"])

    @property
    def tree(self) -> list[Any]:
        """Who is folded with whom: ``[[0, 1], [2, 3]]`` folds 0 with 1, 2 with 3, and these two. See ``stripes``."""
        return list(self._seat()["tree"])

    def stripes(self, count: int) -> list[Stripe]:
        """Which elements of a vector of ``count`` are folded in which tree."""
        found = []
        start, length = ctypes.c_size_t(), ctypes.c_size_t()
        while True:
            seat = self._library.weir_inc_stripe(self._open(), len(found), count, ctypes.byref(start), ctypes.byref(length))
            if not seat:
                return found
            told = json.loads(seat)["seat"]
            found.append(Stripe(range(start.value, start.value + length.value), int(told["rank"]), list(told["tree"])))

    def allreduce(self, data: Any, operator: Operator = Operator.SUM, type: Optional[Type] = None) -> Outcome:
        """Replaces ``data`` by the fold over all hosts, which all pass the same length, type and operator.

        ``type``: of the elements, where the buffer does not say (bfloat16 in a buffer of 16-bit words).
        """
        view = memoryview(data)
        if view.readonly or not view.c_contiguous:
            raise TypeError("data has to be a writable, contiguous buffer")
        kind = _type_of(view) if type is None else type
        if view.nbytes == 0:
            return self._outcome()
        buffer = (ctypes.c_char * view.nbytes).from_buffer(view.cast("B"))
        size = {Type.F16: 2, Type.BF16: 2, Type.I64: 8, Type.F64: 8}.get(kind, 4)
        count, rest = divmod(view.nbytes, size)
        if rest:
            raise TypeError(f"{view.nbytes} bytes are no whole number of {kind.name}")
        self._check(self._library.weir_inc_allreduce(self._open(), ctypes.addressof(buffer), count, kind, operator))
        return self._outcome()

    def barrier(self) -> None:
        """Returns when all hosts have called it."""
        self._check(self._library.weir_inc_barrier(self._open()))

    def leave(self) -> None:
        """Leaves the job; calling it again does nothing."""
        handle, self._handle = self._handle, None
        if handle:
            self._library.weir_inc_leave(handle)

    def _open(self) -> int:
        if not self._handle:
            raise WeirIncError("this group has been left")
        return self._handle

    def _seat(self) -> dict[str, Any]:
        return dict(json.loads(self._library.weir_inc_seat(self._open()))["seat"])

    def _outcome(self) -> Outcome:
        handle = self._open()
        return Outcome(int(self._library.weir_inc_count(handle)), Flags(self._library.weir_inc_flags(handle)))

    def _check(self, status: int) -> None:
        if status:
            raise WeirIncError(self._library.weir_inc_error(self._open()).decode(errors="replace"))


def _type_of(view: memoryview) -> Type:
    code = view.format.lstrip("@=<")
    # A C long is 64 bits here.
    code = {"l": "q" if view.itemsize == 8 else "i", "L": "I" if view.itemsize == 4 else "L"}.get(code, code)
    try:
        return _FORMATS[code]
    except KeyError:
        raise TypeError(f"elements of format `{view.format}` cannot be folded; pass `type`") from None
