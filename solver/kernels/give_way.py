"""Ruin and recreate on who gives way: gangs choose domains anew, victims leave for them as cheaply as need be.

Schrimpf et al., "Record Breaking Optimization Results Using the Ruin and Recreate Principle" (2000). A gang's option
costs what the victims cost that leave for it beside those who leave already: greedily by cost per slot, in single
victims or in all who hold one more slot together, and whoever turns out needless stays. Where victims and options are
compared, a victim's rank stands for its cost: less for one that the linear relaxation lets leave, as that sees all
rows at once. Every solution on the way keeps all rows. Arrays and their columns are described in
`gangfit/solver/victim_search.py`.
"""

import numpy as np
from numba import njit

# Lists: row of `start`; list a of kind k is index[start[k, a] : start[k, a + 1]], with coefficients in `value`.
NEEDS, HELPS, LIMITS, GAINS, FREES, MEMBERS, SLOTS, ASKS, OPTIONS = 0, 1, 2, 3, 4, 5, 6, 7, 8
# Columns of `victim`, `limit`, `slot`, `row`, `option`, `unit`.
COST, GONE, TABU, BEST, KEPT, RANK = 0, 1, 2, 3, 4, 5
ROOM, NEED, OF = 0, 1, 2
MOST, LEVEL, CHANGES, PRICED_AT, PRICE, MORE = 0, 1, 2, 3, 4, 5
HAVE, ASIDE = 0, 1
CEILING, COUNT = 0, 1
CHOICE, AT, BEST_AT, KEPT_AT = 0, 1, 2, 3
# Rows of `scratch`, entries of `control`.
LOG, LEAST_LOG, PICKS, TAKEN, ORDER, LACK = 0, 1, 2, 3, 4, 5
RANDOM, NOW, RECORD, PLACED = 0, 1, 2, 3
# Typed, so that every function is compiled once and not for each number it is given.
NOUGHT, ONE, MINUS, TWO, BIG = np.int64(0), np.int64(1), np.int64(-1), np.int64(2), np.int64(1 << 60)
# Options of a choice that are looked at: those that lack least, those that were cheapest on their own, any.
NEAR, CHEAP, ANY = 6, 5, 4
# Most gangs taken off at once, most victims that stay for the time being, per mille by which costs are blurred.
RUINED, STAYING, BLUR = np.int64(7), np.int64(2), np.int64(300)
# Per 100,000 above the record that a solution may be.
ABOVE = np.int64(2000)


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _random(control, below):
    """Park and Miller's generator: a number 0 … below − 1."""
    x = control[RANDOM] * 48271 % 2147483647
    control[RANDOM] = x
    return (x >> 4) % below


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _blurred(control, blur):
    """By how many thousandths a cost counts: 1000, and up to `blur` more at random."""
    return 1000 + _random(control, blur) if blur else 1000


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _move(v, sign, start, index, value, victim, limit, slot, row):
    """A victim leaves (sign 1) or stays after all (−1): room, slots and what rows have."""
    victim[v, GONE] = 1 if sign > 0 else 0
    for x in range(start[NEEDS, v], start[NEEDS, v + 1]):
        p = index[x]
        limit[p, ROOM] += sign * value[x]
        i = limit[p, OF]
        slot[i, CHANGES] += 1
        new = slot[i, MOST]
        for z in range(start[LIMITS, i], start[LIMITS, i + 1]):
            q = index[z]
            new = min(new, limit[q, ROOM] // limit[q, NEED])
        more = new - slot[i, LEVEL]
        if more != 0:
            slot[i, LEVEL] = new
            for z in range(start[GAINS, i], start[GAINS, i + 1]):
                row[index[z], HAVE] += more * value[z]
    for x in range(start[HELPS, v], start[HELPS, v + 1]):
        row[index[x], HAVE] += sign * value[x]


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _sit(y, sign, start, index, value, row, option):
    """A gang takes an option (sign 1) or leaves it (−1)."""
    option[y, COUNT] += sign
    for x in range(start[ASKS, y], start[ASKS, y + 1]):
        row[index[x], HAVE] -= sign * value[x]


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _room_with(p, count, start, index, value, limit, scratch):
    """Room of a limit once the picks have left, too."""
    room = limit[p, ROOM]
    for c in range(count):
        v = scratch[PICKS, c]
        for x in range(start[NEEDS, v], start[NEEDS, v + 1]):
            if index[x] == p:
                room += value[x]
    return room


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _together(i, start, index, value, victim, limit, slot, scratch):
    """Who leaves for one more of a slot, in PICKS: how many, and their rank; BIG: it can't be had."""
    count, total = NOUGHT, NOUGHT
    for z in range(start[LIMITS, i], start[LIMITS, i + 1]):
        p = index[z]
        lack = limit[p, NEED] * (slot[i, LEVEL] + 1) - _room_with(p, count, start, index, value, limit, scratch)
        while lack > 0:
            best, least, got = -1, 1e300, 0
            for x in range(start[MEMBERS, p], start[MEMBERS, p + 1]):
                v = index[x]
                if victim[v, GONE] or victim[v, TABU]:
                    continue
                rate = victim[v, RANK] / min(value[x], lack)
                if rate < least:
                    taken = False
                    for c in range(count):
                        taken = taken or scratch[PICKS, c] == v
                    if not taken:
                        best, least, got = v, rate, value[x]
            if best < 0:
                return 0, BIG
            scratch[PICKS, count] = best
            count += 1
            total += victim[best, RANK]
            lack -= got
    return count, total


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _price(i, start, index, value, victim, limit, slot, scratch):
    """What those cost in rank who have to leave for one more of a slot, and how many more there are then."""
    picks, slot[i, PRICE] = _together(i, start, index, value, victim, limit, slot, scratch)
    new = slot[i, MOST]
    for z in range(start[LIMITS, i], start[LIMITS, i + 1]):
        p = index[z]
        new = min(new, _room_with(p, picks, start, index, value, limit, scratch) // limit[p, NEED])
    slot[i, MORE] = max(ONE, new - slot[i, LEVEL])
    slot[i, PRICED_AT] = slot[i, CHANGES]


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _repair(r, most, blur, logged, start, index, value, victim, limit, slot, row, scratch, control):
    """Victims leave until a row has what it asks: entries in LOG, and their rank; BIG: can't, or not up to `most`."""
    total = 0
    while row[r, HAVE] < 0:
        lack = -row[r, HAVE]
        least, count = 1e300, NOUGHT
        for x in range(start[FREES, r], start[FREES, r + 1]):
            v = index[x]
            if 1000 * (victim[v, RANK] / value[x]) >= least:
                # Nobody after it is cheaper.
                break
            if victim[v, GONE] or victim[v, TABU]:
                continue
            rate = victim[v, RANK] / min(value[x], lack) * _blurred(control, blur)
            if rate < least:
                least, count = rate, ONE
                scratch[TAKEN, 0] = v
        group = MINUS
        for x in range(start[SLOTS, r], start[SLOTS, r + 1]):
            i = index[x]
            if slot[i, LEVEL] >= slot[i, MOST]:
                continue
            if slot[i, PRICED_AT] != slot[i, CHANGES]:
                _price(i, start, index, value, victim, limit, slot, scratch)
            if slot[i, PRICE] == BIG:
                continue
            rate = slot[i, PRICE] / min(value[x] * slot[i, MORE], lack)
            if 1000 * rate >= least:
                continue
            rate *= _blurred(control, blur)
            if rate < least:
                least, group = rate, i
        if group >= 0:
            count, _ = _together(group, start, index, value, victim, limit, slot, scratch)
            for k in range(count):
                scratch[TAKEN, k] = scratch[PICKS, k]
        if count == 0:
            return logged, BIG
        for k in range(count):
            v = scratch[TAKEN, k]
            total += victim[v, RANK]
            _move(v, ONE, start, index, value, victim, limit, slot, row)
            scratch[LOG, logged] = v
            logged += 1
        if total > most:
            return logged, BIG
    return logged, total


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _needed(v, start, index, value, limit, slot, row):
    """Whether a row would lack slots if a victim stayed after all: a quick look, place by place."""
    for x in range(start[HELPS, v], start[HELPS, v + 1]):
        if row[index[x], HAVE] < value[x] and not row[index[x], ASIDE]:
            return True
    for x in range(start[NEEDS, v], start[NEEDS, v + 1]):
        p = index[x]
        i = limit[p, OF]
        fewer = slot[i, LEVEL] - (limit[p, ROOM] - value[x]) // limit[p, NEED]
        if fewer > 0:
            for z in range(start[GAINS, i], start[GAINS, i + 1]):
                if row[index[z], HAVE] < fewer * value[z] and not row[index[z], ASIDE]:
                    return True
    return False


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _stays(v, start, index, value, victim, limit, slot, row):
    """A needless victim stays after all; whether it is one. No row may lack anything then, but those set aside."""
    if _needed(v, start, index, value, limit, slot, row):
        return False
    _move(v, MINUS, start, index, value, victim, limit, slot, row)
    for x in range(start[HELPS, v], start[HELPS, v + 1]):
        if row[index[x], HAVE] < 0 and not row[index[x], ASIDE]:
            _move(v, ONE, start, index, value, victim, limit, slot, row)
            return False
    for x in range(start[NEEDS, v], start[NEEDS, v + 1]):
        i = limit[index[x], OF]
        for z in range(start[GAINS, i], start[GAINS, i + 1]):
            if row[index[z], HAVE] < 0 and not row[index[z], ASIDE]:
                _move(v, ONE, start, index, value, victim, limit, slot, row)
                return False
    return True


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _spared(logged, start, index, value, victim, limit, slot, row, scratch):
    """Of those who left for an option the needless ones stay, the dearest first: entries in LOG, rank saved.

    Rows that lack something still don't count. Once is enough: who is needed while others leave is when fewer do.
    """
    for r in range(len(row)):
        row[r, ASIDE] = row[r, HAVE] < 0
    for k in range(1, logged):
        v, j = scratch[LOG, k], k
        while j > 0 and victim[scratch[LOG, j - 1], RANK] < victim[v, RANK]:
            scratch[LOG, j] = scratch[LOG, j - 1]
            j -= 1
        scratch[LOG, j] = v
    saved, kept = 0, NOUGHT
    for k in range(logged):
        v = scratch[LOG, k]
        if _stays(v, start, index, value, victim, limit, slot, row):
            saved += victim[v, RANK]
        else:
            scratch[LOG, kept] = v
            kept += 1
    return kept, saved


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _near(low, high, start, index, value, row, option, scratch):
    """The options that lack the fewest slots as things are, in ORDER, fewest first."""
    count = 0
    for x in range(low, high):
        y = index[x]
        if option[y, COUNT] >= option[y, CEILING]:
            continue
        lack = 0
        for z in range(start[ASKS, y], start[ASKS, y + 1]):
            lack += max(0, value[z] - max(0, row[index[z], HAVE]))
        k = min(count, NEAR - 1)
        if count == NEAR and scratch[LACK, k] <= lack:
            continue
        count = min(count + 1, NEAR)
        while k > 0 and scratch[LACK, k - 1] > lack:
            scratch[LACK, k] = scratch[LACK, k - 1]
            scratch[ORDER, k] = scratch[ORDER, k - 1]
            k -= 1
        scratch[LACK, k] = lack
        scratch[ORDER, k] = x
    for k in range(count, NEAR):
        scratch[ORDER, k] = low


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _insert(g, every, blur, start, index, value, victim, limit, slot, row, option, unit, scratch, control):
    """A gang takes its cheapest option; false if it has none. `every`: all are tried, and ranked for later."""
    low, high = start[OPTIONS, unit[g, CHOICE]], start[OPTIONS, unit[g, CHOICE] + 1]
    tries = high - low
    sampled = not every and tries > NEAR + CHEAP + ANY
    if sampled:
        tries = NEAR + CHEAP + ANY
        _near(low, high, start, index, value, row, option, scratch)
    best, least, kept = -1, BIG, NOUGHT
    for t in range(tries):
        x = low + t
        if sampled and t < NEAR:
            x = scratch[ORDER, t]
        elif sampled:
            x = low + (t - NEAR if t < NEAR + CHEAP else _random(control, high - low))
        y = index[x]
        if option[y, COUNT] >= option[y, CEILING]:
            continue
        _sit(y, ONE, start, index, value, row, option)
        logged, total = NOUGHT, NOUGHT
        for z in range(start[ASKS, y], start[ASKS, y + 1]):
            if total < BIG:
                most = BIG if least == BIG else least + least // 2 - total
                logged, cost = _repair(
                    index[z], most, blur, logged, start, index, value, victim, limit, slot, row, scratch, control
                )
                total = min(BIG, total + cost)
        if total < BIG:
            logged, saved = _spared(logged, start, index, value, victim, limit, slot, row, scratch)
            total -= saved
        if every:
            value[x] = total
        if total < least:
            best, least, kept = y, total, logged
            for k in range(logged):
                scratch[LEAST_LOG, k] = scratch[LOG, k]
        for k in range(logged):
            _move(scratch[LOG, k], MINUS, start, index, value, victim, limit, slot, row)
        _sit(y, MINUS, start, index, value, row, option)
        if least == 0 and not every:
            break
    if best < 0:
        return False
    _sit(best, ONE, start, index, value, row, option)
    unit[g, AT] = best
    for k in range(kept):
        _move(scratch[LEAST_LOG, k], ONE, start, index, value, victim, limit, slot, row)
    return True


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _fill(blur, start, index, value, victim, limit, slot, row, scratch, control):
    """Victims leave until every row has what it asks; false if that can't be."""
    for r in range(len(row)):
        if row[r, HAVE] >= 0:
            continue
        _, cost = _repair(r, BIG, blur, NOUGHT, start, index, value, victim, limit, slot, row, scratch, control)
        if cost == BIG:
            return False
    return True


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _trim(blur, start, index, value, victim, limit, slot, row, scratch, control):
    """Whoever is needless stays, the dearest first; the cost of the others."""
    row[:, ASIDE] = 0
    gone = NOUGHT
    for v in range(len(victim)):
        if victim[v, GONE]:
            scratch[ORDER, gone] = v
            scratch[LOG, gone] = -victim[v, COST] * _blurred(control, blur)
            gone += 1
    total = 0
    for k in scratch[LOG, :gone].argsort(kind="mergesort"):
        v = scratch[ORDER, k]
        if _stays(v, start, index, value, victim, limit, slot, row):
            continue
        total += victim[v, COST]
    return total


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _keep(victim, unit):
    """This is where the next iteration begins."""
    for v in range(len(victim)):
        victim[v, KEPT] = victim[v, GONE]
    for g in range(len(unit)):
        unit[g, KEPT_AT] = unit[g, AT]


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _back(start, index, value, victim, limit, slot, row, option, unit):
    """As it was before the iteration."""
    for v in range(len(victim)):
        if victim[v, GONE] != victim[v, KEPT]:
            _move(v, ONE if victim[v, KEPT] else MINUS, start, index, value, victim, limit, slot, row)
    for g in range(len(unit)):
        if unit[g, AT] != unit[g, KEPT_AT]:
            if unit[g, AT] >= 0:
                _sit(unit[g, AT], MINUS, start, index, value, row, option)
            unit[g, AT] = unit[g, KEPT_AT]
            _sit(unit[g, AT], ONE, start, index, value, row, option)


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _record(victim, unit):
    """This is the best so far."""
    victim[:, BEST] = victim[:, GONE]
    unit[:, BEST_AT] = unit[:, AT]


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _first(gangs, start, index, value, victim, limit, slot, row, option, unit, scratch, control):
    """So many gangs more of a first solution, in the order given: its cost, −1 unfinished, BIG if there is none.

    Options are ranked by their costs.
    """
    for _ in range(min(gangs, len(unit) - control[PLACED])):
        g = control[PLACED]
        if not _insert(g, ONE, NOUGHT, start, index, value, victim, limit, slot, row, option, unit, scratch, control):
            return BIG
        control[PLACED] += 1
    if control[PLACED] < len(unit):
        return -1
    for choice in range(start.shape[1] - 1):
        low, high = start[OPTIONS, choice], start[OPTIONS, choice + 1]
        order = value[low:high].argsort(kind="mergesort")
        index[low:high] = index[low:high][order]
    if not _fill(NOUGHT, start, index, value, victim, limit, slot, row, scratch, control):
        return BIG
    return _trim(NOUGHT, start, index, value, victim, limit, slot, row, scratch, control)


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _ruin(start, index, value, victim, limit, slot, row, option, unit, scratch, control):
    """Some gangs lose their options, some victims stay and can't leave for now; whoever is needless then stays, too."""
    for _ in range(1 + _random(control, RUINED) if len(unit) else 0):
        g = _random(control, len(unit))
        if unit[g, AT] >= 0:
            _sit(unit[g, AT], MINUS, start, index, value, row, option)
            unit[g, AT] = -1
    gone = NOUGHT
    for v in range(len(victim)):
        if victim[v, GONE]:
            scratch[ORDER, gone] = v
            gone += 1
    for _ in range(_random(control, STAYING + 1) if gone else 0):
        v = scratch[ORDER, _random(control, gone)]
        if victim[v, GONE]:
            victim[v, TABU] = 1
            _move(v, MINUS, start, index, value, victim, limit, slot, row)
    _trim(BLUR, start, index, value, victim, limit, slot, row, scratch, control)


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _recreate(start, index, value, victim, limit, slot, row, option, unit, scratch, control):
    """Every gang has an option and every row what it asks: the cost; BIG if that failed."""
    blur = BLUR * _random(control, TWO)
    if _random(control, TWO) and not _fill(blur, start, index, value, victim, limit, slot, row, scratch, control):
        return BIG
    shift = _random(control, len(unit)) if len(unit) and _random(control, TWO) else 0
    for k in range(len(unit)):
        g = (k + shift) % len(unit)
        if unit[g, AT] < 0 and not _insert(
            g, NOUGHT, blur, start, index, value, victim, limit, slot, row, option, unit, scratch, control
        ):
            return BIG
    if not _fill(blur, start, index, value, victim, limit, slot, row, scratch, control):
        return BIG
    return _trim(NOUGHT, start, index, value, victim, limit, slot, row, scratch, control)


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _released(start, index, victim, limit, slot):
    """Everybody may leave again."""
    for v in range(len(victim)):
        if victim[v, TABU]:
            victim[v, TABU] = 0
            for x in range(start[NEEDS, v], start[NEEDS, v + 1]):
                slot[limit[index[x], OF], CHANGES] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def give_way(iterations, start, index, value, victim, limit, slot, row, option, unit, scratch, control):
    """So many iterations, or gangs of a first solution while there is none. `control`: as it is now, the record."""
    if control[NOW] < 0:
        control[NOW] = _first(iterations, start, index, value, victim, limit, slot, row, option, unit, scratch, control)
        if 0 <= control[NOW] < BIG:
            control[RECORD] = control[NOW]
            _record(victim, unit)
        return
    for _ in range(iterations):
        _keep(victim, unit)
        _ruin(start, index, value, victim, limit, slot, row, option, unit, scratch, control)
        new = _recreate(start, index, value, victim, limit, slot, row, option, unit, scratch, control)
        _released(start, index, victim, limit, slot)
        if new < control[RECORD]:
            control[RECORD] = new
            _record(victim, unit)
        above = control[RECORD] // 100000 * _random(control, ABOVE)
        if new <= control[NOW] or new <= control[RECORD] + above:
            control[NOW] = new
        else:
            _back(start, index, value, victim, limit, slot, row, option, unit)
