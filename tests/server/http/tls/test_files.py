import ssl
import subprocess
from pathlib import Path

import pytest

from restante.server.config.settings import Settings
from restante.server.http.tls.files import TlsFiles, TlsFilesError, tls_files
from tests.pki import pki


def files(**changed: Path) -> TlsFiles:
    good = {"certificate": pki().server.certificate, "key": pki().server.key, "client_ca": pki().authority.certificate}
    return TlsFiles(**{**good, **changed})


def test_files_come_from_settings() -> None:
    assert tls_files(Settings()) is None
    given = Settings(tls_certificate=Path("a"), tls_key=Path("b"), tls_client_ca=Path("c"))
    assert tls_files(given) == TlsFiles(Path("a"), Path("b"), Path("c"))


def test_context_requires_tls_1_2_and_forward_secrecy() -> None:
    context = files().context()
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_OPTIONAL
    assert all("ECDHE" in each["name"] or each["name"].startswith("TLS_") for each in context.get_ciphers())
    assert TlsFiles(pki().server.certificate, pki().server.key).context().verify_mode == ssl.CERT_NONE


def test_unusable_file_is_named(tmp_path: Path) -> None:
    absent, garbage = tmp_path / "absent.pem", tmp_path / "garbage.pem"
    garbage.write_text("nonsense")
    for wrong, named in [
        ({"certificate": absent}, str(pki().server.key)),
        ({"certificate": garbage}, str(garbage)),
        ({"key": pki().tpp.key}, "do not belong together"),
        ({"client_ca": absent}, str(absent)),
        ({"client_ca": garbage}, str(garbage)),
    ]:
        with pytest.raises(TlsFilesError) as raised:
            files(**wrong).context()
        assert named in str(raised.value)


def test_key_with_password_is_refused_without_prompt(tmp_path: Path) -> None:
    locked = tmp_path / "locked.key"
    given = ["-in", str(pki().server.key), "-out", str(locked), "-aes256", "-passout", "pass:secret"]
    subprocess.run(["openssl", "ec", *given], check=True, capture_output=True, timeout=60)
    with pytest.raises(TlsFilesError, match="password"):
        files(key=locked).context()
