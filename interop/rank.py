"""A rank in a guest: sums of known vectors, checked bit by bit."""
import os, struct, sys, time
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("WEIR_INC_LIBRARY", os.path.join(os.path.dirname(os.path.abspath(__file__)), "libweir_inc.so"))
import weir_inc
from array import array

index, hosts, controller, job, what = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5:]


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def element(rank, i):
    # Sums of these depend on their order.
    return f32((1 + rank * 0.37) * 10.0 ** (i % 13 - 6) * (1 if (i + rank) % 3 else -1))


def fold(tree, i):
    if not isinstance(tree, list):
        return element(tree, i)
    total = fold(tree[0], i)
    for below in tree[1:]:
        total = f32(total + fold(below, i))
    return total


def expected(group, n):
    return array("f", [fold(part.tree, i) for part in group.stripes(n) for i in part.elements])


window, stripes = int(os.environ.get("WINDOW", "64")), int(os.environ.get("STRIPES", "1"))
with weir_inc.Group(controller, token="s3cret", job=job, hosts=hosts, index=index, window=window, stripes=stripes,
                    write=index in map(int, os.environ.get("WRITE", "").split()),
                    write_results=index in map(int, os.environ.get("RESULTS", "").split()),
                    result_timeout=float(os.environ.get("LIMIT", "20")), join_timeout=120) as g:
    print(f"rank {g.rank} of {g.ranks}, tree {g.tree}", flush=True)
    for word in what:
        kind, _, count = word.partition("=")
        n, begin = int(count or 0), time.monotonic()
        if kind == "f32":
            data = array("f", [element(part.rank, i) for part in g.stripes(n) for i in part.elements])
            outcome = g.allreduce(data)
            assert data == expected(g, n), "f32 sums differ"
        elif kind == "i32":
            data = array("i", [(g.rank + 1) * (i * 100003 % 2**20 - 2**19) for i in range(n)])
            outcome = g.allreduce(data)
            factor = g.ranks * (g.ranks + 1) // 2
            assert list(data) == [factor * (i * 100003 % 2**20 - 2**19) for i in range(n)], "i32 sums differ"
        elif kind == "max":
            data = array("d", [float((g.rank + 1) * (i % 7 - 3)) for i in range(n)])
            outcome = g.allreduce(data, weir_inc.Operator.MAX)
            want = [max(float((r + 1) * (i % 7 - 3)) for r in range(g.ranks)) for i in range(n)]
            assert list(data) == want, "maxima differ"
        elif kind == "barrier":
            g.barrier()
            outcome = None
        elif kind == "forever":
            data = array("i", [1] * 4096)
            while True:
                g.allreduce(data)
                data = array("i", [1] * 4096)
        if outcome is not None:
            assert outcome.count == g.ranks, outcome
        took = time.monotonic() - begin
        print(f"{word}: right, {took:.2f} s, {outcome and outcome.flags!r}", flush=True)
print("all right", flush=True)
