"""Functions on texts."""


def count_vowels(text):
    """Return how many of the letters a, e, i, o, u are in the text, in either case.

    >>> count_vowels("Hello")
    2
    """
    count = 0
    for letter in text.lower():
        if letter in "aeiou":
            count += 1
    return count


def word_count(text):
    """Return a dictionary from each word of the text, in lower case, to how often it is there.

    >>> word_count("the cat the dog")
    {'the': 2, 'cat': 1, 'dog': 1}
    """
    counts = {}
    for word in text.lower().split():
        counts[word] = counts.get(word, 0) + 1
    return counts


def is_palindrome(text):
    """Return True if the text reads the same backwards; case, spaces and punctuation do not count.

    >>> is_palindrome("Never odd or even")
    True
    """
    letters = []
    for letter in text.lower():
        if letter.isalnum():
            letters.append(letter)
    return letters == letters[::-1]


def reverse_words(text):
    """Return the words of the text in reverse order, separated by single spaces.

    >>> reverse_words("one two three")
    'three two one'
    """
    words = text.split()
    words.reverse()
    sentence = " ".join(words)
    return sentence


def truncate(text, length):
    """Return the text if it has at most `length` characters, else its first `length` characters followed by "...".

    >>> truncate("abcdef", 3)
    'abc...'
    """
    if len(text) <= length:
        return text
    beginning = text[:length]
    return beginning + "..."


def slugify(title):
    """Return the title in lower case, with a single "-" between words and without other punctuation.

    >>> slugify("Hello, World!")
    'hello-world'
    """
    kept = ""
    for letter in title.lower():
        kept += letter if letter.isalnum() else " "
    return "-".join(kept.split())


def initials(name):
    """Return the first letters of the words of a name, in upper case.

    >>> initials("ada king lovelace")
    'AKL'
    """
    letters = ""
    for word in name.split():
        letters += word[0].upper()
    return letters
