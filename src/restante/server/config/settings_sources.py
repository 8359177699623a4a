"""The sources of settings' values, and the check of all values at once.

    command line  ▸  environment  ▸  TOML file  ▸  default

The first source that has a value wins; its name is kept as the origin of the value. The TOML file is the one named by
`--config` or RESTANTE_CONFIG, or else `restante.toml` in the data folder, if it exists. An unknown name is an error,
because a mistyped setting would otherwise be ignored silently.
"""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from restante.core.masking import mask_url_passwords
from restante.server.config.setting_types import InvalidValue
from restante.server.config.settings import DECLARATIONS, ENVIRONMENT_PREFIX, Declaration, Settings

CONFIG_VARIABLE = "RESTANTE_CONFIG"
# Variables of the command line, which name a server and the key for it.
CLIENT_VARIABLES = ("RESTANTE_SERVER", "RESTANTE_API_KEY")
CONFIG_FLAG = "--config"
CONFIG_NAME = "restante.toml"
DEFAULT = "default"
# A value of a setting that may have a secret, beginning with this, names a file with the value.
FILE_MARK = "@"
VALUE_CHARACTERS_MAX = 60
_PUBLIC_URL = "set the URL under which devices, clients and people reach it, for example https://restante.example.com"
# Kubernetes sets these variables in every container if a service is named "restante". They are no settings.
_SERVICE_LINK = re.compile(r"RESTANTE_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP)(_(PROTO|PORT|ADDR))?)?)")


class SettingsError(Exception):
    """Settings are invalid; one problem per line."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


class RawValue(NamedTuple):
    """A value as it was written, and where."""

    raw: object
    origin: str


class ResolvedSettings(NamedTuple):
    settings: Settings
    origins: dict[str, str]


def load(flags: Mapping[str, object], environ: Mapping[str, str], config: Path | None = None) -> Settings:
    """Load the settings, or raise SettingsError. Flags are keyed by setting name; None means a flag was not used."""
    return resolve(flags, environ, config).settings


def resolve(flags: Mapping[str, object], environ: Mapping[str, str], config: Path | None = None) -> ResolvedSettings:
    """Like `load`, with the origin of each value."""
    problems: list[str] = []
    raw_values = _from_environment(environ, problems) | _from_flags(flags)
    # The environment and the flags may name the file, so it is read last, and adds only what they do not set.
    for name, value in _from_file(_config_file(raw_values, environ, config, problems), problems).items():
        raw_values.setdefault(name, value)
    values = _parse_all(raw_values, problems)
    if not problems:
        problems.extend(_conflicts(Settings(**values)))
    if problems:
        raise SettingsError(problems)
    origins = {name: raw_values[name].origin if name in raw_values else DEFAULT for name in DECLARATIONS}
    return ResolvedSettings(Settings(**values), origins)


def _from_flags(flags: Mapping[str, object]) -> dict[str, RawValue]:
    return {
        name: RawValue(raw, DECLARATIONS[name].flag or name) for name, raw in flags.items() if raw not in (None, [])
    }


def _from_environment(environ: Mapping[str, str], problems: list[str]) -> dict[str, RawValue]:
    by_variable = {declaration.variable: name for name, declaration in DECLARATIONS.items()}
    values = {}
    for name, declaration in DECLARATIONS.items():
        variable = declaration.contract_variable
        if variable is not None and variable in environ:
            values[name] = RawValue(environ[variable], variable)
    for variable, raw in environ.items():
        if variable in by_variable:
            values[by_variable[variable]] = RawValue(raw, variable)
        elif _looks_like_setting(variable):
            problems.append(f"{variable}: there is no such setting" + _did_you_mean(variable))
    return values


def _looks_like_setting(variable: str) -> bool:
    return (
        variable.startswith(ENVIRONMENT_PREFIX)
        and variable not in (CONFIG_VARIABLE, *CLIENT_VARIABLES)
        and not _SERVICE_LINK.fullmatch(variable)
    )


class _ConfigFile(NamedTuple):
    path: Path
    is_in_data_folder: bool


def _config_file(
    values: Mapping[str, RawValue], environ: Mapping[str, str], config: Path | None, problems: list[str]
) -> _ConfigFile | None:
    path = config or (Path(environ[CONFIG_VARIABLE]) if environ.get(CONFIG_VARIABLE) else None)
    if path is not None:
        if path.is_file():
            return _ConfigFile(path, is_in_data_folder=False)
        origin = CONFIG_FLAG if config else CONFIG_VARIABLE
        problems.append(f"{path}: there is no such file (from {origin})")
        return None
    data = DECLARATIONS["data"]
    folder = _parse(data, values["data"], []) if "data" in values else data.default
    path = folder / CONFIG_NAME if folder is not None else None
    return _ConfigFile(path, is_in_data_folder=True) if path is not None and path.is_file() else None


def _from_file(file: _ConfigFile | None, problems: list[str]) -> dict[str, RawValue]:
    if file is None:
        return {}
    try:
        table = tomllib.loads(file.path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problems.append(f"{file.path}: cannot be read as TOML: {error}")
        return {}
    values = {}
    for name, raw in table.items():
        problem = _misplacement(name, file)
        if problem:
            problems.append(f"{name}: {problem} (from {file.path})")
        else:
            values[name] = RawValue(raw, str(file.path))
    return values


def _misplacement(name: str, file: _ConfigFile) -> str | None:
    """The reason why this setting must not be in this file, or None."""
    if name not in DECLARATIONS:
        return "there is no such setting" + _did_you_mean(name)
    if DECLARATIONS[name].is_secret:
        return f"a secret must be set by the environment variable {DECLARATIONS[name].variable} only"
    if name == "data" and file.is_in_data_folder:
        return "a file in the data folder cannot set the data folder"
    return None


def _did_you_mean(name: str) -> str:
    """Suggest the setting with the most similar name, ignoring the common prefix."""
    is_variable = name.startswith(ENVIRONMENT_PREFIX)
    matches = difflib.get_close_matches(name.removeprefix(ENVIRONMENT_PREFIX).lower(), DECLARATIONS, n=1)
    if not matches:
        return ""
    return f"; did you mean {DECLARATIONS[matches[0]].variable if is_variable else matches[0]}?"


def _parse_all(values: Mapping[str, RawValue], problems: list[str]) -> dict[str, Any]:
    return {name: _parse(DECLARATIONS[name], value, problems) for name, value in values.items()}


def _parse(declaration: Declaration, value: RawValue, problems: list[str]) -> Any:
    try:
        return declaration.type.parse(_read_files(value.raw) if declaration.has_secret else value.raw)
    except OSError as error:
        problems.append(f"{declaration.name}: cannot read {error.filename}: {error.strerror} (from {value.origin})")
        return None
    except ValueError as error:
        expected = declaration.type.expected
        got = "another value" if declaration.has_secret else _shorten(value.raw)
        detail = f": {error}" if isinstance(error, InvalidValue) else ""
        problems.append(f"{declaration.name}: expected {expected}, got {got} (from {value.origin}){detail}")
        return None


def _read_files(raw: object) -> object:
    """Replace each `@FILE` by the content of the file, so that a secret need not be in a command line."""
    if isinstance(raw, list):
        return [_read_files(each) for each in raw]
    if not isinstance(raw, str) or not raw.startswith(FILE_MARK):
        return raw
    return Path(raw.removeprefix(FILE_MARK)).read_text(encoding="utf-8").strip()


def passwords_in_flags(flags: Mapping[str, object]) -> list[str]:
    """The flags whose values have a password, which every user of the machine can see."""
    return [
        declaration.flag or name
        for name, raw in flags.items()
        if (declaration := DECLARATIONS[name]).has_secret
        and any(mask_url_passwords(str(each)) != str(each) for each in (raw if isinstance(raw, list) else [raw]))
    ]


def _shorten(raw: object) -> str:
    text = repr(raw)
    return text if len(text) <= VALUE_CHARACTERS_MAX else text[: VALUE_CHARACTERS_MAX - 1] + "…"


def _conflicts(settings: Settings) -> Iterable[str]:
    if settings.outbox_retry_base_seconds > settings.outbox_retry_max_seconds:
        yield (
            "outbox_retry_base_seconds: expected at most outbox_retry_max_seconds, "
            f"got {settings.outbox_retry_base_seconds:g} and {settings.outbox_retry_max_seconds:g}"
        )
    if (settings.tls_certificate is None) != (settings.tls_key is None):
        yield "tls_certificate and tls_key: expected both or neither"
    if settings.tls_client_ca is not None and settings.tls_certificate is None:
        yield "tls_client_ca: expected together with tls_certificate and tls_key"
    if settings.client_crl is not None and settings.tls_client_ca is None:
        yield "client_crl: expected together with tls_client_ca; behind a proxy, the proxy checks certificates"
    if settings.forwarded_header != "none" and not settings.trusted_proxies:
        yield "forwarded_header: expected together with trusted_proxies, whose header counts"
    if settings.events_base and settings.events_base == settings.events_base_v3:
        yield f"events_base and events_base_v3: expected two different paths, got {settings.events_base} for both"
    for issuer in settings.authorization_servers:
        if issuer.audience is None:
            yield f"authorization_servers: expected an audience for {issuer.issuer}"


def check_public_url(settings: Settings) -> None:
    """Raise SettingsError for a server that others can reach and that does not know its own URL.

    Issuers, audiences, metadata and links contain the URL. A request cannot prove it: the sender writes its Host.
    """
    if settings.public_url is not None or "api" not in settings.roles:
        return
    if not settings.listen.is_loopback:
        raise SettingsError([f"public_url: required, because the server listens on {settings.listen}: {_PUBLIC_URL}"])
    if settings.trusted_proxies:
        raise SettingsError([f"public_url: required, because the server is behind trusted_proxies: {_PUBLIC_URL}"])


def check_workers(workers: int, *, is_shared: bool) -> None:
    """Raise SettingsError for several workers on an embedded database."""
    if workers > 1 and not is_shared:
        problem = f"workers: got {workers}, but only one process can use the embedded database"
        raise SettingsError([f"{problem}: use 1, or a PostgreSQL database"])
