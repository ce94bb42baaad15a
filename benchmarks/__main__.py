"""`python -m benchmarks`: quality, victims, speed, all, report."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import quality as qualities
from benchmarks import report as reports
from benchmarks import speed as speeds
from benchmarks import storage
from benchmarks import victims as givers
from benchmarks.charts import draw
from benchmarks.generators import FAMILIES
from benchmarks.measure import warm_up
from benchmarks.suites import SUITES
from benchmarks.tables import solver_table, strategies_table
from benchmarks.timings import series_table
from benchmarks.victim_tables import losses_table, proofs_table

app = typer.Typer(add_completion=False, help="Speed and quality of gangfit. Run it on an idle machine.")
console = Console(width=max(160, Console().width), highlight=False)

Out = Annotated[Path, typer.Option(help="Folder of the JSON results and charts.")]
Quick = Annotated[bool, typer.Option("--quick", help="Few seeds, first time limit only.")]


def _command() -> str:
    """The command, without the folder: the figures don't depend on it."""
    words = [word for i, word in enumerate(sys.argv) if i and "--out" not in (word.partition("=")[0], sys.argv[i - 1])]
    return " ".join(["python -m benchmarks", *words])


def _names(chosen: list[str] | None, known: list[str]) -> list[str]:
    for name in chosen or []:
        if name not in known:
            raise typer.BadParameter(f"unknown name {name!r}; known: {', '.join(known)}")
    return chosen or known


@app.command()
def quality(
    suite: Annotated[list[str] | None, typer.Option(help=f"Suites: {', '.join(SUITES)}; default all.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds per setting.")] = None,
    limit: Annotated[
        float | None, typer.Option(min=0.001, help="One time limit in seconds instead of the suite's.")
    ] = None,
    out: Out = storage.RESULTS,
    quick: Quick = False,
) -> None:
    """Solver against every greedy: admitted, cost, fragmentation, gap, times."""
    _warm()
    for name in _names(suite, list(SUITES)):
        run = qualities.run(name, console.print, seeds=seeds, limit=limit, quick=quick, command=_command())
        console.print(solver_table(run).rich(), strategies_table(run).rich())
        console.print(f"saved {storage.save(run, out).name}")
    _draw(out)


@app.command()
def victims(
    families: Annotated[list[str] | None, typer.Option(help=f"Families: {', '.join(FAMILIES)}; default all.")] = None,
    nodes: Annotated[list[int] | None, typer.Option(min=32, help="Sizes; default 128, 512, 2,048, 8,192.")] = None,
    pending: Annotated[list[int] | None, typer.Option(min=1, help="Pending gangs; default 1, 8, 20, 40.")] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Seeds per setting; a fifth of them at 8,192 nodes. Default 5.")
    ] = None,
    limit: Annotated[
        float | None, typer.Option(min=0.001, help="Time limit in seconds; default 2, at 8,192 nodes 10.")
    ] = None,
    out: Out = storage.RESULTS,
    quick: Quick = False,
) -> None:
    """Who gives way: solver against the greedy preemptor on contended clusters."""
    _warm()
    run = givers.run(
        console.print,
        families=_names(families, list(FAMILIES)),
        nodes=nodes or (),
        pending=pending or (),
        seeds=seeds,
        limit=limit,
        quick=quick,
        command=_command(),
        known=storage.victims(out),
        keep=lambda found: storage.save(found, out),
    )
    console.print(losses_table(run).rich(), proofs_table(run).rich())
    console.print(f"saved {storage.save(run, out).name}")
    _draw(out)


@app.command()
def speed(
    series: Annotated[
        list[str] | None, typer.Option(help=f"Series: {', '.join(speeds.EXPERIMENTS)}; default all.")
    ] = None,
    out: Out = storage.RESULTS,
    quick: Quick = False,
) -> None:
    """Throughput, latency, memory, growth, copies, gap over time."""
    _warm()
    for name in _names(series, list(speeds.EXPERIMENTS)):
        one = speeds.run(name, console.print, quick=quick, command=_command())
        console.print(series_table(one).rich())
        console.print(f"saved {storage.save(one, out).name}")
    _draw(out)


@app.command(name="all")
def everything(out: Out = storage.RESULTS, quick: Quick = False) -> None:
    """All suites, the victims, all series, and the page."""
    started = time.perf_counter()
    quality(None, None, None, out, quick)
    victims(None, None, None, None, None, out, quick)
    speed(None, out, quick)
    report(out, None)
    console.print(f"{(time.perf_counter() - started) / 60:.1f} min in all")


@app.command()
def report(
    out: Out = storage.RESULTS,
    page: Annotated[
        Path | None, typer.Option(help="Page to write; default docs/benchmarks.md, with --out in that folder.")
    ] = None,
) -> None:
    """Write the page from what is saved."""
    page = page or (reports.PAGE if out == storage.RESULTS else out / reports.PAGE.name)
    charts = _draw(out)
    page.parent.mkdir(parents=True, exist_ok=True)
    text = reports.page(storage.runs(out), storage.series(out), charts, page, storage.victims(out))
    page.write_text(text, encoding="utf-8")
    console.print(f"wrote {page.name} from {out.name}/")


def _warm() -> None:
    console.print(f"warm-up: {warm_up():.1f} s (imports, kernels)")


def _draw(out: Path) -> list[Path]:
    return draw(storage.runs(out), storage.series(out), out, storage.victims(out))


if __name__ == "__main__":
    app()
