import ipaddress
from pathlib import Path

import pytest

from restante.server.access_setting_kinds import Addresses, File, Networks
from restante.server.settings_sources import SettingsError, load, resolve


def test_reads_networks_from_text_and_from_a_list() -> None:
    wanted = Networks([ipaddress.ip_network("127.0.0.1/32"), ipaddress.ip_network("fd00::/8")])
    assert Addresses().read("127.0.0.1, fd00::/8,") == wanted
    assert Addresses().read(["127.0.0.1", "fd00::/8"]) == wanted
    assert Addresses().read(wanted) is wanted
    assert Addresses().read("") == Networks()
    assert str(wanted) == "127.0.0.1/32, fd00::/8"


@pytest.mark.parametrize("raw", ["localhost", "10.0.0.1/8", "10.0.0.0/33", ["x"], 5, {"a": 1}])
def test_refuses_what_is_no_network(raw: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 — the reader of the settings says what was expected
        Addresses().read(raw)


def test_reads_the_path_of_a_file() -> None:
    assert File().read("a.pem") == Path("a.pem")
    for raw in ("", 5, "a\0b"):
        with pytest.raises(ValueError):  # noqa: PT011 — as above
            File().read(raw)


def test_a_network_with_host_bits_is_explained() -> None:
    with pytest.raises(SettingsError, match="has host bits set"):
        load({"trusted_proxies": "10.0.0.1/8"}, {})


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"tls_certificate": "a"}, "tls_certificate and tls_key"),
        ({"tls_key": "a"}, "tls_certificate and tls_key"),
        ({"tls_client_ca": "a"}, "tls_client_ca"),
        (
            {"authorization_servers": '[{"issuer":"https://a.example","jwks":"x","algorithms":["PS256"]}]'},
            "authorization_servers",
        ),
    ],
)
def test_what_does_not_go_together(flags: dict[str, object], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        resolve(flags, {})
