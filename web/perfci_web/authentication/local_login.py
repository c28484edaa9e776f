"""Login of the local user: by the secret in the address that `perfci serve` prints, then by a cookie.

A port of this machine is open to all its users, to what they run, and to what a proxy or tunnel forwards to
it, so reaching it proves nothing (https://jupyter-server.readthedocs.io/en/latest/operators/security.html).
"""

from __future__ import annotations

import hmac
from urllib.parse import quote, urlencode

from flask import Request, Response

TOKEN_PARAMETER = "token"

LOCAL_LOGIN_NEEDED = (
    "Open the address that `perfci serve` printed when it started. Its token logs you in; each start makes "
    "another, so an address from before opens nothing. While the server runs, the token is in "
    "`~/.local/state/perfci/server-PORT.token`: append it as `/?token=TOKEN`. Programs send it, or one of "
    "`perfci token create`, as `Authorization: Bearer TOKEN`."
)


class LocalLogin:
    """Knows the local user by a secret."""

    def __init__(self, token: str) -> None:
        self._token = token

    def is_local_user(self, request: Request) -> bool:
        return self.matches_token(request.cookies.get(_cookie_name(request), ""))

    def matches_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self._token.encode())

    def answer_login(self, request: Request) -> Response | None:
        """Give who opens the printed address the cookie, and send them on to the page without the token."""
        if request.method != "GET" or not self.matches_token(request.args.get(TOKEN_PARAMETER, "")):
            return None
        rest = [item for item in request.args.items(multi=True) if item[0] != TOKEN_PARAMETER]
        # One slash: two would make a path the name of another host.
        place = f"{request.script_root}/{quote(request.path.lstrip('/'), safe='/:')}"
        response = Response(status=302, headers={"Location": f"{place}?{urlencode(rest)}" if rest else place})
        response.headers["Cache-Control"] = "no-store"
        # Not Secure, since this machine is reached by plain http.
        response.set_cookie(_cookie_name(request), self._token, httponly=True, samesite="Lax", path="/")
        return response


def _cookie_name(request: Request) -> str:
    """Return the name with the port in it: browsers send a cookie to every port of a host."""
    port = request.host.rpartition(":")[2]
    return f"perfci-local-{port if port.isdecimal() else 80}"
