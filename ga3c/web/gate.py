"""The gate of the control room: only requests pass that name this server, come from its page and bring its token."""

import hmac
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ga3c.run import listening
from ga3c.web.answers import Refusal

LARGEST_BODY = 64 * 1024
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self'; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a browser may do with the page: load files of this server, and ask it for data."""
_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",  # a log of HTML stays text
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_METHODS = ("GET", "HEAD", "POST")
_ENTER = '<!DOCTYPE html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=/"><title>GA3C</title>'


class Authority(NamedTuple):
    """What a browser calls a server: a name and a port."""

    name: str
    port: int

    @staticmethod
    def of(text: str, port: int = 80) -> "Authority | None":
        """None if the text is no name with a port, or without one."""
        try:
            parts = urlsplit(f"//{text}")
            if not parts.hostname or parts.netloc != text or "@" in text or parts.path:
                return None
            return Authority(parts.hostname.lower(), port if parts.port is None else parts.port)
        except ValueError:
            return None


class Gate:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, listener: listening.Listener) -> None:
        self._app = app
        self._host = listener.host
        self._token = listener.token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        app: ASGIApp
        try:
            app = self._entrance(scope, headers) or self._app
        except Refusal as refusal:
            app = refusal.answer(closes=True)
        if app is self._app and "connection" in scope.get("state", {}):
            scope["state"]["connection"].is_known = True
        await app(scope, receive, _guarded(send))

    def _entrance(self, scope: Scope, headers: Headers) -> Response | None:
        """Refuses what must not pass. The answer to an address with the token; None for all else that may pass."""
        here = self._here(headers)
        if scope["method"] not in _METHODS:
            raise Refusal(405, f"{scope['method']} is no method of this server.")
        self._check_origin(scope, headers, here)
        _check_length(headers)
        cookie = f"ga3c-{here.port}"  # browsers keep cookies by name, not by port
        told = parse_qs(scope["query_string"].decode("latin-1")).get("token") if scope["path"] == "/" else None
        if told is not None:
            self._check_token(told)
            return self._welcome(cookie, headers)
        self._check_token(_cookies(headers, cookie))
        return None

    def _here(self, headers: Headers) -> Authority:
        """What the browser calls this server. A page under another name (DNS rebinding) is a stranger's."""
        named = headers.getlist("host")
        here = Authority.of(named[0]) if len(named) == 1 else None
        if here is None or not listening.accepts(here.name, self._host):
            raise Refusal(421, "This server does not go by that name; open the address that it printed.")
        return here

    def _check_origin(self, scope: Scope, headers: Headers, here: Authority) -> None:
        """Refuses what the page of another server asks for. Another port is another server."""
        for origin in headers.getlist("origin"):
            parts = origin.partition("://")
            default = 443 if parts[0] == "https" else 80
            if parts[0] not in ("http", "https") or Authority.of(parts[2], default) != here:
                raise Refusal(403, "Pages of other servers are not served.")
        site = headers.get("sec-fetch-site", "none")
        follows_link = scope["path"] == "/" and headers.get("sec-fetch-mode") == "navigate"
        if site not in ("none", "same-origin") and not follows_link:
            raise Refusal(403, "Pages of other servers are not served.")

    def _check_token(self, told: Sequence[str]) -> None:
        token = self._token.encode()
        if not any(hmac.compare_digest(one.encode("utf-8", "replace"), token) for one in told):
            raise Refusal(401, "The token is missing or wrong; open the address that was printed when this began.")

    def _welcome(self, cookie: str, headers: Headers) -> Response:
        """Leads to the page, and leaves the token in a cookie, so that it does not stay in the address."""
        # A browser that followed the link of another page would send no such cookie to where it is redirected.
        from_elsewhere = headers.get("sec-fetch-site") in ("cross-site", "same-site")
        answer: Response = HTMLResponse(_ENTER) if from_elsewhere else RedirectResponse("/", status_code=303)
        answer.set_cookie(cookie, self._token, httponly=True, samesite="strict", path="/")
        return answer


def _check_length(headers: Headers) -> None:
    """Refuses a large body before a byte of it is read."""
    if "transfer-encoding" in headers:
        raise Refusal(411, "A request must say how long it is.")
    told = headers.get("content-length", "0")
    if not told.isdecimal() or len(told) > 12 or int(told) > LARGEST_BODY:
        raise Refusal(413, f"A request may have at most {LARGEST_BODY:,} bytes.")


def _cookies(headers: Headers, wanted: str) -> list[str]:
    """The cookies of a name. Another server of this machine may have left one too."""
    pairs = [part.strip().partition("=") for line in headers.getlist("cookie") for part in line.split(";")]
    return [value for name, _, value in pairs if name == wanted]


def _guarded(send: Send) -> Send:
    """Adds the headers that protect the page, where an answer does not have its own."""

    async def guarded(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return guarded
