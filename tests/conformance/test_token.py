"""The token endpoint's cases, each through the fast lane's port and through uvicorn's own protocol."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from restante.events import clients
from restante.events.clients import Registration
from restante.server.access_setting_kinds import Addresses
from tests.events.keys import ASSERTION_TYPE, assertion, jwks
from tests.events.token_desk import basic
from tests.pki import TPP_DN, pki
from tests.server.serving import Served

FOLDER = Path(__file__).parent / "token"
CASES = [case for path in sorted(FOLDER.glob("*.toml")) for case in tomllib.loads(path.read_text("utf-8"))["case"]]
MODES: dict[str, dict[str, Any]] = {
    "mutual": {"trusted_proxies": Addresses().read("127.0.0.1"), "public_url": "https://localhost"},
    "development": {},
}


class Bank:
    """A served node in one of the modes, with a client for each way of proving oneself."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.served = Served(folder, is_still=True, token_failures_per_minute=1000, **MODES[mode])
        write = self.served.node.database.write_now
        scope = "eventpolling ssf.read"
        write(clients.add, Registration("n", "tls_client_auth", "by-certificate", subject_dn=TPP_DN, scope=scope))
        write(clients.add, Registration("n", "private_key_jwt", "by-key", jwks=jwks("ec-1")))
        self.secret = write(clients.add, Registration("n", "client_secret_basic", "by-secret")).client_secret or ""

    def ask(self, port: int, case: dict[str, Any]) -> httpx.Response:
        form, headers = dict(case.get("form", {})), {}
        if "certificate" in case:
            headers["client-cert"] = getattr(pki(), case["certificate"]).header
        if "secret" in case:
            headers |= basic("by-secret", self.secret if case["secret"] == "right" else "wrong")
        if "assertion" in case:
            claims = {"aud": "https://localhost/token", **case["assertion"]}
            text = assertion("by-key", claims.pop("aud"), **claims)
            form |= {"client_assertion_type": ASSERTION_TYPE, "client_assertion": text}
        url = f"http://127.0.0.1:{port}/token"
        if "raw" in case:
            typed = {**headers, "content-type": case["media_type"]}
            return httpx.post(url, content=case["raw"], headers=typed, timeout=30)
        return httpx.post(url, data=form, headers=headers, timeout=30)


@pytest.fixture(scope="module")
def banks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Bank]]:
    banks = {mode: Bank(tmp_path_factory.mktemp(mode), mode) for mode in MODES}
    yield banks
    for bank in banks.values():
        bank.served.close()


@pytest.mark.parametrize("way", ["fast lane", "application"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(banks: dict[str, Bank], case: dict[str, Any], way: str) -> None:
    bank = banks[case["mode"]]
    answer = bank.ask(bank.served.fast_port if way == "fast lane" else bank.served.plain_port, case)
    expected, body = case["expected"], answer.json()
    assert answer.status_code == expected["status"], answer.text
    assert answer.headers["cache-control"] == "no-store"
    assert ("www-authenticate" in answer.headers) == expected.get("challenge", False)
    if answer.status_code == 200:
        assert set(body) == {"access_token", "token_type", "expires_in", "scope"}
        assert body["token_type"] == "Bearer"
        assert body["scope"] == expected.get("scope", body["scope"])
    else:
        assert set(body) == {"error", "error_description"}
        assert body["error"] == expected["error"]
        assert body["error_description"] == expected.get("description", body["error_description"])


def test_every_case_says_why() -> None:
    assert all(case["why"] for case in CASES)
    assert len({case["name"] for case in CASES}) == len(CASES)
