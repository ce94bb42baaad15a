"""Defragmentation: which domains can be emptied by moving the fewest gangs."""

from __future__ import annotations

from typing import Literal

from gangfit.models.plan import Move, Tier, Transition
from gangfit.models.scalars import Frozen, Moment, Name


class Defragmentation(Frozen):
    """How to empty whole domains of a level."""

    status: Literal["optimal", "feasible", "impossible", "undecided"]
    """optimal: no fewer gangs, then members, can be moved; feasible: that isn't proven; impossible: no moves do it,
    proven; undecided: none were found in time."""
    level: Name
    """Level of the domains."""
    wanted: int
    """Intact domains asked for."""
    candidates: int
    """Domains that could be emptied, each taken alone: nobody sits there who may not move, and nothing else is used."""
    intact_before: int
    """Intact domains of the level before any move."""
    domains: tuple[tuple[Name, ...], ...] = ()
    """Domains that are intact afterwards, as asked: path from the coarsest level down, node name last for `node`."""
    tiers: tuple[Tier, ...] = ()
    """`moved` and `moved_members`, with bounds."""
    moves: tuple[Move, ...] = ()
    """Running gangs that go on elsewhere; they are for no gang."""
    transitions: tuple[Transition, ...] = ()
    """Every stop and start, in an order in which each step fits."""
    time_s: Moment = 0
    """Instant of the snapshot."""
