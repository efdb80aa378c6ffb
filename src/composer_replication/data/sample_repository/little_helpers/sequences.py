"""Functions on lists."""


def chunked(items, size):
    """Return the items as a list of lists of `size` items each; the last one may be shorter.

    >>> chunked([1, 2, 3, 4, 5], 2)
    [[1, 2], [3, 4], [5]]
    """
    items = list(items)
    chunks = []
    for start in range(0, len(items), size):
        chunks.append(items[start : start + size])
    return chunks


def flatten(lists):
    """Return the items of all the lists in one list.

    >>> flatten([[1, 2], [3]])
    [1, 2, 3]
    """
    flat = []
    for each in lists:
        flat.extend(each)
    return flat


def dedupe(items):
    """Return the items without repeats, in the order in which they first appear.

    >>> dedupe([3, 1, 3, 2, 1])
    [3, 1, 2]
    """
    seen = []
    for item in items:
        if item not in seen:
            seen.append(item)
    return seen


def running_total(numbers):
    """Return the list of the sums of the first, the first two, the first three numbers and so on.

    >>> running_total([1, 2, 3])
    [1, 3, 6]
    """
    totals = []
    total = 0
    for number in numbers:
        total += number
        totals.append(total)
    return totals


def rotate(items, steps):
    """Return the list with its first `steps` items moved to the end.

    >>> rotate([1, 2, 3, 4], 1)
    [2, 3, 4, 1]
    """
    items = list(items)
    if not items:
        return []
    steps = steps % len(items)
    return items[steps:] + items[:steps]


def interleave(first, second):
    """Return the items of both lists in turns; what is left of the longer one comes last.

    >>> interleave([1, 2, 3], ["a"])
    [1, 'a', 2, 3]
    """
    mixed = []
    for place in range(max(len(first), len(second))):
        mixed += first[place : place + 1]
        mixed += second[place : place + 1]
    return mixed


def partition(items, test):
    """Return two lists: the items for which test(item) is true, and the others.

    >>> partition([1, 2, 3, 4], lambda n: n > 2)
    ([3, 4], [1, 2])
    """
    chosen, others = [], []
    for item in items:
        if test(item):
            chosen.append(item)
        else:
            others.append(item)
    return chosen, others


def count_items(items):
    """Return a dictionary from each item to how often it is in the list.

    >>> count_items(["a", "b", "a"])
    {'a': 2, 'b': 1}
    """
    counts = {}
    for item in items:
        counts[item] = counts.get(item, 0) + 1
    return counts
