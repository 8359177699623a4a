"""One issue of a certificate, ready to be stored: the chain as PEM, and the private key under its data key.

Pure cryptography, done before the transaction that stores it. Each call makes its own data key.
"""

from dataclasses import dataclass
from typing import Any

from cryptography import x509

from restante.identity.master_key import MasterKey
from restante.updates.pki.crypto.sealing import DATA_KEY_PURPOSE, EncryptedKey, encrypt_private_key, new_data_key
from restante.updates.pki.crypto.x509 import CertificateWithKey, as_pem, epoch_ms, serial_text


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    certificate: x509.Certificate
    chain: list[x509.Certificate]
    encrypted_key: EncryptedKey
    sealed_data_key: bytes

    def columns(self) -> dict[str, Any]:
        """The values of the database columns."""
        return {
            "serial": serial_text(self.certificate),
            "issuer": self.certificate.issuer.rfc4514_string(),
            "not_before": epoch_ms(self.certificate.not_valid_before_utc),
            "not_after": epoch_ms(self.certificate.not_valid_after_utc),
            "certificate_pem": as_pem(self.certificate),
            "chain_pem": "".join(as_pem(issuer) for issuer in self.chain),
            "enc_privkey": self.encrypted_key.ciphertext,
            "privkey_nonce": self.encrypted_key.nonce,
            "privkey_tag": self.encrypted_key.tag,
            "sealed_data_key": self.sealed_data_key,
        }


def seal_certificate(
    leaf: CertificateWithKey, chain: list[x509.Certificate], master_key: MasterKey
) -> IssuedCertificate:
    data_key = new_data_key()
    return IssuedCertificate(
        leaf.certificate,
        chain,
        encrypt_private_key(data_key, leaf.private_key_der),
        master_key.seal(data_key, DATA_KEY_PURPOSE),
    )
