"""The greedy rules, one gang at a time, and what a node's members change in the sums above it.

The rules are those of solver/greedy/, which define them; this is the same in compiled loops.

Arrays common to all functions: room (1 + Σ domains + N,) int64: members that the cluster, every domain of the named
levels, coarse → fine, and every node hold, level l from offset[l + 1] on. starts: first node of each domain, then N,
level l from first[l] on. domain (L + 1, N): each node's domain. nodes, counts: the answer, (N,) each, k of it filled.
"""

import numpy as np
from numba import njit

STEP = 1 << 40
NEVER = 1 << 62


@njit(cache=True, nogil=True, error_model="numpy")
def take(nodes, counts, request, free):
    """Take members × request (R,) from the free amounts (N, R) of some nodes."""
    for i in range(len(nodes)):
        for r in range(len(request)):
            free[nodes[i], r] -= counts[i] * request[r]


@njit(cache=True, nogil=True, error_model="numpy")
def follow(nodes, free, asks, request, allowed, known, cap, named, whole, room, offset, domain):
    """Work in what these nodes hold now. free (N, R); asks, request (R',): resources and amounts; whole (N,) uncapped.

    allowed, known (N,): nodes that the rules leave, nodes that the required level knows.
    """
    for n in nodes:
        most = NEVER
        for i in range(len(asks)):
            most = min(most, free[n, asks[i]] // request[i])
        if not allowed[n]:
            most = 0
        whole[n] = most
        holds = min(most, cap) if known[n] else 0
        more = holds - room[offset[named + 1] + n]
        if more != 0:
            room[offset[named + 1] + n] = holds
            room[0] += more
            for level in range(named):
                room[offset[level + 1] + domain[level, n]] += more


@njit(cache=True, nogil=True, error_model="numpy")
def _one(node, members, nodes, counts, k):
    nodes[k] = node
    counts[k] = members
    return k + 1


@njit(cache=True, nogil=True, error_model="numpy")
def _in_order(fits, low, high, members, nodes, counts, k):
    """Members on nodes `low … high − 1` in node order, each node filled before the next."""
    for n in range(low, high):
        if members == 0:
            break
        put = min(fits[n], members)
        if put > 0:
            k = _one(n, put, nodes, counts, k)
            members -= put
    return k


@njit(cache=True, nogil=True, error_model="numpy")
def _smallest(room, members):
    """The domain with least room that holds the members, −1 if there is none."""
    best = -1
    for d in range(len(room)):
        if room[d] >= members and (best < 0 or room[d] < room[best]):
            best = d
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def _hole(room, intact, members):
    """The smallest hole that takes the members, broken nodes first; −1 if there is none."""
    best, least = -1, NEVER
    for n in range(len(room)):
        if room[n] >= members:
            if room[n] == members and not intact[n]:
                return n
            size = room[n] + (STEP if intact[n] else 0)
            if size < least:
                best, least = n, size
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_nodes(fits, intact, low, high, members, nodes, counts, k):
    """Where members go on nodes `low … high − 1`: fewest nodes, broken before intact ones, best fit for the rest."""
    hole = _hole(fits[low:high], intact[low:high], members)
    if hole >= 0:
        return _one(low + hole, members, nodes, counts, k)
    left = fits[low:high].copy()
    order = np.argsort(intact[low:high] - 2 * left, kind="mergesort")
    for n in order:
        if left[n] >= members:
            hole = _hole(left, intact[low:high], members) if left[n] > members else n
            return _one(low + hole, members, nodes, counts, k)
        k = _one(low + n, left[n], nodes, counts, k)
        members -= left[n]
        left[n] = 0
    return k


@njit(cache=True, nogil=True, error_model="numpy")
def _children(level, d, named, starts, first, domain):
    """Range of domains of level + 1 inside a domain; level −1 is the whole cluster."""
    if level < 0:
        return 0, domain[0, -1] + 1
    low, high = starts[first[level] + d], starts[first[level] + d + 1]
    return domain[level + 1, low], domain[level + 1, high - 1] + 1


@njit(cache=True, nogil=True, error_model="numpy")
def _fewest(room, members):
    """Fewest domains with the given room that hold the members."""
    order = np.sort(room)
    count = 0
    for i in range(len(order) - 1, -1, -1):
        count += 1
        members -= order[i]
        if members <= 0:
            break
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def _tightest(level, low, left, members, named, room, offset, starts, first, domain):
    """Of domains `low …` with room `left`, where the members take fewest children; of these best fit."""
    holding = 0
    only = -1
    for i in range(len(left)):
        if left[i] >= members:
            holding += 1
            if only < 0:
                only = i
    if holding == 1:
        return low + only
    below = room[offset[level + 2] :]
    key = np.full(len(left), NEVER)
    atleast = np.zeros(len(left), dtype=np.int64)
    for i in range(len(left)):
        if left[i] >= members:
            start, end = _children(level, low + i, named, starts, first, domain)
            largest = 1
            for child in range(start, end):
                largest = max(largest, below[child])
            atleast[i] = -(-members // largest)
            key[i] = atleast[i] * STEP + left[i]
    while True:
        best = np.argmin(key)
        if atleast[best] <= 1:
            return low + best
        start, end = _children(level, low + best, named, starts, first, domain)
        few = _fewest(below[start:end], members)
        if few == atleast[best]:
            return low + best
        key[best] = few * STEP + left[best]
        atleast[best] = 0  # counted


@njit(cache=True, nogil=True, error_model="numpy")
def _whole(level, d, fits, starts, first, nodes, counts, k):
    """Every member that a domain holds."""
    for n in range(starts[first[level] + d], starts[first[level] + d + 1]):
        if fits[n] > 0:
            k = _one(n, fits[n], nodes, counts, k)
    return k


@njit(cache=True, nogil=True, error_model="numpy")
def _fill(level, d, members, named, room, offset, starts, first, domain, intact, nodes, counts):
    """Inside a domain that holds the members, over as few children as possible, level by level."""
    k = 0
    fits = room[offset[named + 1] :]
    while level < named - 1:
        low, high = _children(level, d, named, starts, first, domain)
        level += 1
        left = room[offset[level + 1] + low : offset[level + 1] + high].copy()
        if len(left) > 1 and left.max() < members:
            for i in np.argsort(-left, kind="mergesort"):
                if left[i] >= members:
                    break
                k = _whole(level, low + i, fits, starts, first, nodes, counts, k)
                members -= left[i]
                left[i] = 0
        d = _tightest(level, low, left, members, named, room, offset, starts, first, domain)
    if level == named:
        return _one(d, members, nodes, counts, k)
    if level < 0:
        return _fill_nodes(fits, intact, 0, len(fits), members, nodes, counts, k)
    low, high = starts[first[level] + d], starts[first[level] + d + 1]
    return _fill_nodes(fits, intact, low, high, members, nodes, counts, k)


@njit(cache=True, nogil=True, error_model="numpy")
def _best_fit(members, required, named, room, offset, starts, first, domain, whole, intact, nodes, counts):
    fits = room[offset[named + 1] :]
    best = -1
    for n in range(len(fits)):
        if fits[n] >= members and (best < 0 or whole[n] < whole[best]):
            best = n
    if best >= 0:
        return _one(best, members, nodes, counts, 0)
    found, at, least = -1, 0, NEVER
    for level in range(named - 1, max(required, 0) - 1, -1):
        rooms = room[offset[level + 1] : offset[level + 2]]
        d = _smallest(rooms, members)
        if d >= 0 and rooms[d] < least:
            found, at, least = level, d, rooms[d]
    return _fill(found, at, members, named, room, offset, starts, first, domain, intact, nodes, counts)


@njit(cache=True, nogil=True, error_model="numpy")
def _lexicographic(members, required, named, room, offset, starts, first, domain, intact, nodes, counts):
    if required < 0:
        return _fill(-1, 0, members, named, room, offset, starts, first, domain, intact, nodes, counts)
    fits = room[offset[named + 1] :]
    if required == named:
        return _fill_nodes(fits, intact, 0, len(fits), members, nodes, counts, 0)
    left = room[offset[required + 1] : offset[required + 2]]
    best = _tightest(required, 0, left, members, named, room, offset, starts, first, domain)
    return _fill(required, best, members, named, room, offset, starts, first, domain, intact, nodes, counts)


@njit(cache=True, nogil=True, error_model="numpy")
def _bottom_up(members, required, named, room, offset, starts, first, domain, intact, nodes, counts):
    fits = room[offset[named + 1] :]
    for level in range(named, max(required, 0) - 1, -1):
        if level == named:
            hole = _hole(fits, intact, members)
            if hole >= 0:
                return _one(hole, members, nodes, counts, 0)
            continue
        d = _smallest(room[offset[level + 1] : offset[level + 2]], members)
        if d >= 0:
            return _fill(level, d, members, named, room, offset, starts, first, domain, intact, nodes, counts)
    return _fill(-1, 0, members, named, room, offset, starts, first, domain, intact, nodes, counts)


@njit(cache=True, nogil=True, error_model="numpy")
def _free_nodes(fits, low, high):
    """Nodes `low … high − 1` that hold a member."""
    count = 0
    for n in range(low, high):
        count += fits[n] > 0
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def _leaf_by_leaf(low, high, members, named, room, offset, starts, first, nodes, counts):
    """Over the leaves `low … high − 1`."""
    fits = room[offset[named + 1] :]
    at = first[named - 1]
    left = room[offset[named] + low : offset[named] + high].copy()
    free = np.empty(high - low, dtype=np.int64)
    for i in range(high - low):
        free[i] = _free_nodes(fits, starts[at + low + i], starts[at + low + i + 1])
    k = 0
    for roomiest in np.argsort(-free, kind="mergesort"):
        if left[roomiest] == 0:
            continue
        last = -1
        for i in range(high - low):
            if left[i] >= members and (last < 0 or free[i] < free[last]):
                last = i
        leaf = low + (last if last >= 0 else roomiest)
        put = members if last >= 0 else left[roomiest]
        k = _in_order(fits, starts[at + leaf], starts[at + leaf + 1], put, nodes, counts, k)
        if last >= 0:
            break
        members -= put
        left[roomiest] = 0
    return k


@njit(cache=True, nogil=True, error_model="numpy")
def _lowest_switch(members, required, named, room, offset, starts, first, domain, nodes, counts):
    fits = room[offset[named + 1] :]
    leaf = named - 1
    if required == named:
        for n in range(len(fits)):
            if fits[n] >= members:
                return _one(n, members, nodes, counts, 0)
    for level in range(leaf, max(required, 0) - 1, -1):
        switch, least = -1, NEVER
        for d in range(offset[level + 2] - offset[level + 1]):
            if room[offset[level + 1] + d] >= members:
                free = _free_nodes(fits, starts[first[level] + d], starts[first[level] + d + 1])
                if free < least:
                    switch, least = d, free
        if switch >= 0:
            low, high = starts[first[level] + switch], starts[first[level] + switch + 1]
            if level == leaf:
                return _in_order(fits, low, high, members, nodes, counts, 0)
            leaves = domain[leaf, low], domain[leaf, high - 1] + 1
            return _leaf_by_leaf(leaves[0], leaves[1], members, named, room, offset, starts, first, nodes, counts)
    if leaf < 0:
        return _in_order(fits, 0, len(fits), members, nodes, counts, 0)
    return _leaf_by_leaf(0, domain[leaf, -1] + 1, members, named, room, offset, starts, first, nodes, counts)


@njit(cache=True, nogil=True, error_model="numpy")
def _rack_first(members, required, named, room, offset, starts, first, domain, nodes, counts):
    fits = room[offset[named + 1] :]
    rack = max(named - 1, 0, required)
    low, high = 0, offset[rack + 2] - offset[rack + 1]
    if 0 <= required < rack:
        home = 0
        while room[offset[required + 1] + home] < members:
            home += 1
        start, end = starts[first[required] + home], starts[first[required] + home + 1]
        low, high = domain[rack, start], domain[rack, end - 1] + 1
    rooms = room[offset[rack + 1] + low : offset[rack + 1] + high]
    at = first[rack] + low
    for d in range(len(rooms)):
        if rooms[d] >= members:
            return _in_order(fits, starts[at + d], starts[at + d + 1], members, nodes, counts, 0)
    k = 0
    for d in np.argsort(-rooms, kind="mergesort"):
        put = min(rooms[d], members)
        k = _in_order(fits, starts[at + d], starts[at + d + 1], put, nodes, counts, k)
        members -= put
        if members == 0:
            break
    return k


@njit(cache=True, nogil=True, error_model="numpy")
def place(rule, members, required, named, room, offset, starts, first, domain, whole, intact, nodes, counts):
    """Where a rule puts a gang that fits: fills nodes (ascending) and counts, returns how many.

    rule: 0 best_fit, 1 lexicographic, 2 bottom_up, 3 lowest_switch, 4 rack_first. required: level or −1. whole (N,):
    members each node holds whatever the gang's size. intact (N,) bool.
    """
    if rule == 0:
        k = _best_fit(members, required, named, room, offset, starts, first, domain, whole, intact, nodes, counts)
    elif rule == 1:
        k = _lexicographic(members, required, named, room, offset, starts, first, domain, intact, nodes, counts)
    elif rule == 2:
        k = _bottom_up(members, required, named, room, offset, starts, first, domain, intact, nodes, counts)
    elif rule == 3:
        k = _lowest_switch(members, required, named, room, offset, starts, first, domain, nodes, counts)
    else:
        k = _rack_first(members, required, named, room, offset, starts, first, domain, nodes, counts)
    ascending = True
    for i in range(1, k):
        ascending &= nodes[i - 1] < nodes[i]
    if not ascending:
        order = np.argsort(nodes[:k])
        nodes[:k] = nodes[:k][order]
        counts[:k] = counts[:k][order]
    return k


@njit(cache=True, nogil=True, error_model="numpy")
def _has_room(members, required, room, offset):
    if room[0] < members:
        return False
    return required < 0 or room[offset[required + 1] : offset[required + 2]].max() >= members


@njit(cache=True, nogil=True, error_model="numpy")
def row(
    rules, copies, members, required, needs, free, asks, request, allowed, known, cap, named, whole, room, offset,
    starts, first, domain, intact, nodes, counts, ends,
):  # fmt: skip
    """Place equal gangs one after the other while there is room and all rules agree; returns how many.

    needs (R,): a member's request, asks and request its positive entries. Gang i has nodes and counts
    ends[i − 1] … ends[i] − 1 of the answer, which has room for copies × min(members, N). free, whole and room follow.
    """
    others = np.empty(len(intact), dtype=np.int64)
    held_there = np.empty(len(intact), dtype=np.int64)
    end = 0
    for i in range(copies):
        if not _has_room(members, required, room, offset):
            return i
        mine, held = nodes[end:], counts[end:]
        k = place(rules[0], members, required, named, room, offset, starts, first, domain, whole, intact, mine, held)
        for rule in rules[1:]:
            more = place(
                rule, members, required, named, room, offset, starts, first, domain, whole, intact, others, held_there
            )
            if more != k:
                return i
            for x in range(k):
                if others[x] != mine[x] or held_there[x] != held[x]:
                    return i
        take(mine[:k], held[:k], needs, free)
        follow(mine[:k], free, asks, request, allowed, known, cap, named, whole, room, offset, domain)
        end += k
        ends[i] = end
    return copies
