import pytest

from restante.core.errors import NotFound
from restante.database.database import Database
from restante.delivery.outbox import OWN_SOURCE
from restante.delivery.sources import own_source, source_named


def test_an_outbox_is_found_by_its_name(database: Database) -> None:
    sources = {OWN_SOURCE: own_source(database)}
    assert source_named(sources, OWN_SOURCE).database is database
    with pytest.raises(NotFound, match="no outbox 'shop'; there are server"):
        source_named(sources, "shop")
