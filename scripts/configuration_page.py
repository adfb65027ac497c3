"""docs/configuration.md, made from the schema: every key with its default, what it does, and its variable."""

from collections.abc import Iterator
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from exporter.config.loading import PREFIX, dump_config
from exporter.config.schema import Config

INTRODUCTION = """\
# Configuration

<!-- Made by scripts/generate_docs.py configuration from exporter/config/schema.py. Do not edit. -->

Everything has a default: without a file, environment or flags the exporter runs. Later beats earlier:

1. a YAML file: `--config FILE`. An unknown key, a key that stands twice or a value of
   the wrong kind is an error that names file, line and key;
2. the environment: `GPU_OWNERSHIP_` and the key in capitals, groups joined by two underscores: `GPU_OWNERSHIP_NVML__LIBRARY`;
3. flags: `--listen`, `--node-name`, `--interval`, and `--set KEY=VALUE` for any key: `--set nvml.library=/x`.

Values are YAML everywhere: a list in a variable is `[a, b]`. Durations carry their unit
(`250ms`, `5s`, `1h30m`, `14d`), sizes too (`64MiB`).
`gpu-ownership-exporter check-config FILE` says whether a file can be used, and prints what it comes to; on an error
it ends with status 2.

`NODE_NAME`, from the downward API, names the node where `node_name` is empty.

## Keys

| Key | Default | Effect | Variable |
|---|---|---|---|
"""

DEFAULTS = """
## All defaults

```yaml
{defaults}```
"""


def configuration_page() -> str:
    """The page as the schema has it."""
    rows = "".join(_rows(Config, Config(), ""))
    return INTRODUCTION + rows + DEFAULTS.format(defaults=dump_config(Config()))


def _rows(model: type[BaseModel], defaults: BaseModel, prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        value = getattr(defaults, name)
        if isinstance(value, BaseModel):
            yield from _rows(type(value), value, f"{prefix}{name}.")
        else:
            yield _row(
                prefix + (field.alias or name), field, defaults.model_dump(mode="json", by_alias=True)[field.alias or name]
            )


def _row(key: str, field: FieldInfo, default: Any) -> str:  # noqa: ANN401 - a setting can be anything
    variable = PREFIX + key.upper().replace(".", "__")
    cells = (f"`{key}`", _shown(default), field.description or "", f"`{variable}`")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _shown(default: Any) -> str:  # noqa: ANN401 - as above
    if default in ("", [], {}):
        return "empty"
    if isinstance(default, list) and isinstance(default[0], dict):
        return "see below"
    text = yaml.safe_dump(default, default_flow_style=True, width=1000)
    return f"`{text.strip().removesuffix('...').strip()}`"
