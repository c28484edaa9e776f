"""Every setting is documented as it is, and the environment beats the file."""

from __future__ import annotations

import ipaddress
import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from perfci.config import Secrets, fix_pair_count, load_config
from perfci.config.loader import SERVICE_TABLES, environment_variable_name
from perfci.config.settings import Settings
from perfci.model import PerfciError
from perfci.project_policies import build_policy

PAGE = (Path(__file__).parent.parent / "docs" / "settings.md").read_text()


def documented() -> dict[str, list[list[str]]]:
    """The rows of each table of the page, as cells without the meaning."""
    result: dict[str, list[list[str]]] = {}
    for section in re.split(r"^### ", PAGE, flags=re.M)[1:]:
        if heading := re.match(r"`\[+(\w+)\]+`", section):
            rows = re.findall(r"^\| `(.*)\|$", section, flags=re.M)
            result[heading[1]] = [[cell.strip(" `") for cell in row.split(" | ")[:-1]] for row in rows]
    return result


def declared() -> dict[str, list[list[str]]]:
    result = {}
    for name, field in Settings.model_fields.items():
        table = next(
            item for item in (field.annotation, *get_args(field.annotation)) if issubclass(item, BaseModel)
        )
        result[name] = [
            [
                inner.alias or key,
                shown(inner.default),
                *([environment_variable_name(name, key)] if name in SERVICE_TABLES else []),
            ]
            for key, inner in table.model_fields.items()
        ]
    return result


def shown(default: Any) -> str:
    if default is PydanticUndefined:
        return "required"
    if default is None:
        return "unset"
    whole = isinstance(default, float) and default.is_integer()
    return json.dumps(int(default) if whole else default)


@pytest.mark.parametrize("table", list(Settings.model_fields))
def test_every_setting_is_documented_with_its_default(table: str) -> None:
    assert documented()[table] == declared()[table]


def test_every_secret_is_documented() -> None:
    assert re.findall(r"^\| `(PERFCI_\w+)` \|", PAGE, flags=re.M) == [
        f"PERFCI_{name.upper()}" for name in Secrets.model_fields
    ]


def test_an_environment_variable_overrides_the_file(tmp_path: Path) -> None:
    (tmp_path / "perfci.toml").write_text("[server]\nport = 9000\nthreads = 4\n")

    server = load_config(
        tmp_path, {"PERFCI_SERVER_PORT": "9001", "PERFCI_SERVER_TRUSTED_PROXIES": "10.0.0.0/8, ::1/128"}
    ).settings.server

    assert (server.port, server.threads) == (9001, 4)
    assert server.trusted_proxies == (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("::1/128"))


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        (
            {"PERFCI_SERVER_WORKRES": "2"},
            "unknown variable PERFCI_SERVER_WORKRES; did you mean PERFCI_SERVER_WORKERS?",
        ),
        (
            {"PERFCI_SERVER_WORKERS": "many"},
            "PERFCI_SERVER_WORKERS: workers: Input should be a valid integer, "
            "unable to parse string as an integer, found 'many'",
        ),
        (
            {"PERFCI_CLIENT_SERVER": "perf.example"},
            "PERFCI_CLIENT_SERVER: server: an address that begins with http:// or https:// was expected, "
            "found 'perf.example'",
        ),
    ],
)
def test_an_invalid_variable_is_named_in_the_error(
    tmp_path: Path, variables: dict[str, str], sentence: str
) -> None:
    with pytest.raises(PerfciError) as error:
        load_config(tmp_path, variables)

    assert str(error.value) == sentence


def test_service_variables_of_an_orchestrator_are_not_settings(tmp_path: Path) -> None:
    set_by_kubernetes = {"PERFCI_SERVER_SERVICE_PORT": "80", "PERFCI_SERVER_PORT_80_TCP": "tcp://10.0.0.1:80"}

    assert load_config(tmp_path, set_by_kubernetes).settings.server.port == 8787


def test_a_secret_never_appears_in_text(tmp_path: Path) -> None:
    config = load_config(tmp_path, {"PERFCI_TOKEN": "pfciu_secret"})

    assert config.secrets.token.get_secret_value() == "pfciu_secret"
    assert "pfciu_secret" not in repr(config) + config.model_dump_json()


def test_more_pairs_can_be_asked_for_before_a_comparison_decides(tmp_path: Path) -> None:
    (tmp_path / "perfci.toml").write_text("[judge]\nmin_pairs = 9\nmax_pairs = 12\n")

    assert build_policy(load_config(tmp_path, {}).settings).default.planned_looks == [9, 10, 11, 12]

    (tmp_path / "perfci.toml").write_text("[judge]\nmin_pairs = 25\nmax_pairs = 40\n")

    assert build_policy(load_config(tmp_path, {}).settings).default.planned_looks[:3] == [25, 27, 29]


@pytest.mark.parametrize(("pairs", "looks"), [(4, [4]), (30, [30]), (None, list(range(5, 21)))])
def test_a_fixed_number_of_pairs_is_the_only_look(pairs: int | None, looks: list[int]) -> None:
    assert build_policy(fix_pair_count(Settings(), pairs)).default.planned_looks == looks


def test_more_pairs_than_a_benchmark_may_cost_are_refused(tmp_path: Path) -> None:
    (tmp_path / "perfci.toml").write_text("[judge]\nmin_pairs = 9\nmax_pairs = 8\n")

    with pytest.raises(PerfciError) as failure:
        load_config(tmp_path, {})

    assert "min_pairs = 9 was expected to be at most max_pairs = 8" in str(failure.value)
