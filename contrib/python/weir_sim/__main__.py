"""`python -m weir_sim`: exit code 0, all is well; 1, points are missing or broken; 2, refused."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from weir_sim import results
from weir_sim.plan import KEEP, WeirError

TABLES: dict[str, Callable[..., pd.DataFrame]] = {
    "flows": results.flows,
    "ports": results.ports,
    "collectives": results.collectives,
    "queues": results.queues,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="weir_sim", description="Sweeps of weir sim on Ray, tables and plots of their results.")
    commands = parser.add_subparsers(dest="command", required=True)
    weir = argparse.ArgumentParser(add_help=False)
    weir.add_argument("--weir", default="weir", metavar="FILE", help="the program, here and on workers (default: weir in PATH)")
    run = commands.add_parser("run", parents=[weir], help="play the points of a plan as Ray tasks, and merge")
    run.add_argument("--plan", required=True, metavar="FILE")
    run.add_argument("--out", required=True, metavar="DIR", help="folder of the results; what is there is not played again")
    run.add_argument("--keep", choices=KEEP, default="tables", help="as of weir sim sweep (default: tables)")
    run.add_argument("--retries", type=int, default=3, metavar="N", help="times a point is handed out again whose worker was lost (default: 3; -1: always)")
    run.add_argument("--address", metavar="ADDRESS", help="of a Ray cluster, e.g. auto; a local one is started unless given")
    run.add_argument("--workers", type=int, metavar="N", help="of the local cluster (default: one for each core)")
    table = commands.add_parser("table", parents=[weir], help="one table of the runs in folders")
    table.add_argument("what", choices=TABLES)
    plot = commands.add_parser("plot", parents=[weir], help="a plot of the runs in folders")
    plot.add_argument("what", choices=["slowdown", "queue", "pause", "busbw"])
    plot.add_argument("--by", action="append", metavar="COLUMN", help="what tells settings apart (default: folder and all axes that vary, but the seed)")
    for command, suffixes in [(table, ".csv or .parquet"), (plot, ".png, .svg or .pdf")]:
        command.add_argument("folders", nargs="+", metavar="DIR", help="written by weir sim FILE --out or weir sim sweep")
        command.add_argument("--out", required=True, metavar="FILE", help=f"ends in {suffixes}")
    return parser


def _run(args: argparse.Namespace) -> int:
    try:
        import ray
    except ImportError as error:
        raise WeirError(f"{error}: pip install 'weir-sim[ray]'") from error
    from weir_sim import engine

    if args.address:
        ray.init(address=args.address, log_to_driver=False)
    else:
        ray.init(num_cpus=args.workers, include_dashboard=False, log_to_driver=False)
    began, first = time.monotonic(), -1

    def progress(over: int, of: int) -> None:
        nonlocal first
        if first < 0:
            first = over
        left = ""
        if over > first:
            seconds = (time.monotonic() - began) / (over - first) * (of - over)
            left = f", {seconds:.0f} s left"
        if sys.stderr.isatty():
            print(f"\r  {over}/{of} points{left}   ", end="" if over < of else "\n", file=sys.stderr, flush=True)

    try:
        merged = engine.run(args.plan, args.out, weir=args.weir, keep=args.keep, retries=args.retries, progress=progress)
    except KeyboardInterrupt:
        print(f"\nstopped: results so far are in {args.out}; the same command goes on", file=sys.stderr)
        return 1
    except ray.exceptions.RayError as error:
        raise WeirError(f"{error}\nresults so far are in {args.out}; the same command goes on") from error
    finally:
        ray.shutdown()
    print(merged.text, end="")
    return 0 if merged.whole else 1


def _table(args: argparse.Namespace) -> int:
    kind = Path(args.out).suffix
    if kind not in (".csv", ".parquet"):
        raise WeirError(f"{args.out}: a table is .csv or .parquet")
    table = TABLES[args.what](*args.folders, weir=args.weir)
    if kind == ".csv":
        table.to_csv(args.out, index=False)
    else:
        try:
            table.to_parquet(args.out, index=False)
        except ImportError as error:
            raise WeirError("Parquet needs pyarrow: pip install 'weir-sim[parquet]'") from error
    print(f"{args.out}: {len(table)} rows")
    return 0


def _plot(args: argparse.Namespace) -> int:
    from weir_sim import plots

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


def main(arguments: list[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    logging.basicConfig(format="%(name)s: %(message)s")
    try:
        return {"run": _run, "table": _table, "plot": _plot}[args.command](args)
    except (WeirError, OSError) as error:
        print(f"weir_sim: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
