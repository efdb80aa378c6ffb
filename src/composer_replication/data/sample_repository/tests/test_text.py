from little_helpers.text import (
    count_vowels,
    initials,
    is_palindrome,
    reverse_words,
    slugify,
    truncate,
    word_count,
)


def test_count_vowels_in_a_word():
    assert count_vowels("banana") == 3


def test_count_vowels_in_nothing():
    assert count_vowels("") == 0


def test_count_vowels_without_any():
    assert count_vowels("rhythm") == 0


def test_count_vowels_in_capitals():
    assert count_vowels("AEIOU") == 5


def test_count_vowels_in_a_sentence():
    assert count_vowels("Out of the blue") == 6


def test_count_vowels_with_digits():
    assert count_vowels("a1e2") == 2


def test_word_count_of_one_word():
    assert word_count("tree") == {"tree": 1}


def test_word_count_of_nothing():
    assert word_count("") == {}


def test_word_count_ignores_case():
    assert word_count("To be to Be") == {"to": 2, "be": 2}


def test_word_count_with_many_spaces():
    assert word_count("a   b  a") == {"a": 2, "b": 1}


def test_word_count_over_lines():
    assert word_count("up\ndown\nup") == {"up": 2, "down": 1}


def test_word_count_of_three_words():
    assert word_count("x y z") == {"x": 1, "y": 1, "z": 1}


def test_is_palindrome_short_word():
    assert is_palindrome("level") is True


def test_is_palindrome_other_word():
    assert is_palindrome("lever") is False


def test_is_palindrome_by_case():
    assert [is_palindrome(word) for word in ("Noon", "Moon")] == [True, False]


def test_is_palindrome_by_spaces():
    assert [is_palindrome(text) for text in ("ab ba", "ab ab")] == [True, False]


def test_is_palindrome_by_punctuation():
    assert [is_palindrome(text) for text in ("Was it a car, or a cat I saw?", "a, b!")] == [True, False]


def test_is_palindrome_by_digits():
    assert [is_palindrome(text) for text in ("1 2 1", "1 2 3")] == [True, False]


def test_reverse_words_of_two():
    assert reverse_words("hello world") == "world hello"


def test_reverse_words_of_one():
    assert reverse_words("alone") == "alone"


def test_reverse_words_of_nothing():
    assert reverse_words("") == ""


def test_reverse_words_drops_spaces():
    assert reverse_words("  a   b ") == "b a"


def test_reverse_words_keeps_letters():
    assert reverse_words("ab cd ef") == "ef cd ab"


def test_reverse_words_keeps_punctuation():
    assert reverse_words("Stop. Go!") == "Go! Stop."


def test_truncate_longer():
    assert truncate("wonderful", 4) == "wond..."


def test_truncate_shorter():
    assert truncate("hi", 10) == "hi"


def test_truncate_to_nothing():
    assert truncate("text", 0) == "..."


def test_truncate_by_one_letter():
    assert truncate("abcd", 3) == "abc..."


def test_truncate_of_a_sentence():
    assert truncate("to be or not", 5) == "to be..."


def test_truncate_to_one_letter():
    assert truncate("xyz", 1) == "x..."


def test_truncate_at_the_limit():
    assert [truncate("abc", 3), truncate("abcd", 3)] == ["abc", "abc..."]


def test_slugify_two_words():
    assert slugify("Blue Sky") == "blue-sky"


def test_slugify_punctuation():
    assert slugify("What? Why!") == "what-why"


def test_slugify_many_spaces():
    assert slugify("  a   b  ") == "a-b"


def test_slugify_digits():
    assert slugify("Top 10 Lists") == "top-10-lists"


def test_slugify_nothing():
    assert slugify("") == ""


def test_slugify_dashes():
    assert slugify("well - known") == "well-known"


def test_slugify_one_word():
    assert slugify("Word") == "word"


def test_initials_of_two():
    assert initials("Grace Hopper") == "GH"


def test_initials_of_one():
    assert initials("plato") == "P"


def test_initials_of_nothing():
    assert initials("") == ""


def test_initials_with_spaces():
    assert initials("  alan   turing ") == "AT"


def test_initials_of_four():
    assert initials("a b c d") == "ABCD"


def test_initials_of_lower_case():
    assert initials("marie curie") == "MC"
