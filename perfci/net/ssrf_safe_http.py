"""Send HTTP requests to URLs that users typed: checked addresses only, no redirects, bounded size."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpcore
import httpx

from perfci.model import PerfciError
from perfci.net.address_check import (
    ForbiddenAddress,
    IpNetwork,
    Resolver,
    is_in_networks,
    resolve_allowed_addresses,
    resolve_host,
)

TIMEOUT_S = 5.0
"""A receiver that takes longer is asked again later; others are waiting."""

MAX_RESPONSE_BYTES = 64 * 1024
"""Of an answer that much is read, and no more."""

TLS_PORT = 443


@dataclass(frozen=True, slots=True)
class CheckedResponse:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def retry_after_s(self) -> float | None:
        """The wait in seconds that the receiver asks for, if it names one."""
        text = self.headers.get("retry-after", "")
        return float(text) if text.isdecimal() else None


class HostUnreachable(PerfciError):
    """No response came in time; a retry may succeed."""


def send_checked_request(
    method: str,
    url: str,
    *,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    allowed_networks: Sequence[IpNetwork] = (),
    timeout_s: float = TIMEOUT_S,
    max_bytes: int = MAX_RESPONSE_BYTES,
    resolver: Resolver = resolve_host,
) -> CheckedResponse:
    """Send one request to a checked address of the URL's host.

    Names are resolved once and the connection goes to a checked address; the certificate is still that of the
    name.
    """
    target = parse_destination_url(url)
    addresses = _resolve_destination(target, allowed_networks, resolver)
    deadline = time.monotonic() + timeout_s
    timeout = dict.fromkeys(("connect", "read", "write", "pool"), timeout_s)
    headers_sent = {
        "Host": target.netloc.decode(),
        "User-Agent": "perfci",
        "Content-Length": str(len(body)),
    } | dict(headers or {})
    pool = httpcore.ConnectionPool(
        ssl_context=ssl.create_default_context(), network_backend=_PinnedBackend(addresses, deadline)
    )
    try:
        with (
            pool,
            pool.stream(
                method,
                str(target),
                headers=list(headers_sent.items()),
                content=body,
                extensions={"timeout": timeout},
            ) as answer,
        ):
            response_headers = {
                name.decode("latin-1").lower(): value.decode("latin-1") for name, value in answer.headers
            }
            content = bytearray()
            for piece in answer.iter_stream():
                content += piece
                if len(content) >= max_bytes:
                    break
            return CheckedResponse(answer.status, response_headers, bytes(content[:max_bytes]))
    except (
        httpcore.TimeoutException,
        httpcore.NetworkError,
        httpcore.ProtocolError,
        ssl.SSLError,
        OSError,
    ) as error:
        raise HostUnreachable(
            f"{target.host} did not answer: {type(error).__name__} {error}".strip()
        ) from error


def _resolve_destination(
    target: httpx.URL, allowed_networks: Sequence[IpNetwork], resolver: Resolver
) -> list[str]:
    addresses = resolve_allowed_addresses(target.host, _port(target), allowed_networks, resolver)
    # On other ports stand services that a forged HTTP request can confuse, such as SMTP or Redis.
    if _port(target) != TLS_PORT and not all(
        is_in_networks(address, allowed_networks) for address in addresses
    ):
        raise ForbiddenAddress(
            f"{target.host}: outside [notify] allow_networks only https on port 443 is used."
        )
    return addresses


class CheckedTransport(httpx.BaseTransport):
    """An httpx transport that connects to checked addresses only."""

    def __init__(self, allowed_networks: Sequence[IpNetwork], max_bytes: int) -> None:
        self._allowed_networks, self._max_bytes = allowed_networks, max_bytes

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        headers = {name: value for name, value in request.headers.items() if name not in CONNECTION_HEADERS}
        try:
            response = send_checked_request(
                request.method,
                str(request.url),
                body=request.read(),
                headers=headers,
                allowed_networks=self._allowed_networks,
                max_bytes=self._max_bytes,
            )
        except HostUnreachable as error:
            raise httpx.ReadError(str(error)) from error
        return httpx.Response(response.status, headers=dict(response.headers), content=response.body)


CONNECTION_HEADERS = frozenset({"host", "content-length", "connection", "user-agent", "accept-encoding"})
"""What a client says of its own connection, where this one is made otherwise; nothing comes compressed."""


def parse_destination_url(url: str) -> httpx.URL:
    """Parse a URL to send to, or raise an error that explains it; its addresses are checked when sending."""
    try:
        target = httpx.URL(url)
    except (httpx.InvalidURL, ValueError) as error:
        raise PerfciError(f"{url!r} is no address: {error}.") from error
    if target.scheme not in ("https", "http") or not target.host:
        raise PerfciError(
            f"{url!r} is no address to send to; expected for example https://hooks.example.com/T0/B1."
        )
    if target.userinfo:
        raise PerfciError("An address may hold no user name or password: whoever sees it would know them.")
    return target


def _port(target: httpx.URL) -> int:
    return target.port or (TLS_PORT if target.scheme == "https" else 80)


class _PinnedBackend(httpcore.SyncBackend):
    """Connects to checked addresses without resolving again, and keeps one deadline."""

    def __init__(self, addresses: Sequence[str], deadline: float) -> None:
        self._addresses = addresses
        self._deadline = deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        failed: Exception = httpcore.ConnectError(f"no address of {host} left to try")
        for address in self._addresses:
            try:
                stream = super().connect_tcp(
                    address, port, _remaining_s(self._deadline), local_address, socket_options
                )
                return _DeadlineStream(stream, self._deadline)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        raise failed

    def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        raise httpcore.ConnectError("sockets in files are no destination")


class _DeadlineStream(httpcore.NetworkStream):
    """A connection in which everything together ends at one moment: a receiver that drips bytes gains no
    time.
    """

    def __init__(self, stream: httpcore.NetworkStream, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _remaining_s(self._deadline))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _remaining_s(self._deadline))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _DeadlineStream(
            self._stream.start_tls(ssl_context, server_hostname, _remaining_s(self._deadline)), self._deadline
        )

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _remaining_s(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout("out of time")
    return left
