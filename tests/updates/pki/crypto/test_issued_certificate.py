from datetime import UTC, datetime

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from restante.identity.master_key import MasterKey
from restante.updates.pki.crypto.issued_certificate import seal_certificate
from restante.updates.pki.crypto.sealing import DATA_KEY_PURPOSE
from restante.updates.pki.crypto.x509 import CertificateSubject, as_pem, issue_leaf, make_authority, new_signing_key

NOW = datetime(2027, 1, 15, 8, tzinfo=UTC)
MASTER = MasterKey(bytes(32))
CA = make_authority(CertificateSubject("Workshop CA"), new_signing_key("P-256", 0), NOW, 30, None)
LEAF = issue_leaf(CA, ["a.example"], NOW, 300)


def test_columns_contain_the_chain_and_the_encrypted_key() -> None:
    columns = seal_certificate(LEAF, [CA.certificate], MASTER).columns()
    assert columns["certificate_pem"] == as_pem(LEAF.certificate)
    assert columns["chain_pem"] == as_pem(CA.certificate)
    assert columns["issuer"] == "CN=Workshop CA"
    assert columns["not_after"] - columns["not_before"] == 300_000
    data_key = MASTER.open(columns["sealed_data_key"], DATA_KEY_PURPOSE)
    sealed = columns["enc_privkey"] + columns["privkey_tag"]
    assert AESGCM(data_key).decrypt(columns["privkey_nonce"], sealed, None) == LEAF.private_key_der


def test_columns_contain_no_plain_secret() -> None:
    columns = seal_certificate(LEAF, [], MASTER).columns()
    data_key = MASTER.open(columns["sealed_data_key"], DATA_KEY_PURPOSE)
    for value in columns.values():
        if isinstance(value, bytes):
            assert LEAF.private_key_der not in value
            assert data_key not in value


def test_every_issue_has_its_own_data_key() -> None:
    keys = {MASTER.open(seal_certificate(LEAF, [], MASTER).sealed_data_key, DATA_KEY_PURPOSE) for _ in range(5)}
    assert len(keys) == 5
