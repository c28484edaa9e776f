"""The tables of ``perfci.toml``, each a frozen value that rejects unknown keys."""

from __future__ import annotations

import keyword
import re
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    IPvAnyNetwork,
    SecretStr,
    model_validator,
)

from perfci.model import MetricClass


class ConfigTable(BaseModel):
    """A frozen table that rejects unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ProjectTable(ConfigTable):
    """``[project]``: the name and its main branch."""

    name: str = ""
    branch: str = ""


class SuiteTable(ConfigTable):
    """``[suite]``: where the benchmarks are."""

    path: str = "benchmarks"
    source: Literal["worktree", "commit"] = "worktree"  # whose suite measures a commit
    timeout_s: float = Field(default=60.0, gt=0)
    ignored_files: tuple[str, ...] = ("*.md", "docs/*", ".github/*")  # files that no benchmark reads


class EnvironmentTable(ConfigTable):
    """``[environment]``: how the project is built and installed."""

    # The interpreter that measures; empty = the one that runs perfci.
    python: str = ""
    # What pip installs into a cached environment, e.g. "torch==2.13.0" or "-r req.txt".
    requirements: tuple[str, ...] = ()
    # Files of the commit whose content decides whether an environment can be reused.
    lock_files: tuple[str, ...] = ()
    # Commands run in the commit's work tree; {target} is the folder they install into.
    build: tuple[str, ...] = ()
    # Folders of the work tree to import from; empty = src/ where it exists, else the root.
    paths: tuple[str, ...] = ()
    preload: tuple[str, ...] = ("torch", "torch._dynamo")


class RunTable(ConfigTable):
    """``[run]``: how benchmark processes are run."""

    rounds: int = Field(default=5, ge=1, le=1000)
    launch: Literal["auto", "fork", "spawn"] = "auto"
    threads: int = Field(default=1, ge=1)
    interleave: Literal["auto", "always", "never"] = "auto"
    tails: bool = False  # p90 of the samples of a process as a metric of its own


class JudgeTable(ConfigTable):
    """``[judge]``: how verdicts are reached."""

    bar: float = Field(default=0.05, gt=0, lt=1)
    strict: bool = False
    min_pairs: int = Field(default=5, ge=5, le=200)
    max_pairs: int = Field(default=20, ge=5, le=200)

    @model_validator(mode="after")
    def _order_pairs(self) -> Self:
        if self.min_pairs > self.max_pairs:
            raise ValueError(
                f"min_pairs = {self.min_pairs} was expected to be at most max_pairs = {self.max_pairs}"
            )
        return self


def _check_regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression was expected, but {error}") from None
    return text


class PolicyTable(ConfigTable):
    """``[[policy]]``: how series whose cell and metric ``match`` are judged; missing keys keep their
    values.
    """

    match: Annotated[str, Field(min_length=1), AfterValidator(_check_regex)]
    bar: float | None = Field(default=None, ge=0, lt=1)
    floor: float | None = Field(default=None, ge=0, allow_inf_nan=False)  # in the metric's own unit
    floor_bytes: float | None = Field(default=None, ge=0, allow_inf_nan=False)  # for metrics in bytes
    metric_class: MetricClass | None = Field(default=None, alias="class")
    judge: bool = True
    gate: bool | None = None  # whether a change may fail a check or page somebody


ParameterValue = str | bool | int | FiniteFloat


class GoalTable(ConfigTable):
    """``[[goal]]``: requirements on the metrics of the benchmarks whose cell ``match`` finds."""

    name: str = ""
    match: Annotated[str, AfterValidator(_check_regex)] = ""
    require: Annotated[tuple[str, ...], Field(min_length=1)]


class AblationStepTable(ConfigTable):
    """One step of an ablation: its name and the parameters it sets."""

    name: Annotated[str, Field(min_length=1)]
    set: Annotated[dict[str, ParameterValue], Field(min_length=1)]


class AblationTable(ConfigTable):
    """One ``[[ablation]]``: variants of one commit, each a change to the one before; the first is the
    baseline.
    """

    name: Annotated[str, Field(min_length=1)]
    match: Annotated[str, AfterValidator(_check_regex)] = ""
    steps: Annotated[tuple[AblationStepTable, ...], Field(min_length=2)]


class HistoryTable(ConfigTable):
    """``[history]``: when change points page."""

    pages_per_week: int = Field(default=5, ge=0, le=1000)
    releases: str = "v*"  # tags of releases, with * and ?, that creep is measured against
    canaries: tuple[Annotated[str, Field(min_length=1), AfterValidator(_check_regex)], ...] = ()


def _check_address(text: str) -> str:
    if text and not text.startswith(("http://", "https://")):
        raise ValueError("an address that begins with http:// or https:// was expected")
    return text.rstrip("/")


HttpAddress = Annotated[str, AfterValidator(_check_address)]


ForgeKind = Literal["", "github", "gitlab", "bitbucket", "gitea"]


def _check_address_pattern(text: str) -> str:
    if text and not text.startswith(("http://", "https://", "{repository}/")):
        raise ValueError("an address that begins with http://, https:// or {repository}/ was expected")
    return text


AddressPattern = Annotated[str, AfterValidator(_check_address_pattern)]


class ForgeTable(ConfigTable):
    """``[forge]``: where people read the repository; pages link its commits, diffs and pull requests."""

    repository: HttpAddress = ""  # empty = the GitHub repository that the project is bound to
    kind: ForgeKind = ""  # empty = as the host's name says
    commit: AddressPattern = ""  # with {repository} and {sha}; empty = as this kind of forge has it
    diff: AddressPattern = ""  # with {repository}, {base} and {head}
    pull_request: AddressPattern = ""  # with {repository} and {number}
    blame: AddressPattern = ""  # with {repository}, {sha} and {path}


def _check_class_name(text: str) -> str:
    if not text.isidentifier() or keyword.iskeyword(text) or text.startswith("_"):
        raise ValueError("a Python name that begins with a letter was expected, such as 'gpt_small'")
    return text


def _check_dotted_name(text: str) -> str:
    module, colon, path = text.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), *path.split("."))):
        raise ValueError("a function's dotted name was expected, such as 'package.module:function'")
    return text


DottedName = Annotated[str, AfterValidator(_check_dotted_name)]


MODEL_HOOKS = (
    "build",
    "batch",
    "loader",
    "loss",
    "step",
    "optimizer",
    "stream",
    "prompt",
    "audio_in",
    "audio_seconds",
)


class ModelTable(ConfigTable):
    """``[[model]]``: a ``perfci.bench.ModelBench`` without importing perfci; its hooks are dotted names."""

    name: Annotated[str, AfterValidator(_check_class_name)]
    build: DottedName
    batch: DottedName | None = None
    loader: DottedName | None = None
    loss: DottedName | None = None
    step: DottedName | None = None
    optimizer: DottedName | None = None
    stream: DottedName | None = None
    prompt: DottedName | None = None
    audio_in: DottedName | None = None
    audio_seconds: DottedName | None = None
    params: dict[str, Annotated[tuple[ParameterValue, ...], Field(min_length=1)]] = {}
    sla: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = {}
    tokens_per_batch: int | None = Field(default=None, gt=0)
    reference: dict[str, ParameterValue] = {}
    requests: int | None = Field(default=None, gt=0)
    steps: int | None = Field(default=None, gt=0)

    @property
    def options_without_hooks(self) -> dict[str, Any]:
        """The keys beside the hooks, as plain values."""
        values = self.model_dump(
            include={"params", "sla", "tokens_per_batch", "reference", "requests", "steps"}
        )
        values["params"] = {name: list(choices) for name, choices in self.params.items()}
        return {name: value for name, value in values.items() if value}

    @property
    def hook_dotted_names(self) -> dict[str, str]:
        """The configured hooks."""
        named = {hook: getattr(self, hook) for hook in MODEL_HOOKS}
        return {hook: dotted for hook, dotted in named.items() if dotted}


class StoreTable(ConfigTable):
    """``[store]``: the database."""

    url: str = ""
    pool: int = Field(default=16, ge=1, le=1000)  # connections of one process to PostgreSQL


class ServerTable(ConfigTable):
    """``[server]``: the addresses and limits of the server."""

    host: str = "127.0.0.1"
    port: int = Field(default=8787, ge=0, le=65535)  # 0 picks a free one
    workers: int = Field(default=1, ge=1, le=64)  # processes
    threads: int = Field(default=8, ge=1, le=256)  # of each process, to read; as many write
    migrate: bool = False  # bring an older database to this version's schema before serving
    public_url: HttpAddress = ""  # what users type; behind a proxy it differs from host and port
    trusted_proxies: tuple[IPvAnyNetwork, ...] = ()  # whose X-Forwarded-* headers and proxy logins count
    max_body_mb: float = Field(default=8, gt=0, le=1024)  # of one upload as it is sent
    max_inflated_mb: float = Field(default=32, gt=0, le=4096)  # and unpacked
    uploads_per_minute_mb: float = Field(default=20, gt=0)  # of one project, for each process
    new_series_per_day: int = Field(default=20_000, ge=1)  # of one project
    new_series_per_pull_request: int = Field(default=5_000, ge=1)
    requests_per_minute: int = Field(default=600, ge=1)  # of one user, token or address, for each process
    log: Literal["text", "json"] = "text"
    worker: bool = True  # start the process that judges uploads


class AccessTable(ConfigTable):
    """``[access]``: logins and tokens."""

    mode: Literal["local", "open", "github", "proxy"] = "local"
    proxy_header: str = Field(default="X-Forwarded-User", pattern=r"^[A-Za-z0-9-]+$")
    github_client_id: str = ""
    github_host: HttpAddress = "https://github.com"
    github_issuer: HttpAddress = ""  # who signs the tokens of GitHub's jobs; empty = the one of github_host
    github_orgs: tuple[str, ...] = ()  # whose members may log in; empty = only who is a member of a project
    admins: tuple[str, ...] = ()  # who may do everything: github/NUMBER or proxy/NAME
    public_exports: bool = False  # whether exports of public projects take no login

    @property
    def oidc_issuer(self) -> str:
        """The issuer of GitHub's job tokens: one address for github.com, another for each GitHub
        Enterprise.
        """
        if self.github_host == "https://github.com":
            return self.github_issuer or "https://token.actions.githubusercontent.com"
        return self.github_issuer or f"{self.github_host}/_services/token"


class AppTable(ConfigTable):
    """``[app]``: the GitHub App."""

    # Client id or number; empty = this server is no App.
    id: str = Field(default="", pattern=r"^[A-Za-z0-9._-]*$")
    key_file: str = ""  # the private key, where PERFCI_APP_PRIVATE_KEY does not hold it
    api: HttpAddress = "https://api.github.com"
    gate: Literal["advisory", "block"] = "advisory"
    order_label: str = "perfci"  # set on a pull request, it orders a measurement; empty = no label does
    order_engine: Literal["github", "local"] = "github"  # who measures what is ordered on a pull request


class EnginesTable(ConfigTable):
    """``[engines]``: who carries out orders."""

    ranges: Literal["local", "ray"] = "local"  # bisects and backfills that pages and comments order
    ray_address: str = ""  # of the head node of a Ray cluster, host:port
    ray_folder: str = ""  # the clone on each node; empty = where `perfci work --engine ray` runs
    # What one order takes of a node; a resource of one machine class keeps orders on its nodes.
    ray_resources: dict[str, float] = {"perfci": 1}
    ray_retries: int = Field(default=2, ge=0, le=10)  # after lost workers; a failing benchmark is none


class ClientTable(ConfigTable):
    """``[client]``: the server that clients upload to."""

    server: HttpAddress = ""
    spool: str = ".perfci/spool"  # where results wait to be sent, from the repository's root
    give_up_after_s: float = Field(default=30, ge=0)  # then `perfci flush` goes on


class NotifyTable(ConfigTable):
    """``[notify]``: how notifications are sent."""

    smtp_host: str = ""
    smtp_port: int = Field(default=587, ge=1, le=65535)
    smtp_user: str = ""
    smtp_tls: Literal["starttls", "tls", "none"] = "starttls"
    sender: str = ""
    allow_networks: tuple[IPvAnyNetwork, ...] = ()  # that a webhook may reach beside the public network
    github_api: HttpAddress = "https://api.github.com"


class RetentionTable(ConfigTable):
    """``[retention]``: how long data is kept."""

    raw_days: int = Field(default=0, ge=0)  # then raw samples become summaries; 0 keeps them for ever
    partition_days: int = Field(default=0, ge=0)  # then whole partitions of samples are dropped; 0: never


class Secrets(ConfigTable):
    """Secrets from the environment; no log, page or traceback shows them."""

    token: SecretStr = SecretStr("")  # PERFCI_TOKEN: what the client logs in with
    local_token: SecretStr = SecretStr("")  # of the local user; empty = another one at each start
    github_client_secret: SecretStr = SecretStr("")
    app_private_key: SecretStr = SecretStr("")
    app_webhook_secret: SecretStr = SecretStr("")
    app_webhook_secret_old: SecretStr = SecretStr("")  # holds as well, while the new one replaces it
    smtp_password: SecretStr = SecretStr("")
    secret_key: SecretStr = SecretStr("")  # signs cookies; empty = one is made and kept in the database
