"""Ruin and recreate on nodes: take a few related gangs off, insert them again cheaply, keep what isn't worse.

Schrimpf et al., "Record Breaking Optimization Results Using the Ruin and Recreate Principle" (2000). Insertion fills
the fewest children of a vertex: a subset-sum recursion over leaves, a min-plus recursion over the vertices above.
Every rule is kept at every step, since space is counted per node and resource. Everything is int64; the arrays and
their columns are described in `gangfit/solver/local_search.py`.
"""

from numba import njit

# Columns of `node` (N, 4 + R), `vertex` (V, 13), `gang` (J, 8); rows of `state`.
LEAF, INTACT, HOSTS, OWNER, FREE = 0, 1, 2, 3, 4
FIRST, LAST, PARENT, LEVEL, KNOWN, NODE0, NODE1, LEAF0, LEAF1, CROSS, LOST, STAMP, WHOLE = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    10,
    11,
    12,
)
SHAPE, MEMBERS, REQUIRED, PREFERRED, OFFSET, LENGTH, BEST, SAVED = 0, 1, 2, 3, 4, 5, 6, 7
CONTROL, VALUE, RECORD, WEIGHT, BEFORE = 0, 1, 2, 3, 4
# Row CONTROL: random state, stamp, accepted.
BIG = 1 << 40


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _random(state, below):
    """Park and Miller's generator: a number 0 … below − 1."""
    x = state[CONTROL, 0] * 48271 % 2147483647
    state[CONTROL, 0] = x
    return (x >> 4) % below


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _book(j, sign, named, node, vertex, gang, slot, room, capacity, allowed, request, scratch, state):
    """Put a gang on the nodes of its slots (sign 1) or take it off (−1): space, counters and tier values."""
    begin, count = gang[j, OFFSET], gang[j, LENGTH]
    stamp = state[CONTROL, 1] + 1
    state[CONTROL, 1] = stamp
    shape = gang[j, SHAPE]
    listed = 0
    shapes, resources = request.shape[0], request.shape[1]
    for level in range(named):
        scratch[0, level] = 0
    i, end = begin, begin + count
    while i < end:
        # One leaf at a time: what changes above it is passed up once.
        leaf = node[slot[0, i], LEAF]
        v = leaf
        while v >= 0 and 0 <= vertex[v, LEVEL] < named and vertex[v, STAMP] != stamp:
            vertex[v, STAMP] = stamp
            scratch[1, listed] = v
            listed += 1
            scratch[0, vertex[v, LEVEL]] += 1
            v = vertex[v, PARENT]
        lost = 0
        for s in range(shapes):
            scratch[7, s] = 0
        while i < end and node[slot[0, i], LEAF] == leaf:
            n, members = slot[0, i], slot[1, i]
            i += 1
            before = node[n, HOSTS]
            node[n, HOSTS] = before + sign * members
            if node[n, INTACT] and (before == 0 or node[n, HOSTS] == 0):
                lost += sign
            node[n, OWNER] = j if sign > 0 else -1
            for r in range(resources):
                node[n, FREE + r] -= sign * members * request[shape, r]
            for s in range(shapes):
                if allowed[s, n]:
                    now = BIG
                    for r in range(resources):
                        if request[s, r]:
                            now = min(now, node[n, FREE + r] // request[s, r])
                    scratch[7, s] += now - room[s, n]
                    room[s, n] = now
        for s in range(shapes):
            change = scratch[7, s]
            v = leaf
            while change != 0 and v >= 0:
                capacity[s, v] += change
                v = vertex[v, PARENT]
        if lost:
            state[VALUE, 3 + named] += lost
            v = leaf
            while v >= 0 and 0 <= vertex[v, LEVEL] < named:
                before = vertex[v, LOST]
                vertex[v, LOST] = before + lost
                if vertex[v, WHOLE] and (before == 0) != (before + lost == 0):
                    state[VALUE, 3 + vertex[v, LEVEL]] += 1 if before == 0 else -1
                v = vertex[v, PARENT]
    for i in range(listed):
        v = scratch[1, i]
        if scratch[0, vertex[v, LEVEL]] > 1:
            before = vertex[v, CROSS]
            vertex[v, CROSS] = before + sign
            state[VALUE, 2] += max(before + sign - 1, 0) - max(before - 1, 0)
    for level in range(named):
        state[VALUE, 1] += sign * state[WEIGHT, level] * (scratch[0, level] - 1)
        if gang[j, PREFERRED] == level:
            state[VALUE, 0] += sign * (scratch[0, level] - 1)
    state[VALUE, 1] += sign * state[WEIGHT, named] * (count - 1)
    if gang[j, PREFERRED] == named:
        state[VALUE, 0] += sign * (count - 1)


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _fewest(low, high, members, capacity, work):
    """Fewest of the vertices low … high − 1 that hold so many members."""
    size = high - low
    for i in range(size):
        work[i] = capacity[low + i]
    taken = 0
    while members > 0 and taken < size:
        top = 0
        for i in range(1, size):
            if work[i] > work[top]:
                top = i
        if work[top] <= 0:
            return BIG
        members -= work[top]
        work[top] = 0
        taken += 1
    return taken if members <= 0 else BIG


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _fill_leaf(leaf, members, end, mode, node, vertex, room, slot, state):
    """Members onto a leaf's nodes: mode 0 fewest nodes, 1 smallest holes first. Broken nodes before intact ones."""
    low, high = vertex[leaf, NODE0], vertex[leaf, NODE1]
    begin = end
    last = low + _random(state, high - low) if mode == 1 else low
    while members > 0:
        pick, best = -1, -BIG
        for step in range(high - low):
            n = last + step
            if n >= high:
                n -= high - low
            here = room[n]
            if here <= 0:
                continue
            used = False
            for i in range(begin, end):
                if slot[0, i] == n:
                    used = True
                    break
            if used:
                continue
            key = -2 * here - node[n, INTACT] * (BIG >> 10)
            if mode == 0:
                key = ((BIG >> 8) - 2 * here if here >= members else 2 * here) - node[n, INTACT]
            if key > best:
                pick, best = n, key
                if here == 1 and mode == 0 and members == 1 and not node[n, INTACT]:
                    break
        if pick < 0:
            return -1
        take = min(room[pick], members)
        slot[0, end] = pick
        slot[1, end] = take
        end += 1
        members -= take
    return end


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _fill_unit_leaf(leaf, members, end, node, vertex, room, slot, state):
    """As `_fill_leaf` where every node holds one member at most: any nodes, broken ones first."""
    low, high = vertex[leaf, NODE0], vertex[leaf, NODE1]
    start = _random(state, high - low)
    for intact in range(2):
        for step in range(high - low):
            if members == 0:
                return end
            n = low + start + step
            if n >= high:
                n -= high - low
            if room[n] > 0 and node[n, INTACT] == intact:
                slot[0, end] = n
                slot[1, end] = 1
                end += 1
                members -= 1
    return end if members == 0 else -1


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _over_leaves(low, high, members, capacity, amount, table, work, noise, state):
    """Amounts over as few leaves as possible: one best fit, an exact sum of whole leaves, or whole ones and a rest."""
    size = high - low
    pick, best = -1, BIG
    for i in range(size):
        amount[i] = 0
        here = capacity[low + i]
        if here >= members:
            key = (here - members) * 8 + _random(state, 8 * noise + 1)
            if key < best:
                pick, best = i, key
    if pick >= 0:
        amount[pick] = members
        return True
    fewest = _fewest(low, high, members, capacity, work)
    if fewest >= BIG:
        return False
    if size * (members + 1) <= table.shape[1]:
        # table[0, i·(m+1) + k]: fewest whole leaves among the first i + 1 with k members in all.
        wide = members + 1
        shift = _random(state, size)
        for i in range(size):
            here = capacity[low + (i + shift) % size]
            for k in range(wide):
                value = (0 if k == 0 else BIG) if i == 0 else table[0, (i - 1) * wide + k]
                if 0 < here <= k:
                    before = (0 if k == here else BIG) if i == 0 else table[0, (i - 1) * wide + k - here]
                    value = min(value, before + 1)
                table[0, i * wide + k] = value
        if table[0, (size - 1) * wide + members] <= fewest:
            k = members
            for i in range(size - 1, -1, -1):
                here = capacity[low + (i + shift) % size]
                kept = (0 if k == 0 else BIG) if i == 0 else table[0, (i - 1) * wide + k]
                if kept != table[0, i * wide + k]:
                    amount[(i + shift) % size] = here
                    k -= here
            return True
    for i in range(size):
        work[i] = capacity[low + i]
    left = members
    while left > 0:
        pick, best = -1, BIG
        for i in range(size):
            if work[i] >= left:
                key = (work[i] - left) * 8 + _random(state, 8 * noise + 1)
                if key < best:
                    pick, best = i, key
        if pick < 0:
            best = -1
            for i in range(size):
                key = work[i] * 8 + _random(state, 8 * noise + 1) if work[i] > 0 else -1
                if key > best:
                    pick, best = i, key
            if pick < 0:
                return False
        take = min(work[pick], left)
        amount[pick] += take
        work[pick] = 0
        left -= take
    return True


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _over_vertices(v, members, weight, leaf_weight, vertex, capacity, amount, table, work, noise, state):
    """Amounts over the inner children of a vertex when none holds all: min-plus over a dozen candidates."""
    low, high = vertex[v, FIRST], vertex[v, LAST]
    for c in range(low, high):
        amount[c - low] = 0
    # Candidates: a random start, then children in turn, until there is room for the gang and a half; the largest first.
    wide = members + 1
    most = max(table.shape[1] // wide - 1, 1)
    chosen, total = 0, 0
    for c in range(low, high):
        work[c - low] = capacity[c] if capacity[c] > 0 else 0
    largest = _random(state, 4) > 0
    while chosen < min(most, 12) or total < members:
        pick, best = -1, 0
        for c in range(low, high):
            if work[c - low] > 0:
                key = work[c - low] * 16 + _random(state, 8 * noise + 1)
                if not largest or chosen > 5:
                    key = 1 + _random(state, 1 << 20)
                if key > best:
                    pick, best = c, key
        if pick < 0:
            break
        total += work[pick - low]
        work[pick - low] = 0
        table[2, chosen] = pick
        chosen += 1
    if total < members:
        return False
    if chosen > most:
        # Too large a table: whole children, largest first.
        left = members
        for i in range(chosen):
            c = table[2, i]
            amount[c - low] = min(capacity[c], left)
            left -= amount[c - low]
        return left == 0
    for k in range(wide):
        table[0, k] = BIG
    table[0, 0] = 0
    for i in range(chosen):
        c = table[2, i]
        old, new = i * wide, (i + 1) * wide
        for k in range(wide):
            table[0, new + k] = table[0, old + k]
            table[1, new + k] = 0
        # Cost of y members in c: leaves by size, descending.
        first, last = vertex[c, LEAF0], vertex[c, LEAF1]
        for x in range(first, last):
            work[x - first] = capacity[x]
        y, count = 0, 0
        penalty = _random(state, 4 * noise + 1)
        limit = min(members, capacity[c])
        while y < limit:
            top = 0
            for x in range(1, last - first):
                if work[x] > work[top]:
                    top = x
            step = work[top]
            work[top] = 0
            count += 1
            for z in range(y + 1, min(y + step, limit) + 1):
                whole = 0 if z == capacity[c] else 2 + penalty
                cost = 64 * (weight + leaf_weight * count) + whole
                for k in range(members - z + 1):
                    value = table[0, old + k] + cost
                    if value < table[0, new + k + z]:
                        table[0, new + k + z] = value
                        table[1, new + k + z] = z
            y += step
            if step <= 0:
                break
    if table[0, chosen * wide + members] >= BIG:
        return False
    k = members
    for i in range(chosen, 0, -1):
        z = table[1, i * wide + k]
        amount[table[2, i - 1] - low] = z
        k -= z
    return k == 0


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _insert(j, named, noise, node, vertex, gang, slot, room, capacity, scratch, table, state):
    """Choose nodes for a gang into its slots; False if there is no room. Nothing is booked."""
    shape, members, required = gang[j, SHAPE], gang[j, MEMBERS], gang[j, REQUIRED]
    room_s, capacity_s = room[shape], capacity[shape]
    begin = gang[j, OFFSET]
    end = begin
    prefer = gang[j, PREFERRED]
    root = vertex.shape[0] - 1
    mode = 1 if (state[WEIGHT, named] == 0 and prefer != named) or _random(state, 16) == 0 else 0
    leaf_weight = state[WEIGHT, named - 1] + (1000 if prefer == named - 1 else 0) if named > 0 else 0
    start = root
    if required == named:
        pick, best = -1, BIG
        for leaf in range(vertex[root, LEAF1]):
            if capacity_s[leaf] < members:
                continue
            for n in range(vertex[leaf, NODE0], vertex[leaf, NODE1]):
                if room_s[n] >= members:
                    key = (room_s[n] + 64 * node[n, INTACT]) * 8 + _random(state, 8 * noise + 1)
                    if key < best:
                        pick, best = n, key
        if pick < 0:
            return False
        slot[0, begin] = pick
        slot[1, begin] = members
        gang[j, LENGTH] = 1
        return True
    if required >= 0:
        start, best = -1, BIG
        for v in range(vertex.shape[0]):
            if vertex[v, LEVEL] == required and vertex[v, KNOWN] and capacity_s[v] >= members:
                key = _random(state, 64 * noise + 1) + 64 * (capacity_s[v] - members)
                if vertex[v, FIRST] >= 0:
                    key += 4096 * _fewest(vertex[v, LEAF0], vertex[v, LEAF1], members, capacity_s, scratch[2])
                if key < best:
                    start, best = v, key
        if start < 0:
            return False
    elif capacity_s[root] < members:
        return False
    # A stack of (vertex, members) still to be spread.
    scratch[3, 0] = start
    scratch[4, 0] = members
    depth = 1
    while depth > 0:
        depth -= 1
        v, left = scratch[3, depth], scratch[4, depth]
        if vertex[v, FIRST] < 0:
            unit = True
            for n in range(vertex[v, NODE0], vertex[v, NODE1]):
                if room_s[n] > 1:
                    unit = False
                    break
            if unit:
                end = _fill_unit_leaf(v, left, end, node, vertex, room_s, slot, state)
            else:
                end = _fill_leaf(v, left, end, mode, node, vertex, room_s, slot, state)
            if end < 0:
                return False
            continue
        low, high = vertex[v, FIRST], vertex[v, LAST]
        if vertex[low, FIRST] < 0:
            if not _over_leaves(low, high, left, capacity_s, scratch[5], table, scratch[2], noise, state):
                return False
        else:
            level = vertex[low, LEVEL]
            weight = state[WEIGHT, level] + (1000 if prefer == level else 0)
            pick, best = -1, BIG
            for c in range(low, high):
                scratch[5, c - low] = 0
                if capacity_s[c] >= left:
                    few = _fewest(vertex[c, LEAF0], vertex[c, LEAF1], left, capacity_s, scratch[2])
                    key = few * 4096 + min(capacity_s[c] - left, 255) * 8 + _random(state, 256 * noise + 1)
                    if key < best:
                        pick, best = c, key
            if pick >= 0:
                scratch[5, pick - low] = left
            elif not _over_vertices(
                v, left, weight, leaf_weight, vertex, capacity_s, scratch[5], table, scratch[2], noise, state
            ):
                return False
        for c in range(low, high):
            if scratch[5, c - low] > 0:
                scratch[3, depth] = c
                scratch[4, depth] = scratch[5, c - low]
                depth += 1
    gang[j, LENGTH] = end - begin
    return True


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _ruin(most, node, vertex, gang, slot, scratch, state):
    """Pick a gang and others near it: gangs of a random spine or leaf that it touches, or of anywhere."""
    gangs = gang.shape[0]
    wanted = 1 + _random(state, most)
    seed = _random(state, gangs)
    count = 1
    scratch[6, 0] = seed
    for _ in range(4 * most):
        if count >= wanted:
            break
        kind = _random(state, 8)
        anchor = scratch[6, _random(state, count)]
        if kind == 0:
            other = _random(state, gangs)
        else:
            at = gang[anchor, OFFSET] + _random(state, gang[anchor, LENGTH])
            v = node[slot[0, at], LEAF]
            if kind > 2 and vertex[v, PARENT] >= 0:
                v = vertex[v, PARENT]
            other = node[vertex[v, NODE0] + _random(state, vertex[v, NODE1] - vertex[v, NODE0]), OWNER]
        if other < 0:
            continue
        fresh = True
        for i in range(count):
            if scratch[6, i] == other:
                fresh = False
                break
        if fresh:
            scratch[6, count] = other
            count += 1
    return count


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _accept(focus, tiers, heat, state):
    """Whether the new values may replace the old: no earlier tier worse than the record, the focus hardly worse."""
    for tier in range(focus):
        if state[VALUE, tier] > state[RECORD, tier]:
            return False
    for tier in range(focus, tiers):
        change = state[VALUE, tier] - state[BEFORE, tier]
        if change < 0:
            return True
        if change > 0:
            if tier > focus:
                return heat > 0 and _random(state, 2) == 0
            # Worse by the temperature's step with chance heat/256, by twice the step with its square, …
            step = state[CONTROL, 3]
            while change > 0:
                if _random(state, 256) >= heat:
                    return False
                change -= step
            return True
        if focus < 2 and tier == 1:
            return True
    return True


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _record(tiers, gang, slot, state):
    """Keep the current plan if it is the best so far, all tiers in order."""
    for tier in range(tiers):
        if state[VALUE, tier] > state[RECORD, tier]:
            return False
        if state[VALUE, tier] < state[RECORD, tier]:
            break
        if tier == tiers - 1:
            return False
    for tier in range(tiers):
        state[RECORD, tier] = state[VALUE, tier]
    for j in range(gang.shape[0]):
        gang[j, BEST] = gang[j, LENGTH]
        for i in range(gang[j, OFFSET], gang[j, OFFSET] + gang[j, LENGTH]):
            slot[2, i] = slot[0, i]
            slot[3, i] = slot[1, i]
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def ruin_recreate(
    rounds,
    focus,
    heat,
    most,
    target,
    named,
    node,
    vertex,
    gang,
    slot,
    room,
    capacity,
    allowed,
    request,
    scratch,
    table,
    state,
):
    """Up to `rounds` iterations, stopping when the record of tier `focus` reaches `target`. Returns rounds done.

    `heat` / 256: chance to accept a plan worse by one step. `most`: most gangs taken off at once.
    """
    tiers = 4 + named
    for done in range(rounds):
        if state[RECORD, focus] <= target:
            return done
        for tier in range(tiers):
            state[BEFORE, tier] = state[VALUE, tier]
        noise = 1 if _random(state, 4) == 0 else 0
        count = _ruin(most, node, vertex, gang, slot, scratch, state)
        sort = _random(state, 4) > 0
        for i in range(count):
            j = scratch[6, i]
            _book(j, -1, named, node, vertex, gang, slot, room, capacity, allowed, request, scratch, state)
            gang[j, SAVED] = gang[j, LENGTH]
            for k in range(gang[j, OFFSET], gang[j, OFFSET] + gang[j, LENGTH]):
                slot[4, k] = slot[0, k]
                slot[5, k] = slot[1, k]
        for i in range(1, count):
            # Largest first, or as drawn.
            k = i
            while sort and k > 0 and gang[scratch[6, k], MEMBERS] > gang[scratch[6, k - 1], MEMBERS]:
                other = scratch[6, k]
                scratch[6, k] = scratch[6, k - 1]
                scratch[6, k - 1] = other
                k -= 1
        placed = 0
        while placed < count:
            j = scratch[6, placed]
            if not _insert(j, named, noise, node, vertex, gang, slot, room, capacity, scratch, table, state):
                break
            _book(j, 1, named, node, vertex, gang, slot, room, capacity, allowed, request, scratch, state)
            placed += 1
        if placed == count and _accept(focus, tiers, heat, state):
            _record(tiers, gang, slot, state)
            continue
        for i in range(placed):
            _book(scratch[6, i], -1, named, node, vertex, gang, slot, room, capacity, allowed, request, scratch, state)
        for i in range(count):
            j = scratch[6, i]
            gang[j, LENGTH] = gang[j, SAVED]
            for k in range(gang[j, OFFSET], gang[j, OFFSET] + gang[j, LENGTH]):
                slot[0, k] = slot[4, k]
                slot[1, k] = slot[5, k]
            _book(j, 1, named, node, vertex, gang, slot, room, capacity, allowed, request, scratch, state)
    return rounds
