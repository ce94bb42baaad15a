"""Reduced costs: what a gang pays at least if it puts z members on a given leaf, above its cheapest spread.

Prefix and suffix min-plus convolutions around every leaf, from the price table of `min_plus` (docs/model.md).
"""

from numba import njit

FAR = 1 << 60


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _inside(vertex, members, first, last, entry, offset, needed, needed_offset, weight, price, table):
    """Cost of `members` ≥ 1 members inside a vertex, its own entry paid."""
    if first[vertex] < 0:
        at = needed_offset[vertex] + members - 1
        return entry[vertex] + weight * needed[at] + price[vertex] * members
    return entry[vertex] + table[offset[last[vertex] - 1] + members]


@njit(cache=True, nogil=True, error_model="numpy")
def outside(
    first,
    last,
    capacity,
    entry,
    offset,
    width,
    needed,
    needed_offset,
    weight,
    price,
    table,
    above,
    closed,
    inner,
    rest,
    sizes,
    best,
    result,
):
    """Fill result (sizes, len(needed)): reduced cost of z members on a leaf, for each gang size.

    above (V,): entries of a vertex's ancestors. closed (V,): 1 where nothing of the gang may lie outside. inner
    (inner vertices, most + 1) and rest (2, most + 1): work. sizes, best: gang sizes and their cheapest costs. The other
    arguments as in `min_plus`, its table filled.
    """
    most = rest.shape[1] - 1
    leaves = len(price)
    root = len(first) - 1
    for z in range(most + 1):
        inner[root - leaves, z] = FAR
    inner[root - leaves, 0] = 0
    for vertex in range(root, leaves - 1, -1):
        out = inner[vertex - leaves]
        for z in range(most + 1):
            rest[0, z] = out[z]
        for child in range(last[vertex] - 1, first[vertex] - 1, -1):
            # rest[0]: outside the vertex and on the children after this one; the table: on those before it.
            here = rest[1]
            if first[child] >= 0:
                here = inner[child - leaves]
            for z in range(most + 1):
                here[z] = FAR
            if closed[child]:
                here[0] = 0
            else:
                before, wide = 0, 0
                if child > first[vertex]:
                    before, wide = offset[child - 1], width[child - 1]
                for y in range(wide + 1):
                    cost = table[before + y] if child > first[vertex] else 0
                    if cost >= FAR:
                        continue
                    for z in range(most - y + 1):
                        value = cost + rest[0, z]
                        if value < here[y + z]:
                            here[y + z] = value
            if first[child] < 0:
                start = needed_offset[child]
                for z in range(1, min(capacity[child], most) + 1):
                    base = above[child] + entry[child] + weight * needed[start + z - 1] + price[child] * z
                    for s in range(len(sizes)):
                        left = sizes[s] - z
                        result[s, start + z - 1] = FAR
                        if left >= 0 and here[left] < FAR:
                            result[s, start + z - 1] = base + here[left] - best[s]
            # The child joins those after: from the largest z down, so that each is used once.
            for z in range(most, 0, -1):
                value = rest[0, z]
                for y in range(1, min(capacity[child], z) + 1):
                    if rest[0, z - y] < FAR:
                        cost = _inside(
                            child, y, first, last, entry, offset, needed, needed_offset, weight, price, table
                        )
                        if rest[0, z - y] + cost < value:
                            value = rest[0, z - y] + cost
                rest[0, z] = value
