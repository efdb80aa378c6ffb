"""Where a token may begin: not inside a word, but also right after an escape whose last letter looks like one.

"\\n", "%3D" and a terminal colour all end in a letter or digit, so a plain word boundary would hide what follows them.
"""

NAME_ENDS = (
    "=",
    ":",
    '"',
    "'",
    "`",
    " =",
    " :",
    ' "',
    " '",
    "  ",
    "\t",
    "_",
    "-",
    ".",
    "]",
    ")",
    "\\",
    "0",
    "1",
    "2",
    "3",
    ",",
    ">",
    "|",
)
"""What may follow the word "token" in a name or after it. Not "s" or "iz": those words are too frequent to look at."""
AFTER_ESCAPE = (
    rb"(?<=\\[nrt])|(?<=\\u[0-9a-fA-F]{4})|(?<=%[0-9A-Fa-f]{2})"
    rb"|(?<=\x1b\[m)|(?<=\x1b\[[0-9]m)|(?<=\x1b\[[0-9]{2}m)|(?<=;[0-9]m)|(?<=;[0-9]{2}m)"
)
LEFT = rb"(?:(?<![A-Za-z0-9_])|" + AFTER_ESCAPE + rb")"
LEFT_RE2 = r"(?:\b|\\[nrt]|\\u[0-9a-fA-F]{4}|%[0-9a-fA-F]{2}|\x1b\[[0-9;]{0,8}m)"
