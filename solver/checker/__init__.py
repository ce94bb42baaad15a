"""Independent checker of plans, written from docs/model.md; shares no code with model or greedy."""

from __future__ import annotations

from itertools import chain, islice

from gangfit.models import CheckReport, Plan, Snapshot, TierValue
from gangfit.solver.checker.case import Case
from gangfit.solver.checker.rules import RULES
from gangfit.solver.checker.tiers import tier_values

__all__ = ["MAX_VIOLATIONS", "check"]

MAX_VIOLATIONS = 1000
"""Most violations of one report; the rest is left out."""


def check(snapshot: Snapshot, plan: Plan) -> CheckReport:
    """Test a plan against every rule of docs/model.md and recompute its tier values.

    A caller's own plan may hold placements only; what else it states is checked too. Violations come in the order
    of the rules, at most `MAX_VIOLATIONS`. Tier values ignore placements with unknown gangs and members on unknown
    nodes. Raises nothing for a bad plan.
    """
    case = Case(snapshot, plan)
    violations = tuple(islice(chain.from_iterable(rule(case) for rule in RULES), MAX_VIOLATIONS))
    values = tuple(TierValue(name=name, value=value) for name, value in tier_values(case).items())
    return CheckReport(ok=not violations, violations=violations, tiers=values)
