"""Cheapest way to spread z members of one gang over a tree: a min-plus convolution per vertex, leaves to root.

The pricing step of the pattern bound (docs/model.md, "The fast path"); one table prices every gang size at once.
"""

from numba import njit


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _at(vertex, members, first, last, entry, offset, needed, needed_offset, weight, price, table):
    """Cost of `members` ≥ 1 members inside a vertex, its own entry paid."""
    if first[vertex] < 0:
        at = needed_offset[vertex] + members - 1
        return entry[vertex] + weight * needed[at] + price[vertex] * members
    return entry[vertex] + table[offset[last[vertex] - 1] + members]


@njit(cache=True, nogil=True, error_model="numpy")
def min_plus(first, last, capacity, entry, offset, width, needed, needed_offset, weight, price, table):
    """Fill `table`: for each child c the cost of z members on its parent's children up to and with c, z = 0 … width[c].

    first, last (V,): children of a vertex, −1 for leaves. capacity (V,): members a vertex holds. entry (V,): cost of
    touching it. offset, width (V,): where c's part of the table starts and its largest z. needed, needed_offset: nodes
    per z, ragged over leaves; weight: cost of a node. price (leaves,): price of a member. All int64.
    """
    far = 1 << 60
    for vertex in range(len(first)):
        if first[vertex] < 0:
            continue
        for child in range(first[vertex], last[vertex]):
            start = offset[child]
            for z in range(width[child] + 1):
                table[start + z] = far
            if child == first[vertex]:
                table[start] = 0
                before, wide = start, 0
            else:
                before, wide = offset[child - 1], width[child - 1]
                for z in range(wide + 1):
                    table[start + z] = table[before + z]
            for y in range(1, min(capacity[child], width[child]) + 1):
                cost = _at(child, y, first, last, entry, offset, needed, needed_offset, weight, price, table)
                if cost >= far:
                    continue
                if child == first[vertex]:
                    table[start + y] = cost
                    continue
                top = min(wide, width[child] - y)
                for x in range(top + 1):
                    value = table[before + x] + cost
                    if value < table[start + x + y]:
                        table[start + x + y] = value


@njit(cache=True, nogil=True, error_model="numpy")
def trace(
    vertex, members, first, last, capacity, entry, offset, width, needed, needed_offset, weight, price, table, amount
):
    """One cheapest spread of `members` inside a vertex: fills `amount` (V,), members per leaf."""
    for v in range(len(amount)):
        amount[v] = 0
    amount[vertex] = members
    for v in range(vertex, -1, -1):
        left = amount[v]
        if left == 0 or first[v] < 0:
            continue
        amount[v] = 0
        for child in range(last[v] - 1, first[v] - 1, -1):
            if left == 0:
                break
            target = table[offset[child] + left]
            if child == first[v]:
                amount[child] = left
                left = 0
                break
            before, wide = offset[child - 1], width[child - 1]
            if left <= wide and table[before + left] == target:
                continue
            for y in range(1, min(capacity[child], left) + 1):
                if left - y > wide:
                    continue
                cost = _at(child, y, first, last, entry, offset, needed, needed_offset, weight, price, table)
                if table[before + left - y] + cost == target:
                    amount[child] = y
                    left -= y
                    break
