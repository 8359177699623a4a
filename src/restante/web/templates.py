"""HTML pages from templates. Every value is escaped; a missing value raises an error.

The template library is imported with the first page, because few processes render one and the import slows the start.
"""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


class Templates:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def render(self, template: str, **values: Any) -> str:
        return self._environment.get_template(template).render(**values)

    @cached_property
    def _environment(self) -> "Environment":
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        return Environment(
            loader=FileSystemLoader(self._folder), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        )
