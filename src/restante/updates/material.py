"""One issue of a certificate, ready to be stored: the chain as PEM, and the private key under its data key.

Pure cryptography, done before the transaction that stores it. Each call makes a data key of its own.
"""

from typing import Any, NamedTuple

from cryptography import x509

from restante.identity.master_key import MasterKey
from restante.updates.sealing import DATA_KEY_PURPOSE, EncryptedKey, encrypt_private_key, new_data_key
from restante.updates.x509 import Keyed, as_pem, milliseconds, serial_text


class IssueMaterial(NamedTuple):
    certificate: x509.Certificate
    chain: list[x509.Certificate]
    encrypted_key: EncryptedKey
    sealed_data_key: bytes

    def columns(self) -> dict[str, Any]:
        """The material as the database keeps it."""
        return {
            "serial": serial_text(self.certificate),
            "issuer": self.certificate.issuer.rfc4514_string(),
            "not_before": milliseconds(self.certificate.not_valid_before_utc),
            "not_after": milliseconds(self.certificate.not_valid_after_utc),
            "certificate_pem": as_pem(self.certificate),
            "chain_pem": "".join(as_pem(above) for above in self.chain),
            "enc_privkey": self.encrypted_key.ciphertext,
            "privkey_nonce": self.encrypted_key.nonce,
            "privkey_tag": self.encrypted_key.tag,
            "sealed_data_key": self.sealed_data_key,
        }


def seal_material(keyed: Keyed, chain: list[x509.Certificate], master_key: MasterKey) -> IssueMaterial:
    data_key = new_data_key()
    return IssueMaterial(
        keyed.certificate,
        chain,
        encrypt_private_key(data_key, keyed.private_key_der),
        master_key.seal(data_key, DATA_KEY_PURPOSE),
    )
