"""The published vectors, with the client's code."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from event_script import reply
from nacl.public import PrivateKey
from scripted_server import Reply, Request, ScriptedServer

from restante_client import BlockingEventReceiver, CertificateBundle, ClientSecret, ReceiverOptions, open_bundle
from restante_client.collector.signatures import SIG_VERSION, canonical_json, is_genuine, sign
from restante_client.errors import VerificationFailed
from restante_client.runtime import BlockingRuntime


def vectors(name: str) -> Any:
    return json.loads((Path(__file__).parents[2] / "vectors" / name).read_text("utf-8"))


def test_command_signatures() -> None:
    cases = vectors("command-signatures.json")["vectors"]
    assert cases
    for case in cases:
        assert sign(case["command"], case["secret"]) == case["signature"], case["name"]
        signed = {**case["command"], "signature": case["signature"], "sig_version": SIG_VERSION}
        assert is_genuine(signed, [case["secret"]])
        assert not is_genuine(signed, ["0d" * 32])


def test_ack_signatures() -> None:
    cases = vectors("ack-signatures.json")["vectors"]
    assert cases
    for case in cases:
        assert canonical_json(case["ack"]) == bytes.fromhex(case["canonical_hex"]), case["name"]
        assert sign(case["ack"], case["secret"]) == case["signature"]


def test_bundles() -> None:
    found = vectors("bundles.json")
    for case in found["vectors"]:
        opened = open_bundle(bundle_of(case), key_of(case))
        assert opened.private_key_der == base64.b64decode(case["private_key_der_b64"])
    assert found["refused"]
    for case in found["refused"]:
        with pytest.raises(VerificationFailed):
            open_bundle(bundle_of(case), key_of(case))


def bundle_of(case: dict[str, Any]) -> CertificateBundle:
    return msgspec.convert(case["bundle"], CertificateBundle)


def key_of(case: dict[str, Any]) -> PrivateKey:
    return PrivateKey(base64.b64decode(case["device_private_key_b64"]))


def test_event_tokens(server: ScriptedServer, tmp_path: Path) -> None:
    """All in two polls: those that are accepted are acknowledged, the others are reported with their codes."""
    found = vectors("event-tokens.json")

    def metadata(request: Request) -> Reply:
        base = f"http://{request.headers['Host']}"
        return reply({"issuer": found["issuer"], "token_endpoint": f"{base}/token", "jwks_uri": f"{base}/jwks.json"})

    options = ReceiverOptions(issuer=found["issuer"], audience=found["audience"])
    runtime = BlockingRuntime(verify=False)
    with BlockingEventReceiver(server.url, ClientSecret("shop", "s"), tmp_path, options, runtime=runtime) as receiver:
        sets = {case["jti"]: case["token"] for case in found["vectors"]}
        token, keys = reply({"access_token": "t", "expires_in": 600}), reply(found["jwks"])
        server.add(metadata, token, reply({"sets": sets}), keys)
        receiver.poll()
        assert set(receiver.store.to_acknowledge(100)) == set(sets)
        for case in found["refused"]:
            server.add(reply({"sets": {case["jti"]: case["token"]}}))
            if case["err"] == "invalid_key":
                server.add(keys)
            receiver.poll()
            server.add(reply({"sets": {}}))
            receiver.poll()
            assert server.requests[-1].json["setErrs"][case["jti"]]["err"] == case["err"], case["name"]
