"""HTML pages from templates. Every value is escaped; a missing value raises an error.

The template library is imported with the first page, because few processes render one and the import slows the start.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


class Templates:
    def __init__(self, folder: Path, functions: Mapping[str, Any] | None = None) -> None:
        """`functions`: what every template may call, by name."""
        self._folder = folder
        self._functions = functions or {}

    def render(self, template: str, **values: Any) -> str:
        return self._environment.get_template(template).render(**values)

    @cached_property
    def _environment(self) -> "Environment":
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        environment = Environment(
            loader=FileSystemLoader(self._folder), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        )
        environment.globals.update(self._functions)
        return environment
