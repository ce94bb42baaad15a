"""Dearest filling of each spine at given prices: a knapsack of gangs and pieces inside a partition of its leaves.

Part of the configuration bound (`gangfit/solver/configurations.py`). Everything is int64 and exact.
"""

from numba import njit

FAR = 1 << 60


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _wholes(size, copies, worth, best, kind):
    """best[i, s]: most worth of the first i copies in s slots; kind[i]: type of copy i. Returns the copies that pay."""
    wide = best.shape[1]
    for s in range(wide):
        best[0, s] = 0
    layers = 0
    for k in range(size.shape[0]):
        if worth[k] <= 0:
            continue
        for _ in range(copies[k]):
            layers += 1
            kind[layers] = k
            for s in range(wide):
                value = best[layers - 1, s]
                if s >= size[k] and best[layers - 1, s - size[k]] + worth[k] > value:
                    value = best[layers - 1, s - size[k]] + worth[k]
                best[layers, s] = value
    return layers


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _pieces(room, longest, amount, number, top, value, last):
    """value[s]: most worth of copies (`top`) and pieces in s slots. last[s]: piece added last, 0 copies, −1 a gap."""
    for s in range(room + 1):
        value[s] = top[s]
        last[s] = 0
        if s > 0 and value[s - 1] > value[s]:
            value[s] = value[s - 1]
            last[s] = -1
        for a in range(1, min(s, longest) + 1):
            gain = amount * a + number
            if gain > 0 and value[s - a] + gain > value[s]:
                value[s] = value[s - a] + gain
                last[s] = a


@njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _parts(leaves, room, edge, value, held, parts, chosen):
    """parts[A]: most worth of leaf set A (bits), split into blocks or left out; chosen[A]: block of A's lowest."""
    parts[0] = 0
    held[0] = 0
    for here in range(1, 1 << leaves):
        low = here & -here
        rest = here ^ low
        at = 0
        while (low >> at) > 1:
            at += 1
        held[here] = held[rest] + room[at]
        best, block = parts[rest], 0
        sub = rest
        while True:
            extra, bits = 0, sub
            while bits:
                extra += edge
                bits &= bits - 1
            gain = value[held[sub] + room[at]] - extra
            if gain > 0 and gain + parts[rest ^ sub] > best:
                best, block = gain + parts[rest ^ sub], sub | low
            if sub == 0:
                break
            sub = (sub - 1) & rest
        parts[here] = best
        chosen[here] = block


@njit(cache=True, nogil=True, error_model="numpy")
def spine_fill(size, copies, worth, price, start, room, edge, longest, best, line, bits, worths, block, item, count):
    """Fill worths (P,), block (leaves,), item (P, X, 3), count (P,): each spine's dearest configuration.

    size, copies, worth (T,): slots, copies and worth of a gang that sits in one spine, its first leaf and the spine
    paid. price (P, 2): worth of a piece in a spine: per slot, and for the piece. start (P + 1,), room (leaves,): the
    leaves of each spine with room. edge: cost of a leaf that joins a block. longest: largest piece. best
    (J + 1, C + 1), line (3, max(J, C) + 1), bits (3, 2^most leaves): work. block: number of a leaf's block, −1 none.
    item: block, type (−1 a piece), slots.
    """
    layers = _wholes(size, copies, worth, best, line[0])
    for p in range(start.shape[0] - 1):
        low, leaves = start[p], start[p + 1] - start[p]
        total = 0
        for i in range(leaves):
            total += room[low + i]
            block[low + i] = -1
        _pieces(total, longest, price[p, 0], price[p, 1], best[layers], line[1], line[2])
        _parts(leaves, room[low:], edge, line[1], bits[0], bits[1], bits[2])
        rest = (1 << leaves) - 1
        worths[p] = bits[1][rest]
        blocks, items = 0, 0
        while rest:
            inside = bits[2][rest]
            if inside == 0:
                rest &= rest - 1
                continue
            for i in range(leaves):
                if (inside >> i) & 1:
                    block[low + i] = blocks
            s = bits[0][inside]
            while line[2, s] != 0:
                a = line[2, s]
                if a > 0:
                    item[p, items, 0], item[p, items, 1], item[p, items, 2] = blocks, -1, a
                    items += 1
                    s -= a
                else:
                    s -= 1
            for layer in range(layers, 0, -1):
                if best[layer, s] > best[layer - 1, s]:
                    k = line[0, layer]
                    item[p, items, 0], item[p, items, 1], item[p, items, 2] = blocks, k, size[k]
                    items += 1
                    s -= size[k]
            blocks += 1
            rest ^= inside
        count[p] = items


@njit(cache=True, nogil=True, error_model="numpy")
def spine_split(size, total, price, table, choice, cost, amount):
    """Fill cost (T,) and amount (T, P): cheapest way to split a gang of each size over two spines or more, else FAR.

    total (P,): slots of each spine. price (P, 2): per slot, and for the piece. table, choice (P + 1, 3, longest + 1):
    work; [i, c, s]: s slots in c pieces (2: or more) in the first i spines.
    """
    spines, wide = total.shape[0], table.shape[2]
    for c in range(3):
        for s in range(wide):
            table[0, c, s] = FAR
    table[0, 0, 0] = 0
    for i in range(spines):
        for c in range(3):
            for s in range(wide):
                table[i + 1, c, s] = table[i, c, s]
                choice[i + 1, c, s] = 0
        for c in range(3):
            after = min(c + 1, 2)
            for s in range(wide):
                before = table[i, c, s]
                if before >= FAR:
                    continue
                for a in range(1, min(total[i], wide - 1 - s) + 1):
                    value = before + price[i, 0] * a + price[i, 1]
                    if value < table[i + 1, after, s + a]:
                        table[i + 1, after, s + a] = value
                        choice[i + 1, after, s + a] = a if c < 2 else -a
    for k in range(size.shape[0]):
        for i in range(spines):
            amount[k, i] = 0
        cost[k] = FAR
        if size[k] < wide and size[k] > 1:
            cost[k] = table[spines, 2, size[k]]
        if cost[k] < FAR:
            c, s = 2, size[k]
            for i in range(spines, 0, -1):
                a = choice[i, c, s]
                if a != 0:
                    amount[k, i - 1] = abs(a)
                    s -= abs(a)
                    if a > 0:
                        c -= 1
