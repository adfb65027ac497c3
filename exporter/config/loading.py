"""File, environment and flags become one `Config`, or one clear error that names the place."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from exporter.config.schema import Config

PREFIX = "GPU_OWNERSHIP_"
NOT_SETTINGS = re.compile(r"GPU_OWNERSHIP_(?:EXPORTER_|SIMULATED_|SERVICE_HOST$|SERVICE_PORT(?:_|$)|PORT(?:_|$))")
"""Variables that Kubernetes makes up for Services called gpu-ownership-exporter or gpu-ownership, and the simulator's own."""
FLAGS = {"listen": "--listen", "node_name": "--node-name", "interval": "--interval"}
"""Settings that have a flag of their own."""
MAX_FILE_BYTES = 1 << 20

Place = tuple[str | int, ...]


class ConfigError(Exception):
    """The configuration cannot be used; the message is one line that names file, line, key and reason."""


def load_config(path: Path | None, environ: Mapping[str, str], overrides: Sequence[str] = ()) -> Config:
    """Read the configuration.

    Args:
        path: YAML file, or None for the defaults.
        environ: Environment; ``GPU_OWNERSHIP_NVML__LIBRARY`` sets ``nvml.library``.
        overrides: From flags, each ``key=value`` with a dotted key and a YAML value.

    Raises:
        ConfigError: something cannot be read or is not allowed.
    """
    origins: dict[Place, str] = {}
    settings: dict[str, Any] = {}
    if path is not None:
        settings = _read_file(path, origins)
    for name, value in sorted(environ.items()):
        if name.startswith(PREFIX) and not NOT_SETTINGS.match(name):
            _set(settings, tuple(name.removeprefix(PREFIX).lower().split("__")), value, name, origins)
    for override in overrides:
        key, separator, value = override.partition("=")
        if not separator:
            raise ConfigError(f"--set {override}: KEY=VALUE is wanted")
        _set(settings, tuple(key.strip().split(".")), value, FLAGS.get(key.strip(), f"--set {key}"), origins)
    try:
        return Config.model_validate(settings)
    except ValidationError as error:
        raise ConfigError("; ".join(_explained(error, origins))) from None


def dump_config(config: Config) -> str:
    """The effective configuration as YAML that `load_config` reads back."""
    return yaml.safe_dump(config.model_dump(mode="json", by_alias=True), sort_keys=False, allow_unicode=True)


def _read_file(path: Path, origins: dict[Place, str]) -> dict[str, Any]:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_FILE_BYTES} bytes")
    try:
        _refuse_aliases(raw, str(path))
        node = yaml.compose(raw, Loader=yaml.SafeLoader)
        settings = yaml.safe_load(raw)
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise ConfigError(f"{path}{line}: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{path}: {' '.join(str(error).split())}") from None
    if node is None or settings is None:
        return {}
    if not isinstance(settings, dict):
        raise ConfigError(f"{path}:{node.start_mark.line + 1}: settings by key are wanted")
    _note_lines(node, (), str(path), origins)
    return settings


def _refuse_aliases(raw: bytes, file: str) -> None:
    """A few of them can stand for more than any memory holds, or for themselves."""
    for event in yaml.parse(raw, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            line = f":{event.start_mark.line + 1}" if event.start_mark else ""
            raise ConfigError(f"{file}{line}: aliases are not used here: write the value out")


def _note_lines(node: yaml.Node, place: Place, file: str, origins: dict[Place, str]) -> None:
    """Remember on which line each key stands; refuse a key that stands twice."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            origin = f"{file}:{key.start_mark.line + 1}"
            if key.tag != "tag:yaml.org,2002:str":
                raise ConfigError(f"{origin}: {_dotted((*place, str(key.value)))}: a key is a word, in quotes if need be")
            here = (*place, str(key.value))
            if here in origins:
                raise ConfigError(f"{origin}: {_dotted(here)}: this key stands here twice")
            origins[here] = origin
            _note_lines(value, here, file, origins)
    elif isinstance(node, yaml.SequenceNode):
        for position, value in enumerate(node.value):
            origins[(*place, position)] = f"{file}:{value.start_mark.line + 1}"
            _note_lines(value, (*place, position), file, origins)


def _set(settings: dict[str, Any], place: tuple[str, ...], text: str, origin: str, origins: dict[Place, str]) -> None:
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        raise ConfigError(f"{origin}: the value is no YAML") from None
    section = settings
    for depth, key in enumerate(place[:-1], start=1):
        inner = section.setdefault(key, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{origin}: {_dotted(place[:depth])} is no group of settings")
        section = inner
    section[place[-1]] = "" if value is None else value
    origins[place] = origin


def _explained(error: ValidationError, origins: Mapping[Place, str]) -> Iterator[str]:
    for problem in error.errors(include_url=False, include_context=False):
        place = problem["loc"]
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            message = "unknown key" + _nearest(place)
        yield f"{_origin(place, origins)}: {_dotted(place)}: {message}".removeprefix(": ")


def _origin(place: Place, origins: Mapping[Place, str]) -> str:
    """Where the key was set, else where something in it was set, else where the group around it stands."""
    inside = [origin for known, origin in origins.items() if known[: len(place)] == place]
    around = (origins[place[:end]] for end in range(len(place), 0, -1) if place[:end] in origins)
    return origins.get(place) or next(iter(inside), None) or next(around, "")


def _nearest(place: Place) -> str:
    known = list(_known_keys(Config, place[:-1]))
    close = difflib.get_close_matches(str(place[-1]), known, n=1, cutoff=0.5)
    return f", the nearest is {close[0]}" if close else f", known here: {', '.join(sorted(known))}"


def _known_keys(model: type[BaseModel], place: Place) -> Iterator[str]:
    for step in place:
        if isinstance(step, int):
            continue
        field = next((field for name, field in model.model_fields.items() if step in (name, field.alias)), None)
        if field is None:
            return
        inner = next((found for found in _models(field.annotation)), None)
        if inner is None:
            return
        model = inner
    for name, field in model.model_fields.items():
        yield field.alias or name


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _dotted(place: Place) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")
