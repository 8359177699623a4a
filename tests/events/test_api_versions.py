"""The paths of the API's versions, and the format that each has."""

import pytest

from restante.events.api_versions import ApiBase, ApiPaths
from restante.events.response_format import BY_VERSION, V3, V4
from tests.events.default_options import api_paths


def test_each_version_has_its_path_and_the_root_has_the_configured_version() -> None:
    own = [ApiBase("/open-banking/v4.0", "v4.0"), ApiBase("/open-banking/v3.1", "v3.1")]
    assert api_paths().bases() == [ApiBase("", "v4.0"), *own]
    assert api_paths(root_version="v3.1").bases() == [ApiBase("", "v3.1"), *own]
    assert [BY_VERSION[base.version] for base in own] == [V4, V3]


@pytest.mark.parametrize(
    ("paths", "named"),
    [
        (api_paths(), ["/open-banking/v4.0", "/open-banking/v3.1"]),
        (api_paths(v4=""), ["/open-banking/v3.1"]),
        (api_paths(v4="", v3=""), [""]),
    ],
)
def test_developers_see_the_root_only_if_there_is_no_other_path(paths: ApiPaths, named: list[str]) -> None:
    assert [base.path for base in paths.named()] == named
    assert paths.preferred == named[0]
