"""Functions on numbers."""


def clamp(value, low, high):
    """Return value, but at least low and at most high.

    >>> clamp(15, 0, 10)
    10
    """
    if value < low:
        return low
    if value > high:
        return high
    return value


def sign(number):
    """Return 1 for a positive number, -1 for a negative one and 0 for zero.

    >>> sign(-3)
    -1
    """
    if number > 0:
        return 1
    if number < 0:
        return -1
    return 0


def factorial(n):
    """Return the product of the whole numbers from 1 to n.

    >>> factorial(4)
    24
    """
    product = 1
    for factor in range(2, n + 1):
        product *= factor
    return product


def greatest_common_divisor(a, b):
    """Return the largest whole number that divides both a and b.

    >>> greatest_common_divisor(12, 18)
    6
    """
    a, b = abs(a), abs(b)
    while b:
        a, b = b, a % b
    return a


def is_prime(n):
    """Return True if n is a prime number.

    >>> is_prime(7)
    True
    """
    if n < 2:
        return False
    for divisor in range(2, int(n**0.5) + 1):
        if n % divisor == 0:
            return False
    return True


def digit_sum(n):
    """Return the sum of the decimal digits of n; a minus sign is ignored.

    >>> digit_sum(123)
    6
    """
    total = 0
    for digit in str(abs(n)):
        total += int(digit)
    return total


def mean(numbers):
    """Return the sum of the numbers divided by how many there are; 0 for an empty list.

    >>> mean([1, 2, 3])
    2.0
    """
    numbers = list(numbers)
    if not numbers:
        return 0
    return sum(numbers) / len(numbers)


def to_roman(n):
    """Return the Roman numeral of a whole number from 1 to 3999.

    >>> to_roman(14)
    'XIV'
    """
    values = [1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1]
    signs = ["M", "CM", "D", "CD", "C", "XC", "L", "XL", "X", "IX", "V", "IV", "I"]
    numeral = ""
    for value, text in zip(values, signs):
        while n >= value:
            numeral += text
            n -= value
    return numeral
