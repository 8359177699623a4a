from pathlib import Path

from restante.server.config.settings import Settings
from restante.server.config.url_setting_types import DatabaseAddress
from restante.server.engines import database_location, engine_of

URL = "postgresql://restante:secret@db.example/restante"


def test_default_is_embedded_database_in_data_folder(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path)
    assert engine_of(settings).name == "sqlite"
    assert database_location(settings) == str(tmp_path / "restante.db")


def test_url_selects_postgresql_with_configured_connections() -> None:
    settings = Settings(database=DatabaseAddress(URL), database_writers=3, database_readers=5)
    engine = engine_of(settings)
    assert (engine.name, engine.writers, engine.readers) == ("postgres", 3, 5)


def test_location_has_no_password() -> None:
    assert database_location(Settings(database=DatabaseAddress(URL))) == "postgresql://restante:…@db.example/restante"
