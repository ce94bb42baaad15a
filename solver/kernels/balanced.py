"""Most parts of a multiset of signed numbers that each sum to zero: a recursion over sub-multisets.

The count behind the exact-sum bound of full clusters (docs/model.md, "The fast path").
"""

from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def balanced(count, value, stride, digit, parts):
    """Fill parts (states,) uint16; returns the most zero-sum parts of the whole multiset.

    count, value (T,): how often each number occurs, and the number. stride (T,): mixed radix, Π (count + 1) of those
    before. digit (T,): work, zero. State Σ digit·stride is the sub-multiset with so many of each. A chain of
    sub-multisets that grows by one passes a zero sum once per part, in the best order of the parts.
    """
    kinds = len(count)
    total = 0
    parts[0] = 0
    for state in range(1, len(parts)):
        t = 0
        while digit[t] == count[t]:
            total -= digit[t] * value[t]
            digit[t] = 0
            t += 1
        digit[t] += 1
        total += value[t]
        best = 0
        for t in range(kinds):
            if digit[t] > 0 and parts[state - stride[t]] > best:
                best = parts[state - stride[t]]
        parts[state] = best + 1 if total == 0 else best
    return parts[len(parts) - 1]
