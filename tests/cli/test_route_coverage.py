"""Every operator route of the OpenAPI document is used by a command."""

import ast
import importlib.util
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CLI = ROOT / "src" / "restante" / "cli"
USER = "/apiv1/users/{user_id}"
# Routes without a command, and why.
EXCEPTIONS = {
    "GET /apiv1/me/devices": "`device list` lists the devices that the caller may see",
    f"GET {USER}/devices": "`device list --user` filters the fleet",
    "PUT /api/edge/v1/admin/rules/{rule_id}": "`rule update` changes the given fields, which may be all",
}


def generator() -> Any:
    """The script that names a method for each operator route."""
    loader = SourceFileLoader("generate_operator_client", str(ROOT / "scripts" / "generate-operator-client"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def called_methods() -> set[tuple[str, str]]:
    """Noun and method of every `….noun.method` in the command line."""
    trees = [ast.parse(path.read_text("utf-8")) for path in CLI.rglob("*.py")]
    return {
        (node.value.attr, node.attr.removesuffix("_page"))
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute)
    }


def test_every_operator_route_has_a_command() -> None:
    script = generator()
    routes = {
        (noun, method): route
        for nouns in script.TABLE.values()
        for noun, methods in nouns.items()
        for method, route in methods.items()
    }
    called = called_methods()
    unused = {route for name, route in routes.items() if name not in called}
    assert unused == EXCEPTIONS.keys()
    assert script.routes_without_method(script.api_document()) == []
