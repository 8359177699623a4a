import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tests.cli.conftest import Restante
from tests.pki import pki


def public_pem(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def test_client_with_secret_is_made_rotated_suspended_and_resumed(remote: Restante) -> None:
    made = remote("client", "create", "Shop", "--method", "client_secret_basic", "--client-id", "shop")
    assert made.stdout.startswith("Client shop.\nShown this once:\nclient_secret  cs_")
    assert remote.json("client", "rotate", "shop", "--yes")["client_secret"].startswith("cs_")
    assert remote.json("client", "suspend", "shop", "--yes")["status"] == "suspended"
    assert remote.json("client", "resume", "shop")["status"] == "active"
    assert [each["client_id"] for each in remote.items("client", "list")] == ["shop"]
    assert remote.items("client", "refusals", "shop") == []
    assert remote.json("client", "why", "shop")["waiting_for"] == "first_poll"
    assert remote.items("client", "audit", "--client", "shop")[0]["actor"].startswith("local:")


@pytest.mark.parametrize("kind", ["EC", "RSA", "OKP"])
def test_public_key_in_pem_becomes_a_jwk(remote: Restante, tmp_path: Path, kind: str) -> None:
    keys: dict[str, Callable[[], Any]] = {
        "EC": lambda: ec.generate_private_key(ec.SECP256R1()),
        "RSA": lambda: rsa.generate_private_key(65537, 2048),
        "OKP": ed25519.Ed25519PrivateKey.generate,
    }
    file = tmp_path / "key.pem"
    file.write_bytes(public_pem(keys[kind]()))
    made = remote.json("client", "create", kind, "--method", "private_key_jwt", "--public-key", str(file))
    assert len(remote.json("client", "show", made["client_id"])["kids"][0]) == 43


def test_private_key_is_refused_and_not_sent(remote: Restante, tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    key = ec.generate_private_key(ec.SECP256R1())
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    create = ("client", "create", "x", "--method", "private_key_jwt")
    assert remote.error_line(*create, "--public-key", str(file)).startswith("--public-key: expected a public key")
    assert remote.error_line(*create, "--jwks", str(file)).startswith("--jwks: expected a JWKS; --public-key")


def test_subject_is_read_from_the_certificate(remote: Restante) -> None:
    certificate = str(pki().tpp.certificate)
    made = remote.json("client", "create", "TPP", "--method", "tls_client_auth", "--certificate", certificate)
    assert "CN=" in remote.json("client", "show", made["client_id"])["tls_client_auth_subject_dn"]


def test_jwks_from_a_file_is_sent_as_it_is(remote: Restante, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": []}))
    refused = remote.error_line("client", "create", "x", "--method", "private_key_jwt", "--jwks", str(file))
    assert refused.startswith("--jwks")


def test_address_of_keys_is_read_by_the_server_which_names_the_flag(remote: Restante) -> None:
    uri = "https://localhost:1/jwks.json"
    refused = remote.error_line("client", "create", "x", "--method", "private_key_jwt", "--jwks-uri", uri)
    assert refused.startswith("--jwks-uri: expected an address that can be read")
    both = remote.error_line(
        "client", "create", "x", "--method", "private_key_jwt", "--jwks-uri", uri, "--jwks", __file__
    )
    assert both.startswith("--jwks")


def test_client_is_tagged_counted_exported_and_deleted(remote: Restante) -> None:
    remote.ok("client", "create", "Gone", "--method", "client_secret_basic", "--client-id", "gone-client")
    assert remote.json("client", "tag", "gone", "pilot") == {"tags": ["pilot"]}
    assert remote.json("client", "untag", "gone-client", "pilot") == {"tags": []}
    assert remote.json("client", "list", "--name", "Gone", "--count")["states"]["active"]["value"] == 1
    assert "gone-client" in remote.ok("client", "export", "--method", "client_secret_basic")
    assert "which has 0 events" in remote.error_line("client", "delete", "gone-client")
    assert remote.json("client", "delete", "gone-client", "--yes")["status"] == "removed"
    assert remote.error_line("client", "show", "nobody-at-all") == "there is no client 'nobody-at-all'"


def test_client_is_created_with_a_public_key_in_pem(remote: Restante, tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    public = ec.generate_private_key(ec.SECP256R1()).public_key()
    file.write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    create = ("client", "create", "Keyed", "--method", "private_key_jwt", "--public-key", str(file))
    assert remote.json(*create, "--client-id", "keyed")["client_id"] == "keyed"
    assert len(remote.json("client", "show", "keyed")["kids"]) == 1
    assert remote(*create, "--jwks", str(file)).exit_code == 2
    file.write_text("no key")
    assert remote.error_line(*create).startswith("--public-key: expected a public key")
