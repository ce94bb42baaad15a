"""Plans, check reports and comparisons as a terminal shows them. Names are printed as they are, never as markup."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod
from rich.table import Table

from gangfit.api.fold import fold
from gangfit.models import Blocked, CheckReport, Defragmentation, Plan, Tier
from gangfit.solver.round import Row

MAX_ROWS = 20
"""Most rows of a table unless all are asked for."""
MAX_RANGES = 6
"""Most ranges of nodes in a cell unless all are asked for."""
PIPE_WIDTH = 140
"""Columns when standard output is no terminal."""


def console(stderr: bool = False) -> Console:
    """Where tables go."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)


def show_plan(plan: Plan, everything: bool, time_s: int) -> None:
    """Status, tiers, placements, who gives way, what tenants hold, what is promised, who waits and why, warnings.

    Instants are shown from `time_s` on, as `+300 s`.
    """
    out = console()
    out.print(f"{plan.status}: {_counted(plan.placements, 'gang')} placed, {len(plan.blocked)} wait{_seconds(plan)}")
    _show_tiers(out, plan.tiers)
    most = None if everything else MAX_ROWS
    placed = _placements(plan, most, None if everything else MAX_RANGES)
    header = ["gang", ">members", "touches", "nodes"]
    if any(placement.starts_after_s is not None for placement in plan.placements):
        header.append(">starts after")
        after = [placement.starts_after_s for placement in plan.placements[:most]]
        placed = [(*row, "" if end is None else _after(end, time_s)) for row, end in zip(placed, after, strict=True)]
    _show(out, "Placements", header, placed, len(plan.placements))
    leaving = [
        (p.gang, p.for_gang, p.reason, str(p.drain.lost_gpu_s), _after(p.drain.kill_s, time_s))
        for p in plan.preemptions[:most]
    ]
    header = ["gang", "for", "reason", ">lost GPU-s", ">kill"]
    _show(out, "Preemptions", header, leaving, len(plan.preemptions))
    _show_moves(out, plan, everything, time_s)
    if len(plan.fairness) > 1 or plan.preemptions:
        shares = [
            (f.tenant, f.dominant_resource or "", f"{f.share_before:.1%}", f"{f.share_after:.1%}")
            for f in plan.fairness[:most]
        ]
        header = ["tenant", "dominant resource", ">share before", ">after"]
        _show(out, "Fairness", header, shares, len(plan.fairness))
    promised = [
        (b.gang, _after(b.reservation.start_s, time_s), _nodes(b.reservation.nodes, None if everything else MAX_RANGES))
        for b in plan.blocked
        if b.reservation is not None
    ]
    _show(out, "Promised", ["gang", ">starts", "nodes"], promised)
    waiting = [(b.gang, b.reason, b.message + _retry(b, time_s)) for b in plan.blocked[:most]]
    _show(out, "Blocked", ["gang", "reason", "message"], waiting, len(plan.blocked))
    for warning in plan.warnings:
        out.print(f"warning: {warning}", style="yellow")


def show_defragmentation(answer: Defragmentation, everything: bool, time_s: int) -> None:
    """Status, domains to be empty, who moves where, and the steps in order."""
    out = console()
    figures = f"{answer.intact_before} intact now, {answer.candidates} can be emptied, {answer.wanted} wanted"
    out.print(f"{answer.status}: {answer.level} domains: {figures}")
    _show_tiers(out, answer.tiers)
    most = None if everything else MAX_ROWS
    _show(out, "Empty", ["domain"], [(" / ".join(path),) for path in answer.domains[:most]], len(answer.domains))
    _show_moves(out, answer, everything, time_s)


def _show_tiers(out: Console, tiers: Sequence[Tier]) -> None:
    rows = [[t.name, str(t.value), str(t.bound), _gap(t), t.proof or "open"] for t in tiers]
    heads = ["tier", ">value", ">bound", ">gap", "proof"]
    if any(t.traded for t in tiers):
        rows = [[*row, str(t.traded) if t.traded else ""] for row, t in zip(rows, tiers, strict=True)]
        heads.append(">traded")
    _show(out, "Tiers", heads, rows)


def _show_moves(out: Console, answer: Plan | Defragmentation, everything: bool, time_s: int) -> None:
    most = None if everything else MAX_ROWS
    moves = [
        (m.gang, m.for_gang or "", _nodes(m.nodes(), None if everything else MAX_RANGES), str(m.drain.lost_gpu_s))
        for m in answer.moves[:most]
    ]
    _show(out, "Moves", ["gang", "for", "to", ">lost GPU-s"], moves, len(answer.moves))
    steps = [
        (str(i + 1), _after(step.at_s, time_s), step.action, step.gang)
        for i, step in enumerate(answer.transitions[:most])
    ]
    _show(out, "Steps", [">step", ">at", "action", "gang"], steps, len(answer.transitions))


def show_report(report: CheckReport, everything: bool) -> None:
    """Verdict, violations, recomputed tiers."""
    out = console()
    out.print("ok: every rule holds" if report.ok else f"not ok: {_counted(report.violations, 'violation')}")
    most = None if everything else MAX_ROWS
    rows = [(v.rule, v.gang or "", v.node or "", v.message) for v in report.violations[:most]]
    _show(out, "Violations", ["rule", "gang", "node", "message"], rows, len(report.violations))
    _show(out, "Tiers, recomputed", ["tier", ">value"], [(t.name, str(t.value)) for t in report.tiers])


def show_comparison(rows: Sequence[Row]) -> None:
    """One line per strategy; the best ones are marked."""
    best = min(row.vector for row in rows)
    names = [name for name in rows[0].values if not _of_victims(name) or any(row.values.get(name) for row in rows)]
    lines = [
        (
            "best" if row.vector == best else "",
            row.name,
            *(str(row.values.get(name, 0)) for name in names),
            "yes" if row.proven else "",
            f"{row.seconds:.3f}",
        )
        for row in rows
    ]
    header = ["", "strategy", *(f">{name}" for name in names), "proven", ">seconds"]
    _show(console(), "Comparison (admission: more is better; the rest: less)", header, lines)


def _of_victims(tier: str) -> bool:
    return tier in ("broken", "moved", "moved_members") or tier.startswith("lost.")


def _show(
    out: Console, title: str, header: Sequence[str], rows: Sequence[Sequence[str]], total: int | None = None
) -> None:
    """Print the first rows of `total`; a header that starts with `>` is right-aligned. Nothing if there are no rows."""
    if not rows:
        return
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for name in header:
        justify: JustifyMethod = "right" if name.startswith(">") else "left"
        table.add_column(name.removeprefix(">"), justify=justify, overflow="fold", no_wrap=name == "strategy")
    for row in rows:
        table.add_row(*row)
    out.print(table)
    if total is not None and total > len(rows):
        out.print(f"… and {total - len(rows)} more (--all shows them)")


def _placements(plan: Plan, most: int | None, ranges: int | None) -> list[tuple[str, ...]]:
    touched = {quality.gang: quality.domains for quality in plan.quality}
    rows: list[tuple[str, ...]] = []
    for placement in plan.placements[:most]:
        nodes = placement.nodes()
        domains = touched.get(placement.gang, {"node": len(nodes)})
        touches = ", ".join(f"{level} {count}" for level, count in domains.items())
        rows.append((placement.gang, str(sum(nodes.values())), touches, _nodes(nodes, ranges)))
    return rows


def _nodes(nodes: dict[str, int], most: int | None) -> str:
    """Folded names, those with the same number of members together: `n[1-3] ×2, n7`."""
    alike: dict[int, list[str]] = defaultdict(list)
    for name, members in nodes.items():
        alike[members].append(name)
    return ", ".join(
        fold(names, most) + (f" ×{members}" if members > 1 else "")
        for members, names in sorted(alike.items(), reverse=True)
    )


def _gap(tier: Tier) -> str:
    if tier.gap == 0:
        return "0"
    return f"{tier.gap:g}" if tier.name == "admission" else f"{tier.gap:.2%}"


def _after(instant: int, time_s: int) -> str:
    return f"{instant - time_s:+} s"


def _retry(blocked: Blocked, time_s: int) -> str:
    return "" if blocked.retry_at_s is None else f"; again at {_after(blocked.retry_at_s, time_s)}"


def _seconds(plan: Plan) -> str:
    seconds = plan.stats.seconds
    return f" ({sum(seconds.values()):.2f} s)" if seconds else ""


def _counted(things: Sequence[object], noun: str) -> str:
    return f"{len(things)} {noun}" if len(things) == 1 else f"{len(things)} {noun}s"
