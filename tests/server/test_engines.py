from pathlib import Path

from restante.server.engines import engine_of, place_of
from restante.server.setting_kinds import DatabaseAddress
from restante.server.settings import Settings

URL = "postgresql://restante:secret@db.example/restante"


def test_without_an_address_it_is_the_embedded_database_of_the_data_folder(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path)
    assert engine_of(settings).name == "sqlite"
    assert place_of(settings) == str(tmp_path / "restante.db")


def test_an_address_chooses_postgresql_with_so_many_connections() -> None:
    settings = Settings(database=DatabaseAddress(URL), database_writers=3, database_readers=5)
    engine = engine_of(settings)
    assert (engine.name, engine.writers, engine.readers) == ("postgres", 3, 5)


def test_the_place_that_is_told_has_no_password() -> None:
    assert place_of(Settings(database=DatabaseAddress(URL))) == "postgresql://restante:…@db.example/restante"
