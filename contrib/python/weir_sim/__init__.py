"""Sweeps of `weir sim` on Ray, their results as pandas tables, and the plots that are published.

`plan` asks `weir` what points a sweep has, `engine` plays them as Ray tasks, `results` reads folders of results, `plots`
draws. Times are nanoseconds, sizes bytes, rates bytes per second, as in the names of columns.
"""

from typing import TYPE_CHECKING, Any

from weir_sim.plan import Plan, Point, WeirError

if TYPE_CHECKING:
    from weir_sim.results import collectives, flows, points, ports, queues

__all__ = ["Plan", "Point", "WeirError", "collectives", "flows", "points", "ports", "queues"]


def __getattr__(name: str) -> Any:
    """The tables, once they are asked for: pandas takes a second."""
    if name not in __all__:
        raise AttributeError(f"module 'weir_sim' has no attribute {name!r}")
    from weir_sim import results

    return getattr(results, name)
