"""The placement solver: snapshot in, proven plan out.

What an embedding scheduler needs, and nothing more: `solve`, `check`, `apply`, `explain`, `defragment`.
"""

from gangfit.solver.apply import apply
from gangfit.solver.checker import check
from gangfit.solver.defragment import defragment
from gangfit.solver.explain import explain
from gangfit.solver.round import InvalidPlanError, solve

__all__ = ["InvalidPlanError", "apply", "check", "defragment", "explain", "solve"]
