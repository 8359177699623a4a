import pytest

from tests.events.client_app import AppClient, ClientApp


@pytest.fixture
def client(app: ClientApp) -> AppClient:
    return app.new_client()
