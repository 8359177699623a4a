import pytest

from restante.core.errors import NotFound
from restante.database.database import Database
from restante.delivery.outbox.outbox import OWN_SOURCE
from restante.delivery.outbox.outbox_sources import find_source, own_outbox_source


def test_outbox_is_found_by_its_name(database: Database) -> None:
    sources = {OWN_SOURCE: own_outbox_source(database)}
    assert find_source(sources, OWN_SOURCE).database is database
    with pytest.raises(NotFound, match="no outbox 'shop'; there are server"):
        find_source(sources, "shop")
