"""`python -m weir_sim`: exit code 0, all is well; 1, points are missing or broken, or it was stopped; 2, refused."""

from __future__ import annotations

import argparse
import atexit
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from weir_sim.plan import KEEP, WeirError

# What takes long to import is imported by the commands: `main` hears of ctrl-C by then.

#: Instead of a number of times.
ALWAYS = "always"
TABLES = ["flows", "ports", "collectives", "queues"]


def _number(least: int, *words: str) -> Callable[[str], Any]:
    """A reader of a whole number, `least` or more, or one of `words`."""

    def read(text: str) -> int | str:
        if text in words:
            return text
        try:
            if (number := int(text)) >= least:
                return number
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(", or ".join([f"{text}: give a whole number, {least} or more", *words]))

    return read


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="weir_sim", description="Sweeps of weir sim on Ray, tables and plots of their results.")
    commands = parser.add_subparsers(dest="command", required=True)
    weir = argparse.ArgumentParser(add_help=False)
    weir.add_argument("--weir", default="weir", metavar="FILE", help="the program, here and on workers (default: weir in PATH)")
    run = commands.add_parser("run", parents=[weir], help="play the points of a plan as Ray tasks, and merge")
    run.add_argument("--plan", required=True, metavar="FILE")
    run.add_argument("--out", required=True, metavar="DIR", help="folder of the results; what is there is not played again")
    run.add_argument("--keep", choices=KEEP, default="tables", help="as of weir sim sweep (default: tables)")
    again = "times a point is handed out again whose worker was lost: a number or `always` (default: 3)"
    run.add_argument("--retries", type=_number(0, ALWAYS), default=3, metavar="N", help=again)
    run.add_argument("--address", metavar="ADDRESS", help="of a Ray cluster, e.g. auto; a local one is started unless given")
    run.add_argument("--workers", type=_number(1), metavar="N", help="of the local cluster (default: one for each core); not with --address")
    table = commands.add_parser("table", parents=[weir], help="one table of the runs in folders")
    table.add_argument("what", choices=TABLES)
    plot = commands.add_parser("plot", parents=[weir], help="a plot of the runs in folders")
    plot.add_argument("what", choices=["slowdown", "queue", "pause", "busbw"])
    plot.add_argument("--by", action="append", metavar="COLUMN", help="what tells settings apart (default: folder and all axes that vary, but the seed)")
    for command, suffixes in [(table, ".csv or .parquet"), (plot, ".png, .svg or .pdf")]:
        command.add_argument("folders", nargs="+", metavar="DIR", help="written by weir sim FILE --out or weir sim sweep")
        command.add_argument("--out", required=True, metavar="FILE", help=f"ends in {suffixes}")
    return parser


class _Progress:
    """How many points are over, and how long the rest will take, on a terminal."""

    def __init__(self) -> None:
        self._began, self._first = time.monotonic(), -1

    def __call__(self, over: int, of: int) -> None:
        if self._first < 0:
            self._first = over
        left = ""
        if over > self._first:
            seconds = (time.monotonic() - self._began) / (over - self._first) * (of - over)
            left = f", {seconds:.0f} s left"
        if sys.stderr.isatty():
            print(f"\r  {over}/{of} points{left}   ", end="" if over < of else "\n", file=sys.stderr, flush=True)


def _run(args: argparse.Namespace) -> int:
    try:
        import ray
    except ImportError as error:
        raise WeirError(f"{error}: pip install 'contrib/python[ray]' of weir's sources") from error
    from weir_sim import engine

    retries = -1 if args.retries == ALWAYS else args.retries
    try:
        if args.address:
            ray.init(address=args.address, log_to_driver=False)
        else:
            ray.init(address="local", num_cpus=args.workers, include_dashboard=False, log_to_driver=False)
        merged = engine.run(args.plan, args.out, weir=args.weir, keep=args.keep, retries=retries, progress=_Progress())
    except ray.exceptions.RayError as error:
        raise WeirError(f"{error}\n{_left(args.out)}") from error
    finally:
        ray.shutdown()
    print(merged.text, end="")
    return 0 if merged.whole else 1


def _left(out: str) -> str:
    """What a run that ended early has left."""
    return f"results so far are in {out}; the same command goes on" if Path(out).exists() else "nothing was played yet"


def _table(args: argparse.Namespace) -> int:
    kind = Path(args.out).suffix
    if kind not in (".csv", ".parquet"):
        raise WeirError(f"{args.out}: a table is .csv or .parquet")
    from weir_sim import results

    table = getattr(results, args.what)(*args.folders, weir=args.weir)
    if kind == ".csv":
        table.to_csv(args.out, index=False)
    else:
        try:
            table.to_parquet(args.out, index=False)
        except ImportError as error:
            raise WeirError("Parquet needs pyarrow: pip install 'contrib/python[parquet]' of weir's sources") from error
    print(f"{args.out}: {len(table)} rows")
    return 0


def _plot(args: argparse.Namespace) -> int:
    from weir_sim import plots, results

    of, draw = {
        "slowdown": (results.flows, plots.fct_slowdown),
        "queue": (results.queues, plots.queue_cdf),
        "pause": (results.ports, plots.pause_share),
        "busbw": (results.collectives, plots.busbw),
    }[args.what]
    table = of(*args.folders, weir=args.weir)
    for column in args.by or []:
        if column not in table:
            raise WeirError(f"--by {column}: there is no such column; there are {', '.join(map(str, table.columns))}")
    by = args.by or results.settings(table, args.folders)
    # The axis of busbw is the size, whatever key sets it, where there are several.
    if args.what == "busbw" and not args.by and table["bytes"].nunique() > 1:
        by = [key for key in by if key == "run" or table.groupby(key)["bytes"].nunique().max() > 1]
    try:
        draw(table, by).savefig(args.out)
    except ValueError as error:
        raise WeirError(f"{args.out}: {error}") from error
    print(args.out)
    return 0


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = _parser()
    args = parser.parse_args(arguments)
    if args.command == "run" and args.address and args.workers:
        parser.error("--workers is of a local cluster: that of --address has the workers it has, leave one of the two out")
    return args


class _Stopped(KeyboardInterrupt):
    """Ctrl-C. A KeyboardInterrupt itself that passes an `exec`, as imports have them, ends Python by the signal although it is caught."""


def _stop(number: int, frame: FrameType | None) -> None:
    raise _Stopped


def _leave(code: int) -> NoReturn:
    """Ends Python without the ends of libraries: that of Ray crashes where its start was cut short."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main(arguments: list[str] | None = None) -> int:
    args = _arguments(arguments)
    logging.basicConfig(format="%(name)s: %(message)s")
    try:
        return {"run": _run, "table": _table, "plot": _plot}[args.command](args)
    except KeyboardInterrupt as stop:
        print(f"\nstopped: {_left(args.out)}" if args.command == "run" else "\nstopped", file=sys.stderr)
        if isinstance(stop, _Stopped):
            _leave(1)
        return 1
    except (WeirError, OSError) as error:
        print(f"weir_sim: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    # Where it is ignored, as behind `nohup`, it stays so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _stop)
    sys.exit(main())
