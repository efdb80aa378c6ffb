from little_helpers.numbers import (
    clamp,
    digit_sum,
    factorial,
    greatest_common_divisor,
    is_prime,
    mean,
    sign,
    to_roman,
)


def test_clamp_inside():
    assert clamp(5, 0, 10) == 5


def test_clamp_below():
    assert clamp(-4, 0, 10) == 0


def test_clamp_above():
    assert clamp(99, 0, 10) == 10


def test_clamp_of_floats():
    assert clamp(0.25, 0.5, 1.5) == 0.5


def test_clamp_far_above():
    assert clamp(1000, 1, 6) == 6


def test_clamp_far_below():
    assert clamp(-1000, 1, 6) == 1


def test_clamp_between_negatives():
    assert clamp(-7, -5, -2) == -5


def test_sign_of_positive():
    assert sign(12) == 1


def test_sign_of_negative():
    assert sign(-8) == -1


def test_sign_of_opposites():
    assert [sign(5), sign(-5)] == [1, -1]


def test_sign_of_floats():
    assert [sign(0.5), sign(-0.5)] == [1, -1]


def test_sign_around_zero():
    assert [sign(n) for n in (-1, 0, 1)] == [-1, 0, 1]


def test_sign_of_large_numbers():
    assert [sign(-(10**9)), sign(10**9)] == [-1, 1]


def test_factorial_of_one():
    assert factorial(1) == 1


def test_factorial_of_zero():
    assert factorial(0) == 1


def test_factorial_of_three():
    assert factorial(3) == 6


def test_factorial_of_five():
    assert factorial(5) == 120


def test_factorial_of_ten():
    assert factorial(10) == 3628800


def test_factorial_of_six():
    assert factorial(6) == 720


def test_greatest_common_divisor_of_multiples():
    assert greatest_common_divisor(12, 4) == 4


def test_greatest_common_divisor_of_primes():
    assert greatest_common_divisor(7, 11) == 1


def test_greatest_common_divisor_with_zero():
    assert greatest_common_divisor(0, 9) == 9


def test_greatest_common_divisor_larger_first():
    assert greatest_common_divisor(100, 75) == 25


def test_greatest_common_divisor_smaller_first():
    assert greatest_common_divisor(20, 50) == 10


def test_greatest_common_divisor_of_negative():
    assert greatest_common_divisor(-8, 12) == 4


def test_greatest_common_divisor_of_large():
    assert greatest_common_divisor(1071, 462) == 21


def test_is_prime_two():
    assert is_prime(2) is True


def test_is_prime_one():
    assert is_prime(1) is False


def test_is_prime_nine():
    assert is_prime(9) is False


def test_is_prime_thirteen():
    assert is_prime(13) is True


def test_is_prime_negative():
    assert is_prime(-7) is False


def test_is_prime_forty_nine():
    assert is_prime(49) is False


def test_is_prime_ninety_seven():
    assert is_prime(97) is True


def test_digit_sum_of_one_digit():
    assert digit_sum(7) == 7


def test_digit_sum_of_zero():
    assert digit_sum(0) == 0


def test_digit_sum_of_nines():
    assert digit_sum(999) == 27


def test_digit_sum_of_negative():
    assert digit_sum(-45) == 9


def test_digit_sum_with_zeros():
    assert digit_sum(1001) == 2


def test_digit_sum_of_long_number():
    assert digit_sum(1234567890) == 45


def test_mean_of_one():
    assert mean([5]) == 5


def test_mean_of_two():
    assert mean([1, 2]) == 1.5


def test_mean_of_nothing():
    assert mean([]) == 0


def test_mean_of_negatives():
    assert mean([-2, -4]) == -3


def test_mean_of_a_tuple():
    assert mean((2, 4, 9)) == 5


def test_mean_of_an_iterator():
    assert mean(iter([4, 8])) == 6


def test_to_roman_one():
    assert to_roman(1) == "I"


def test_to_roman_four():
    assert to_roman(4) == "IV"


def test_to_roman_nine():
    assert to_roman(9) == "IX"


def test_to_roman_forty_two():
    assert to_roman(42) == "XLII"


def test_to_roman_a_year():
    assert to_roman(1994) == "MCMXCIV"


def test_to_roman_three_thousand():
    assert to_roman(3000) == "MMM"


def test_to_roman_largest():
    assert to_roman(3999) == "MMMCMXCIX"
