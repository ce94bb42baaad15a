"""The command line: solve, check, compare, apply, defragment, serve, warmup, version."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from gangfit.api import documents
from gangfit.api.faults import from_validation
from gangfit.api.files import STDIN, RefusedError, load, named, refusals, writable, write
from gangfit.api.settings import Settings
from gangfit.api.versions import versions
from gangfit.models import Plan, Policy, PreemptionPolicy, Snapshot

# Solver and web server are imported by the commands that need them: `--help` and `version` stay quick.

app = typer.Typer(
    name="gangfit",
    help="Placement solver for GPU gangs: snapshot in, proven plan out.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

SnapshotFile = Annotated[
    str, typer.Argument(metavar="SNAPSHOT", help="Snapshot: .json, .json.gz, or - for standard input.")
]
PlanFile = Annotated[str, typer.Argument(metavar="PLAN", help="Plan: .json, .json.gz, or - for standard input.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the JSON document only.")]
Everything = Annotated[bool, typer.Option("--all", help="Show every row and every node.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write the JSON document to this file as well.")]


def main() -> None:
    """Entry point of the `gangfit` command."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name the terminal's encoding lacks is no reason to fail
    app()


@contextmanager
def _clear_errors() -> Iterator[None]:
    """Exit 2 with one error on stderr for what the user can put right."""
    try:
        yield
    except RefusedError as error:
        print(f"Error: {error}", file=sys.stderr)
        raise typer.Exit(2) from None


@contextmanager
def _progress() -> Iterator[Callable[[str], None] | None]:
    """A line of progress on stderr while a terminal watches."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.text import Text

    from gangfit.api.tables import console

    with console(stderr=True).status(Text("reading")) as status:
        yield lambda line: status.update(Text(line))


@app.command()
def solve(
    snapshot_file: SnapshotFile,
    as_json: AsJson = False,
    output: Output = None,
    everything: Everything = False,
    time_limit: Annotated[
        float | None, typer.Option("--time-limit", help="Seconds for the solve, in place of policy.time_limit_s.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the search, in place of policy.seed.")] = None,
    workers: Annotated[int | None, typer.Option(help="Search threads, in place of policy.workers.")] = None,
    preemption: Annotated[
        bool, typer.Option("--preemption/--no-preemption", help="Never preempt, whatever policy.preemption says.")
    ] = True,
    moves: Annotated[
        bool | None,
        typer.Option("--moves/--no-moves", help="Whether running gangs may move, in place of policy.moves.mode."),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="Share (0 to 1) by which lost GPU-seconds may rise for fewer gangs preempted, and tree distance for "
            "fewer shared uplinks, in place of policy.tolerance."
        ),
    ] = None,
    deterministic: Annotated[
        bool | None,
        typer.Option(
            "--deterministic/--no-deterministic",
            help="The same plan every time, byte for byte, in place of policy.deterministic.",
        ),
    ] = None,
) -> None:
    """Solve a snapshot and show the plan: what starts where, how good that provably is, why the rest waits."""
    with _clear_errors():
        writable(output)
        snapshot = load(snapshot_file, documents.snapshot)
        overrides: dict[str, object] = {
            "time_limit_s": time_limit,
            "seed": seed,
            "workers": workers,
            "tolerance": tolerance,
            "deterministic": deterministic,
        }
        if not preemption:
            overrides["preemption"] = PreemptionPolicy(within="never", across="never")
        if moves is not None:
            overrides["moves"] = {**snapshot.policy.moves.model_dump(), "mode": "allowed" if moves else "never"}
        snapshot = _with_policy(snapshot, overrides)
        from gangfit.solver import solve as solve_snapshot

        with _progress() as on_progress:
            plan = solve_snapshot(snapshot, on_progress=on_progress)
        content = documents.dump(plan)
        if output is not None:
            write(content, output)
        if as_json:
            write(content)
            return
        from gangfit.api.tables import show_plan

        show_plan(plan, everything, snapshot.time_s)


@app.command()
def check(
    snapshot_file: SnapshotFile, plan_file: PlanFile, as_json: AsJson = False, everything: Everything = False
) -> None:
    """Check a plan, of gangfit or not, against its snapshot. Exit 1 if it breaks a rule.

    The plan may hold placements only.
    """
    with _clear_errors():
        snapshot, plan = _pair(snapshot_file, plan_file)
        from gangfit.solver import check as check_plan

        report = check_plan(snapshot, plan)
        if as_json:
            write(documents.dump(report))
        else:
            from gangfit.api.tables import show_report

            show_report(report, everything)
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def compare(snapshot_file: SnapshotFile) -> None:
    """Run the solver and every greedy strategy on one snapshot: tiers and seconds, the best marked."""
    with _clear_errors():
        snapshot = load(snapshot_file, documents.snapshot)
        from gangfit.api.tables import show_comparison
        from gangfit.solver.round import compare as compare_strategies

        with _progress() as on_progress:
            rows = compare_strategies(snapshot, on_progress)
        show_comparison(rows)


@app.command()
def apply(snapshot_file: SnapshotFile, plan_file: PlanFile, output: Output = None) -> None:
    """Print the snapshot that a plan leads to: what it places runs, the rest still waits."""
    with _clear_errors():
        writable(output)
        snapshot, plan = _pair(snapshot_file, plan_file)
        from gangfit.solver import apply as apply_plan

        with refusals(f"{named(plan_file)} applied to {named(snapshot_file)}"):
            try:
                following = apply_plan(snapshot, plan)
            except ValidationError as error:
                raise from_validation(error) from None
            except ValueError as error:
                raise RefusedError(f"{named(plan_file)}: {error}") from None
        content = documents.dump(following)
        if output is not None:
            write(content, output)
        write(content)


@app.command()
def defragment(
    snapshot_file: SnapshotFile,
    level: Annotated[str, typer.Option(help="Level of the domains: one of the snapshot's, or node.")],
    domains: Annotated[int, typer.Option(help="Domains to be empty, those that are already included.")] = 1,
    as_json: AsJson = False,
    everything: Everything = False,
) -> None:
    """Find the fewest running gangs to move so that whole domains are empty. Exit 1 if that can't be done."""
    with _clear_errors():
        snapshot = load(snapshot_file, documents.snapshot)
        with refusals("options"):
            wanted = {"snapshot": snapshot, "level": level, "domains": domains}
            request = documents.validate(documents.DefragmentRequest, wanted)
        from gangfit.solver import defragment as defragment_snapshot

        with _progress() as on_progress:
            answer = defragment_snapshot(request.snapshot, request.level, request.domains, on_progress=on_progress)
        if as_json:
            write(documents.dump(answer))
        else:
            from gangfit.api.tables import show_defragmentation

            show_defragmentation(answer, everything, snapshot.time_s)
    if answer.status in ("impossible", "undecided"):
        raise typer.Exit(1)


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on; there is no authentication.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")] = 8080,
    workers: Annotated[
        int | None, typer.Option(min=1, max=256, help="Processes that solve; default half the CPUs.")
    ] = None,
    max_pending: Annotated[int, typer.Option(min=0, help="Requests that may wait for a process; more get 503.")] = 32,
    max_body_mib: Annotated[int, typer.Option(min=1, help="Largest request body in MiB, also decompressed.")] = 64,
) -> None:
    """Serve the HTTP API until interrupted; see docs/api.md."""
    import uvicorn

    from gangfit.api.app import create_app
    from gangfit.api.listener import address, listen

    limits = {} if workers is None else {"workers": workers}
    settings = Settings(max_pending=max_pending, max_body_bytes=max_body_mib * 2**20, **limits)
    with _clear_errors():
        listener = listen(host, port)
    print(f"gangfit listens on {address(listener)}", file=sys.stderr)
    # a solve that runs gets a moment to answer; its process ends with the service either way
    config = uvicorn.Config(create_app(settings), timeout_graceful_shutdown=5)
    uvicorn.Server(config).run(sockets=[listener])


@app.command()
def warmup() -> None:
    """Compile the solver's kernels once, for all later runs; takes some seconds the first time."""
    from gangfit.solver import kernels

    print(f"kernels warm after {kernels.warmup():.1f} s")


@app.command()
def version() -> None:
    """Print the versions of gangfit, OR-Tools and Python."""
    for name, number in versions():
        print(name, number)


def _print_version(wanted: bool) -> None:
    if wanted:
        print("gangfit", versions().gangfit)
        raise typer.Exit()


@app.callback()
def _root(
    wanted: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def _pair(snapshot_file: str, plan_file: str) -> tuple[Snapshot, Plan]:
    if snapshot_file == plan_file == STDIN:
        raise RefusedError("snapshot and plan can't both come from standard input")
    return load(snapshot_file, documents.snapshot), load(plan_file, documents.plan)


def _with_policy(snapshot: Snapshot, overrides: Mapping[str, object]) -> Snapshot:
    given = {name: value for name, value in overrides.items() if value is not None}
    with refusals("options"):
        policy = documents.validate(Policy, {**snapshot.policy.model_dump(), **given})
    return snapshot.model_copy(update={"policy": policy})
