"""Where the settings' values come from, and what is wrong with them, all at once.

    command line  ▸  environment  ▸  TOML file  ▸  default

The first that has a value gives it, and its name goes with it as the value's origin. The TOML file is the one
named by `--config` or RESTANTE_CONFIG, or `restante.toml` in the data folder if it is there. A name nobody
declared is an error, as a mistyped setting would otherwise be a setting silently not made.
"""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from restante.server.setting_kinds import Explained
from restante.server.settings import DECLARED, ENVIRONMENT_PREFIX, Declaration, Settings

CONFIG_VARIABLE = "RESTANTE_CONFIG"
CONFIG_FLAG = "--config"
CONFIG_NAME = "restante.toml"
DEFAULT = "default"
VALUE_CHARACTERS_MAX = 60
# Kubernetes puts these into every container beside a service named "restante": nobody's settings.
_SERVICE_LINK = re.compile(r"RESTANTE_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP)(_(PROTO|PORT|ADDR))?)?)")


class SettingsError(Exception):
    """Some settings are wrong; one line for each."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


class Given(NamedTuple):
    """A value somebody gave, still as they wrote it."""

    raw: object
    origin: str


class Resolved(NamedTuple):
    settings: Settings
    origins: dict[str, str]


def load(flags: Mapping[str, object], environ: Mapping[str, str], config: Path | None = None) -> Settings:
    """The settings, or SettingsError. Flags are by setting name; those that are None were not given."""
    return resolve(flags, environ, config).settings


def resolve(flags: Mapping[str, object], environ: Mapping[str, str], config: Path | None = None) -> Resolved:
    """As `load`, with where each value came from."""
    problems: list[str] = []
    given = _from_environment(environ, problems)
    given.update(_from_flags(flags))
    for name, from_file in _from_file(_config_file(given, environ, config, problems), problems).items():
        given.setdefault(name, from_file)
    values = _read_all(given, problems)
    if not problems:
        problems.extend(_contradictions(Settings(**values)))
    if problems:
        raise SettingsError(problems)
    return Resolved(Settings(**values), {name: given[name].origin if name in given else DEFAULT for name in DECLARED})


def _from_flags(flags: Mapping[str, object]) -> dict[str, Given]:
    return {name: Given(raw, DECLARED[name].flag or name) for name, raw in flags.items() if raw not in (None, [])}


def _from_environment(environ: Mapping[str, str], problems: list[str]) -> dict[str, Given]:
    by_variable = {declaration.variable: name for name, declaration in DECLARED.items()}
    given = {}
    for name, declaration in DECLARED.items():
        bare = declaration.contract_variable
        if bare is not None and bare in environ:
            given[name] = Given(environ[bare], bare)
    for variable, raw in environ.items():
        if variable in by_variable:
            given[by_variable[variable]] = Given(raw, variable)
        elif _is_meant_for_us(variable):
            problems.append(f"{variable}: there is no such setting" + _did_you_mean(variable))
    return given


def _is_meant_for_us(variable: str) -> bool:
    return (
        variable.startswith(ENVIRONMENT_PREFIX)
        and variable != CONFIG_VARIABLE
        and not _SERVICE_LINK.fullmatch(variable)
    )


class _ConfigFile(NamedTuple):
    path: Path
    found_in_data: bool


def _config_file(
    given: Mapping[str, Given], environ: Mapping[str, str], config: Path | None, problems: list[str]
) -> _ConfigFile | None:
    named = config or (Path(environ[CONFIG_VARIABLE]) if environ.get(CONFIG_VARIABLE) else None)
    if named is not None:
        if named.is_file():
            return _ConfigFile(named, found_in_data=False)
        origin = CONFIG_FLAG if config else CONFIG_VARIABLE
        problems.append(f"{named}: there is no such file (from {origin})")
        return None
    data = DECLARED["data"]
    folder = _read(data, given["data"], []) if "data" in given else data.default
    path = folder / CONFIG_NAME if folder is not None else None
    return _ConfigFile(path, found_in_data=True) if path is not None and path.is_file() else None


def _from_file(file: _ConfigFile | None, problems: list[str]) -> dict[str, Given]:
    if file is None:
        return {}
    try:
        table = tomllib.loads(file.path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problems.append(f"{file.path}: cannot be read as TOML: {error}")
        return {}
    given = {}
    for name, raw in table.items():
        problem = _misplaced(name, file)
        if problem:
            problems.append(f"{name}: {problem} (from {file.path})")
        else:
            given[name] = Given(raw, str(file.path))
    return given


def _misplaced(name: str, file: _ConfigFile) -> str | None:
    """Why this setting cannot be in this file, if so."""
    if name not in DECLARED:
        return "there is no such setting" + _did_you_mean(name)
    if DECLARED[name].secret:
        return f"a secret is given by the environment variable {DECLARED[name].variable} only"
    if name == "data" and file.found_in_data:
        return "a file found in the data folder cannot say where the data folder is"
    return None


def _did_you_mean(name: str) -> str:
    """The nearest setting, written as the mistaken one was. The prefix they share makes none nearer."""
    is_variable = name.startswith(ENVIRONMENT_PREFIX)
    near = difflib.get_close_matches(name.removeprefix(ENVIRONMENT_PREFIX).lower(), DECLARED, n=1)
    if not near:
        return ""
    return f"; did you mean {DECLARED[near[0]].variable if is_variable else near[0]}?"


def _read_all(given: Mapping[str, Given], problems: list[str]) -> dict[str, Any]:
    return {name: _read(DECLARED[name], what, problems) for name, what in given.items()}


def _read(declaration: Declaration, given: Given, problems: list[str]) -> Any:
    try:
        return declaration.kind.read(given.raw)
    except ValueError as error:
        expected = declaration.kind.expected
        got = "something else" if declaration.bears_secret else _shortened(given.raw)
        detail = f": {error}" if isinstance(error, Explained) else ""
        problems.append(f"{declaration.name}: expected {expected}, got {got} (from {given.origin}){detail}")
        return None


def _shortened(raw: object) -> str:
    text = repr(raw)
    return text if len(text) <= VALUE_CHARACTERS_MAX else text[: VALUE_CHARACTERS_MAX - 1] + "…"


def _contradictions(settings: Settings) -> Iterable[str]:
    if settings.outbox_retry_base_seconds > settings.outbox_retry_max_seconds:
        yield (
            "outbox_retry_base_seconds: expected at most outbox_retry_max_seconds, "
            f"got {settings.outbox_retry_base_seconds:g} and {settings.outbox_retry_max_seconds:g}"
        )
    if (settings.tls_certificate is None) != (settings.tls_key is None):
        yield "tls_certificate and tls_key: expected both or neither"
    if settings.tls_client_ca is not None and settings.tls_certificate is None:
        yield "tls_client_ca: expected tls_certificate and tls_key beside it"
    for issuer in settings.authorization_servers:
        if issuer.audience is None:
            yield f"authorization_servers: expected an audience for {issuer.issuer}, so that no others count"


def refuse_unshared(workers: int, *, is_shared: bool) -> None:
    """SettingsError where several workers are wanted on a database that is one process's alone."""
    if workers > 1 and not is_shared:
        what = f"workers: {workers} is given, but the embedded database is one process's alone"
        raise SettingsError([f"{what}: use 1, or a PostgreSQL database"])
