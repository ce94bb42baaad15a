"""The round, end to end: snapshot → arrays → greedy → CP-SAT → decode → independent check → plan."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gangfit.models import Plan, Snapshot, Stats
from gangfit.solver.admission import admit
from gangfit.solver.answer import answer
from gangfit.solver.assignment import Assignment, rank, starting, tier_names, tier_values
from gangfit.solver.checker import check
from gangfit.solver.contested import ContestedImprovement
from gangfit.solver.decided import Admission
from gangfit.solver.engine import Budget
from gangfit.solver.floor import fill_leftover, no_dearer, with_preemptor
from gangfit.solver.greedy import STRATEGIES
from gangfit.solver.leximin import worth
from gangfit.solver.moving_tiers import MovingImprovement
from gangfit.solver.problem import Problem, encode
from gangfit.solver.relocation import admit_with_moves, movable
from gangfit.solver.tiers import Improvement, TierResult
from gangfit.solver.trade import trade_distance, trade_losses
from gangfit.solver.trim import trim

ANSWER = 2
"""Answer and check take about so many times as long as encoding."""
PREEMPTOR = 4e-3
"""Seconds of the greedy preemptor per pending gang, where anybody may give way: it runs once time is out."""
KEPT = 0.2
"""Most of the time limit that is kept for them."""
KEPT_TO_TRADE = 0.2
"""Share of the remaining time that the tiers leave for trading, where policy.tolerance allows it."""


class InvalidPlanError(RuntimeError):
    """The independent checker refused a plan of ours: a defect, never an answer."""


@dataclass
class Clock:
    """Wall time per stage."""

    seconds: dict[str, float] = field(default_factory=dict)
    last: float = field(default_factory=time.perf_counter)

    def lap(self, stage: str) -> None:
        """Book the time since the last lap to a stage."""
        now = time.perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self.last
        self.last = now


def solve(snapshot: Snapshot, *, search: bool = True, on_progress: Callable[[str], None] | None = None) -> Plan:
    """One round: which pending gangs start where, how good that provably is, and why the rest waits.

    `search=False` never touches CP-SAT and returns the best greedy plan with its bounds. `on_progress` gets one line
    per step. Every plan has passed the checker; a plan that hasn't raises InvalidPlanError. A search that fails costs
    its proofs: the answer is the greedy plan, and a warning says so.
    """
    progress = on_progress or (lambda line: None)
    if not search:
        return _round(snapshot, None, progress)
    try:
        return _round(snapshot, Budget(snapshot.policy), progress)
    except InvalidPlanError:
        raise
    except Exception as error:
        plan = _round(snapshot, None, progress)
        warning = f"the search failed ({type(error).__name__}: {error}); this is the greedy plan"
        return plan.model_copy(update={"warnings": (*plan.warnings, warning)})


def _round(snapshot: Snapshot, budget: Budget | None, progress: Callable[[str], None]) -> Plan:
    """The pipeline; without a budget nothing is searched."""
    clock = Clock()
    problem = encode(snapshot)
    clock.lap("encode")
    if budget is not None:
        preemptor = PREEMPTOR * problem.waiting if problem.victims.gangs else 0.0
        budget.kept = kept = min(ANSWER * clock.seconds["encode"] + preemptor, KEPT * snapshot.policy.time_limit_s)
    progress(f"{len(problem.node_names)} nodes, {problem.waiting} pending gangs")
    admitted = (admit_with_moves if movable(problem) else admit)(problem, budget, progress)
    admitted, greedy = with_preemptor(problem, admitted)
    admitted = no_dearer(problem, admitted, greedy)
    # All plans admit the same gangs: the later tiers tell them apart.
    plans = admitted.plans
    leaving = admitted.preemption.leaving
    values = {id(plan): tier_values(problem, plan, leaving) for plan in plans.values()}
    baseline = min(plans, key=lambda name: values[id(plans[name])])
    assignment = plans[baseline]
    if budget is not None and snapshot.policy.tolerance:
        admitted = trade_losses(problem, admitted, assignment, budget, progress)
        assignment = admitted.plans[baseline]
        budget.kept += KEPT_TO_TRADE * budget.remaining
    clock.lap("admission")
    while True:
        before = len(starting(problem, assignment)), tier_values(problem, assignment, admitted.preemption.leaving)
        improvement = _improvement(problem, assignment, admitted, budget, progress)
        results = improvement.run()
        assignment, admitted = fill_leftover(problem, improvement.assignment, admitted)
        assignment, preemption = trim(admitted.round(problem), assignment, admitted.preemption)
        if preemption is not admitted.preemption:
            admitted = replace(admitted, preemption=preemption)
            continue
        if assignment is improvement.assignment:
            break
        # More gangs start than the tiers were solved for: their bounds are no longer about this plan.
    if budget is not None and snapshot.policy.tolerance:
        budget.kept = kept
        assignment, results = _traded(problem, admitted, improvement, results, progress)
    clock.lap("tiers")
    nodes, gangs, _ = problem.size
    stats = Stats(
        sizes={"nodes": nodes, "pending": gangs, **improvement.sizes},
        baseline=baseline,
        improved=len(starting(problem, assignment)) > before[0] or tier_values(problem, assignment) < before[1],
        sources={**improvement.sources, **_rest_on_floats(admitted)},
        failures=tuple(improvement.failures),
    )
    plan = answer(problem, assignment, admitted, results, stats)
    clock.lap("answer")
    report = check(snapshot, plan)
    clock.lap("check")
    if not report.ok:
        raise InvalidPlanError("; ".join(violation.message for violation in report.violations[:5]))
    if snapshot.policy.deterministic:
        return plan
    seconds = {stage: round(value, 6) for stage, value in clock.seconds.items()}
    return plan.model_copy(update={"stats": plan.stats.model_copy(update={"seconds": seconds})})


def _traded(
    problem: Problem,
    admitted: Admission,
    improvement: Improvement | ContestedImprovement,
    results: list[TierResult],
    progress: Callable[[str], None],
) -> tuple[Assignment, list[TierResult]]:
    """The improvement's plan with what policy.tolerance lets it trade; as it was, if that would let others start."""
    preemption = admitted.preemption
    before = improvement.assignment, preemption.victims, dict(preemption.moved), dict(preemption.lost)
    traded = trade_distance(problem, improvement, results, progress)
    if fill_leftover(problem, improvement.assignment, admitted)[0] is improvement.assignment:
        return improvement.assignment, traded
    improvement.assignment, preemption.victims, preemption.moved, preemption.lost = before
    return improvement.assignment, results


def _rest_on_floats(admitted: Admission) -> dict[str, str]:
    """Tiers of gangs and victims whose proof is HiGHS' own; all others rest on integers."""
    tiers = ["broken" if priority is None else f"lost.p{priority}" for priority in admitted.preemption.uncertified]
    sources = dict.fromkeys(tiers, "HiGHS, to 1e-6")
    if admitted.doubtful:
        sources["admission"] = f"{admitted.doubtful} refused by HiGHS, to 1e-6"
    return sources


def _improvement(
    problem: Problem,
    assignment: Assignment,
    admitted: Admission,
    budget: Budget | None,
    progress: Callable[[str], None],
) -> Improvement | ContestedImprovement:
    preemption, reserved = admitted.preemption, admitted.round(problem)
    if not preemption.leaving:
        return Improvement(reserved, assignment, budget, progress)
    gangs = admitted.in_order(problem, assignment)
    kind = MovingImprovement if preemption.movers else ContestedImprovement
    return kind(reserved, gangs, preemption, assignment, budget, progress)


@dataclass(frozen=True)
class Row:
    """One strategy's result on a snapshot."""

    name: str
    """`solver`, or the name of a greedy strategy."""
    vector: tuple[int, ...]
    """Sort key of the lexicographic objective, admissions first; smaller is better."""
    values: dict[str, int]
    """Tier → value, in tier order."""
    seconds: float
    """Wall time from parsed snapshot to assignment (greedy) or to checked plan (solver)."""
    proven: bool
    """Whether the answer carries a proof that it is optimal."""


def compare(snapshot: Snapshot, on_progress: Callable[[str], None] | None = None) -> list[Row]:
    """The solver and every greedy strategy on one snapshot, the solver first.

    Greedy strategies preempt nobody and promise nothing; so that the same gangs may start, nor does the solver promise.
    """
    policy = snapshot.policy.model_copy(update={"reservation": "never"})
    snapshot = snapshot.model_copy(update={"policy": policy})
    started = time.perf_counter()
    plan = solve(snapshot, on_progress=on_progress)
    seconds = time.perf_counter() - started
    values = {tier.name: tier.value for tier in plan.tiers}
    turns = plan.considered[: len(snapshot.pending)]
    later = (value for name, value in values.items() if name != "admission" and not _of_victims(name))
    vector = (*(-turn.admitted for turn in turns), -values["admission"], *later)
    rows = [Row("solver", vector, values, seconds, plan.status == "optimal")]
    chosen = [{turn.gang for turn in turns if turn.admitted}]
    for name, strategy in STRATEGIES.items():
        started = time.perf_counter()
        problem = encode(snapshot)
        assignment = strategy(problem)
        seconds = time.perf_counter() - started
        own = dict(zip(tier_names(problem), tier_values(problem, assignment), strict=True))
        values = {"admission": len(assignment), "broken": 0, **own}
        turned = rank(problem, assignment)
        vector = (*turned[: len(turns)], -len(assignment), *turned[len(turns) :])
        rows.append(Row(name, vector, values, seconds, False))
        chosen.append({problem.gangs[j].name for j in assignment})
    return _by_shares(snapshot, rows, chosen) if snapshot.policy.order == "leximin" else rows


def _by_shares(snapshot: Snapshot, rows: list[Row], chosen: list[set[str]]) -> list[Row]:
    """The rows with the place of their shares, best first, ahead of the admissions: `leximin`'s objective."""
    problem = encode(snapshot)
    worths = [worth(problem, [j for j, gang in enumerate(problem.gangs) if gang.name in names]) for names in chosen]
    places = sorted(worths, reverse=True)
    return [replace(row, vector=(places.index(own), *row.vector)) for row, own in zip(rows, worths, strict=True)]


def _of_victims(tier: str) -> bool:
    return tier in ("broken", "moved", "moved_members") or tier.startswith("lost.")
