"""Who may ask the server: only the page that it served itself, in the browser of whoever has the printed address.

A page of another site can make a browser send requests here, also under our name by rebinding DNS. So `Host` must be
ours, `Origin` and `Sec-Fetch-Site` must say that our page asks, and every answer about a run needs the token.
"""

from __future__ import annotations

import hmac
import re
import secrets

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_ADDRESS_BYTES = 8192
WHO_COOKIE = "recompose_who"
"""Without the port, so that a browser stays the same person at every server of this machine."""
DAY_S = 86400
_WHO = re.compile(r"[0-9a-f]{16}")
OWN_SITE = ("same-origin", "none")
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class PageGuard:
    """Middleware around everything. `who`, a random name of the browser, is in the scope of requests with a cookie."""

    def __init__(self, app: ASGIApp, port: int, token: str) -> None:
        self._app, self._token, self._port = app, token, port
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self._cookie = f"recompose_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        answer = self._refusal(scope)
        await (answer or self._app)(scope, receive, self._with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        headers, path = Headers(scope=scope), scope["path"]
        if len(scope["raw_path"]) + len(scope["query_string"]) > MAX_ADDRESS_BYTES:
            return refused(414, "the address is too long")
        if headers.get("host", "").lower() not in self._hosts:
            return refused(403, "this server answers to 127.0.0.1 only")
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in {f"http://{host}" for host in self._hosts}:
            return refused(403, "another site asks")
        if path == "/" and scope["method"] == "GET" and (given := QueryParams(scope["query_string"]).get("token")):
            return self._welcome(given, headers)
        if not path.startswith("/api/"):
            return None
        if headers.get("sec-fetch-site", "none") not in OWN_SITE:
            return refused(403, "another site asks")
        given, scope["who"] = self._given(headers)
        return None if self._is_ours(given) else refused(401, "open the address that recompose view printed")

    def _welcome(self, given: str, headers: Headers) -> Response:
        if not self._is_ours(given):
            return refused(401, "this is the address of an earlier recompose view")
        answer = RedirectResponse("/", status_code=303)
        known = _cookies(headers).get(WHO_COOKIE, "")
        who = known if _WHO.fullmatch(known) else secrets.token_hex(8)
        value = f"{self._token}.{who}"
        answer.set_cookie(self._cookie, value, httponly=True, samesite="strict", max_age=30 * DAY_S)
        # lax: it gives no access, and must also come along where the address is opened from another page
        answer.set_cookie(WHO_COOKIE, who, httponly=True, samesite="lax", max_age=365 * DAY_S)
        return answer

    def _given(self, headers: Headers) -> tuple[str, str]:
        """Token, and who has it."""
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return bearer, "bearer"
        token, _, who = _cookies(headers).get(self._cookie, "").partition(".")
        return token, who

    def _is_ours(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())

    def _with_headers(self, send: Send) -> Send:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        return sending


def _cookies(headers: Headers) -> dict[str, str]:
    """Those of other programs on this machine are among them, however they are written."""
    return cookie_parser(headers.get("cookie", ""))


def refused(status: int, why: str, then: str = "recompose view RUN") -> Response:
    return JSONResponse({"error": why, "next": then}, status_code=status)
