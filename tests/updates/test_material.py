from datetime import UTC, datetime

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from restante.identity.master_key import MasterKey
from restante.updates.material import seal_material
from restante.updates.sealing import DATA_KEY_PURPOSE
from restante.updates.x509 import Subject, as_pem, issue_leaf, make_authority, new_signing_key

NOW = datetime(2027, 1, 15, 8, tzinfo=UTC)
MASTER = MasterKey(bytes(32))
CA = make_authority(Subject("Workshop CA"), new_signing_key("P-256", 0), NOW, 30, None)
LEAF = issue_leaf(CA, ["a.example"], NOW, 300)


def test_the_columns_hold_the_chain_and_the_encrypted_key() -> None:
    columns = seal_material(LEAF, [CA.certificate], MASTER).columns()
    assert columns["certificate_pem"] == as_pem(LEAF.certificate)
    assert columns["chain_pem"] == as_pem(CA.certificate)
    assert columns["issuer"] == "CN=Workshop CA"
    assert columns["not_after"] - columns["not_before"] == 300_000
    data_key = MASTER.open(columns["sealed_data_key"], DATA_KEY_PURPOSE)
    sealed = columns["enc_privkey"] + columns["privkey_tag"]
    assert AESGCM(data_key).decrypt(columns["privkey_nonce"], sealed, None) == LEAF.private_key_der


def test_nothing_secret_lies_there_plainly() -> None:
    columns = seal_material(LEAF, [], MASTER).columns()
    data_key = MASTER.open(columns["sealed_data_key"], DATA_KEY_PURPOSE)
    for value in columns.values():
        if isinstance(value, bytes):
            assert LEAF.private_key_der not in value
            assert data_key not in value


def test_every_issue_has_a_data_key_of_its_own() -> None:
    keys = {MASTER.open(seal_material(LEAF, [], MASTER).sealed_data_key, DATA_KEY_PURPOSE) for _ in range(5)}
    assert len(keys) == 5
