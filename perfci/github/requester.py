"""Send requests to GitHub's API with token, retries, rate limits and pagination, and download files."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from perfci.github.api_operations import GitHubOperation
from perfci.github.errors import GitHubError, GitHubNoResponse, GitHubUnreachable, build_github_error
from perfci.model import PerfciError

T = TypeVar("T")
PathValues = Mapping[str, str | int]

API_VERSION = "2022-11-28"
PER_PAGE = 100  # the most that GitHub gives
MAX_PAGES = 30
"""GitHub names no more than 3000 files, and takes no more than 2500 comments."""

NOT_SENT_ERRORS = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


@dataclass(frozen=True, slots=True)
class DownloadLimits:
    """Limits on a file that anybody may have written."""

    max_bytes: int
    timeout_s: float = 120.0


@dataclass(frozen=True, slots=True)
class GitHubRetryPolicy:
    """How often and how long a request is tried, and the clock."""

    attempts: int = 5
    max_wait_s: float = 120.0
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    random_fraction: Callable[[], float] = random.random

    def backoff_s(self, attempt: int) -> float:
        """Seconds to wait: one, two, four ..., half of it random, so that jobs that failed together spread
        out.
        """
        return float(2**attempt) * (0.5 + self.random_fraction() / 2)


class GitHubRequester:
    """``http`` knows the address and no token: that is added to requests of the API and of nothing else."""

    def __init__(
        self, http: httpx.Client, token: Callable[[], str], retry_policy: GitHubRetryPolicy | None = None
    ) -> None:
        self._http = http
        self._token = token
        self.retry_policy = retry_policy or GitHubRetryPolicy()

    @property
    def server_url(self) -> str:
        return str(self._http.base_url).rstrip("/")

    def send(
        self,
        operation: GitHubOperation,
        path_values: PathValues,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
    ) -> httpx.Response:
        return self._send_with_retries(operation, path_values, operation.build_url(path_values), query, body)

    def iter_pages(
        self, operation: GitHubOperation, path_values: PathValues, query: Mapping[str, Any] | None = None
    ) -> Iterator[bytes]:
        """Iterate over the pages of a list, following the links of GitHub."""
        url, parameters = operation.build_url(path_values), {"per_page": PER_PAGE} | dict(query or {})
        for _ in range(MAX_PAGES):
            response = self._send_with_retries(operation, path_values, url, parameters, None)
            yield response.content
            if "next" not in response.links:
                return
            # The link holds the parameters already.
            url, parameters = self._require_same_host(response.links["next"]["url"]), {}
        raise PerfciError(
            f"GitHub has more than {MAX_PAGES * PER_PAGE} entries where perfci was to "
            f"{operation.describe(path_values)}; so many are not read."
        )

    def download_file(
        self, operation: GitHubOperation, path_values: PathValues, file_label: str, limits: DownloadLimits
    ) -> bytes:
        """Download a file through the one redirect that is followed, without sending the token there."""
        request = self._build_request(operation, operation.build_url(path_values))

        def send_once() -> bytes:
            response = self._send_once(operation, path_values, request)
            if response.status_code != 302:
                raise build_github_error(operation, path_values, response, self.retry_policy.now())
            # The address holds for a minute, so each try asks for a new one:
            # https://docs.github.com/rest/actions/artifacts#download-an-artifact
            return self._fetch_file(response.headers.get("location", ""), file_label, limits)

        return self._retry(operation, send_once)

    def _send_with_retries(
        self,
        operation: GitHubOperation,
        path_values: PathValues,
        url: str,
        query: Mapping[str, Any] | None,
        body: Any,
    ) -> httpx.Response:
        request = self._build_request(operation, url, query, body)

        def send_once() -> httpx.Response:
            response = self._send_once(operation, path_values, request)
            if not response.is_success:
                raise build_github_error(operation, path_values, response, self.retry_policy.now())
            return response

        return self._retry(operation, send_once)

    def _build_request(
        self, operation: GitHubOperation, url: str, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> httpx.Request:
        token = self._token()
        # httpx would quote a header that it cannot send in its error, and with it the token.
        if not token.isascii() or not token.isprintable() or " " in token or not token:
            raise PerfciError(
                "The token for GitHub is empty or holds a character that no token has: a blank, a line's end "
                "or a letter with an accent. Give it as GitHub showed it."
            )
        headers = {
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": API_VERSION,
            "Authorization": f"Bearer {token}",
        }
        return self._http.build_request(
            operation.method, url, params=query or None, json=body, headers=headers
        )

    def _send_once(
        self, operation: GitHubOperation, path_values: PathValues, request: httpx.Request
    ) -> httpx.Response:
        try:
            return self._http.send(request)
        except NOT_SENT_ERRORS as error:
            raise GitHubUnreachable(
                f"{request.url.host} could not be reached to {operation.describe(path_values)}: "
                f"{_error_text(error)}. Nothing was done there."
            ) from error
        except httpx.HTTPError as error:
            raise GitHubNoResponse(
                f"{request.url.host} was to {operation.describe(path_values)} and did not answer: "
                f"{_error_text(error)}. It may be done or not; asking again finds out."
            ) from error

    def _retry(self, operation: GitHubOperation, send_once: Callable[[], T]) -> T:
        waited_s = 0.0
        for attempt in range(self.retry_policy.attempts - 1):
            try:
                return send_once()
            except (GitHubError, GitHubUnreachable, GitHubNoResponse) as error:
                pause_s = self._retry_pause_s(operation, error, attempt)
                if pause_s is None or waited_s + pause_s > self.retry_policy.max_wait_s:
                    raise
            self.retry_policy.sleep(pause_s)
            waited_s += pause_s
        return send_once()

    def _retry_pause_s(self, operation: GitHubOperation, error: PerfciError, attempt: int) -> float | None:
        """How long before the next attempt; none where there must not be one.

        A request over a limit was not carried out, so that it may be sent again whatever it is.
        """
        if isinstance(error, GitHubError) and error.is_rate_limited:
            return error.retry_after_s
        again = isinstance(error, GitHubUnreachable) or (
            operation.repeatable
            and (
                isinstance(error, GitHubNoResponse) or (isinstance(error, GitHubError) and error.is_transient)
            )
        )
        if not again:
            return None
        retry_after_s = error.retry_after_s if isinstance(error, GitHubError) else None
        return max(retry_after_s or 0.0, self.retry_policy.backoff_s(attempt))

    def _fetch_file(self, url: str, file_label: str, limits: DownloadLimits) -> bytes:
        # The address is as good as a key to the file, so no sentence tells more of it than the host.
        target = httpx.URL(url)
        # https, but where GitHub itself is asked without it.
        if not target.host or target.scheme not in ("https", self._http.base_url.scheme):
            raise PerfciError(f"GitHub named no https address to fetch {file_label} from.")
        request = self._http.build_request("GET", target, headers={"Accept-Encoding": "identity"})
        deadline = self.retry_policy.now() + limits.timeout_s
        try:
            response = self._http.send(request, stream=True)
            try:
                if response.status_code != 200:
                    raise GitHubError(
                        f"{target.host} did not hand over {file_label}: {response.status_code}. "
                        "Try again later.",
                        503,
                    )
                return self._read_file(response, file_label, limits, deadline)
            finally:
                response.close()
        except httpx.HTTPError as error:
            raise GitHubNoResponse(
                f"{target.host} broke off {file_label} ({type(error).__name__}). Try again later."
            ) from None

    def _read_file(
        self, response: httpx.Response, file_label: str, limits: DownloadLimits, deadline: float
    ) -> bytes:
        content = bytearray()
        # Raw, so that what is counted is what comes: a compressed answer could unpack to anything.
        for piece in response.iter_raw():
            content += piece
            if len(content) > limits.max_bytes:
                raise PerfciError(
                    f"{file_label} is larger than {limits.max_bytes:,} bytes, the most that perfci takes."
                )
            if self.retry_policy.now() > deadline:
                raise PerfciError(
                    f"{file_label} did not come within {limits.timeout_s:g} s; perfci gave up on it."
                )
        return bytes(content)

    def _require_same_host(self, url: str) -> str:
        """A link to the next page goes to the same API: the token must not reach another host."""
        base, target = self._http.base_url, httpx.URL(url)
        if (target.scheme, target.host, target.port) != (base.scheme, base.host, base.port) or not (
            target.path.startswith(base.path)
        ):
            raise PerfciError(
                f"{base.host} links its next page at {target.host}, where the token must not go. "
                "Give the address that it calls its own."
            )
        return url


def _error_text(error: Exception) -> str:
    return str(error) or type(error).__name__
