from little_helpers.sequences import (
    chunked,
    count_items,
    dedupe,
    flatten,
    interleave,
    partition,
    rotate,
    running_total,
)


def test_chunked_evenly():
    assert chunked([1, 2, 3, 4], 2) == [[1, 2], [3, 4]]


def test_chunked_with_a_rest():
    assert chunked([1, 2, 3], 2) == [[1, 2], [3]]


def test_chunked_of_nothing():
    assert chunked([], 3) == []


def test_chunked_by_one():
    assert chunked("abc", 1) == [["a"], ["b"], ["c"]]


def test_chunked_larger_than_list():
    assert chunked([1, 2], 5) == [[1, 2]]


def test_chunked_of_a_range():
    assert chunked(range(6), 3) == [[0, 1, 2], [3, 4, 5]]


def test_flatten_of_two():
    assert flatten([[1], [2, 3]]) == [1, 2, 3]


def test_flatten_of_nothing():
    assert flatten([]) == []


def test_flatten_with_empty_lists():
    assert flatten([[], [7], []]) == [7]


def test_flatten_of_tuples():
    assert flatten([(1, 2), (3,)]) == [1, 2, 3]


def test_flatten_keeps_deeper_lists():
    assert flatten([[[1]], [2]]) == [[1], 2]


def test_flatten_of_texts():
    assert flatten(["ab", "c"]) == ["a", "b", "c"]


def test_dedupe_of_numbers():
    assert dedupe([1, 1, 2]) == [1, 2]


def test_dedupe_keeps_order():
    assert dedupe(["b", "a", "b"]) == ["b", "a"]


def test_dedupe_of_equal_items():
    assert dedupe([7, 7, 7]) == [7]


def test_dedupe_of_letters():
    assert dedupe("hello") == ["h", "e", "l", "o"]


def test_dedupe_of_lists():
    assert dedupe([[1], [1], [2]]) == [[1], [2]]


def test_dedupe_of_a_long_list():
    assert dedupe(list(range(3)) * 3) == [0, 1, 2]


def test_running_total_of_ones():
    assert running_total([1, 1, 1]) == [1, 2, 3]


def test_running_total_of_nothing():
    assert running_total([]) == []


def test_running_total_of_one():
    assert running_total([9]) == [9]


def test_running_total_with_negatives():
    assert running_total([5, -2, 4]) == [5, 3, 7]


def test_running_total_of_floats():
    assert running_total([0.5, 0.5]) == [0.5, 1.0]


def test_running_total_of_a_range():
    assert running_total(range(5)) == [0, 1, 3, 6, 10]


def test_rotate_by_two():
    assert rotate([1, 2, 3, 4], 2) == [3, 4, 1, 2]


def test_rotate_by_none():
    assert rotate([1, 2, 3], 0) == [1, 2, 3]


def test_rotate_all_around():
    assert rotate([1, 2, 3], 3) == [1, 2, 3]


def test_rotate_further_than_long():
    assert rotate([1, 2, 3], 4) == [2, 3, 1]


def test_rotate_nothing():
    assert rotate([], 2) == []


def test_rotate_backwards():
    assert rotate([1, 2, 3], -1) == [3, 1, 2]


def test_rotate_letters():
    assert rotate("abc", 1) == ["b", "c", "a"]


def test_interleave_equal_lengths():
    assert interleave([1, 3], [2, 4]) == [1, 2, 3, 4]


def test_interleave_longer_second():
    assert interleave([1], [2, 3, 4]) == [1, 2, 3, 4]


def test_interleave_longer_first():
    assert interleave([1, 2, 3], [9]) == [1, 9, 2, 3]


def test_interleave_empty_first():
    assert interleave([], [1, 2]) == [1, 2]


def test_interleave_empty_second():
    assert interleave([1, 2], []) == [1, 2]


def test_interleave_both_empty():
    assert interleave([], []) == []


def test_partition_by_size():
    assert partition([5, 1, 7], lambda n: n > 4) == ([5, 7], [1])


def test_partition_of_nothing():
    assert partition([], bool) == ([], [])


def test_partition_all_chosen():
    assert partition([1, 2], lambda n: True) == ([1, 2], [])


def test_partition_none_chosen():
    assert partition([1, 2], lambda n: False) == ([], [1, 2])


def test_partition_by_truth():
    assert partition([0, 1, "", "a"], bool) == ([1, "a"], [0, ""])


def test_partition_of_letters():
    assert partition("aXbY", str.isupper) == (["X", "Y"], ["a", "b"])


def test_count_items_of_letters():
    assert count_items("abca") == {"a": 2, "b": 1, "c": 1}


def test_count_items_of_nothing():
    assert count_items([]) == {}


def test_count_items_of_one():
    assert count_items([4]) == {4: 1}


def test_count_items_of_equal():
    assert count_items([2, 2, 2]) == {2: 3}


def test_count_items_of_tuples():
    assert count_items([(1,), (1,)]) == {(1,): 2}


def test_count_items_of_a_range():
    assert count_items(range(2)) == {0: 1, 1: 1}
