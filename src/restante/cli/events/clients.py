"""`restante client`: the clients that may poll for events. A secret is shown once.

A certificate or a public key in PEM can be given as it is: its subject, or its JWK, is computed here.
"""

import base64
import hashlib
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from restante.cli.output import Columns, identity, joined, when
from restante.cli.remote import completion, filters
from restante.cli.remote.arguments import TagsArgument, client_of, tags_of
from restante.cli.remote.filters import METHODS
from restante.cli.remote.noun import Call, Item, Noun, Page
from restante.cli.remote.values import choice
from restante.core.errors import BadInput

CLIENT = Noun("Clients of event polling.")
app = CLIENT.app

ALGORITHMS = ("PS256", "ES256", "EdDSA", "RS256")
_CURVES = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}

ClientArgument = Annotated[
    str,
    typer.Argument(
        metavar="CLIENT_ID", help="The client's client_id, or its beginning.", autocompletion=completion.CLIENTS
    ),
]
JwksOption = Annotated[
    str | None,
    typer.Option(
        "--jwks",
        metavar="FILE",
        help="Its public keys for private_key_jwt: a file with a JWKS; - for stdin.",
    ),
]
JwksUriOption = Annotated[
    str | None,
    typer.Option(
        "--jwks-uri",
        metavar="URL",
        help="The address where it publishes its keys, instead of --jwks. The server reads it again for new keys.",
    ),
]
PublicKeyOption = Annotated[
    Path | None,
    typer.Option("--public-key", metavar="FILE", help="Its public key in PEM, for private_key_jwt, instead of --jwks."),
]
CertificateOption = Annotated[
    Path | None,
    typer.Option("--certificate", metavar="FILE", help="Its certificate in PEM, for tls_client_auth."),
]
SubjectOption = Annotated[
    str | None,
    typer.Option("--subject-dn", metavar="DN", help="The subject of its certificate (RFC 4514), for tls_client_auth."),
]
COLUMNS: Columns = {
    "client_id": identity("client_id"),
    "name": "name",
    "method": "token_endpoint_auth_method",
    "scope": "scope",
    "status": "status",
    "last poll": when("last_poll_at"),
}


@CLIENT.lists(
    COLUMNS,
    empty="No clients.",
    filters=filters.CLIENTS,
    counts=lambda call: call.client.clients.counts(**call.filters),
)
def list_clients(call: Call) -> Page:
    """List clients in the order they were registered."""
    return call.page(call.client.clients.list_page, **call.filters)


CLIENT.exports(
    "clients", lambda call, format: call.client.clients.export(format=format, **call.filters), filters=filters.CLIENTS
)


@CLIENT.shows(
    {
        **COLUMNS,
        "subject": "tls_client_auth_subject_dn",
        "keys": joined("kids"),
        "keys at": "jwks_uri",
        "keys read": when("jwks_read_at"),
        "tags": joined("tags"),
        "signing algorithm": "set_signing_alg",
        "created": when("created_at"),
        "suspended": when("suspended_at"),
    }
)
def show(call: Call, client: ClientArgument) -> Item:
    """Show a client."""
    return dict(call.client.clients.get(client_of(call, client)))


@CLIENT.does("create", "Client {client_id}.")
def create(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the client.")],
    token_endpoint_auth_method: Annotated[
        str, choice("--method", METHODS, "How it authenticates. A secret is for development only.")
    ],
    client_id: Annotated[
        str | None, typer.Option("--client-id", metavar="ID", help="Its client_id. Default: a new one.")
    ] = None,
    jwks: JwksOption = None,
    jwks_uri: JwksUriOption = None,
    public_key: PublicKeyOption = None,
    certificate: CertificateOption = None,
    tls_client_auth_subject_dn: SubjectOption = None,
    set_signing_alg: Annotated[
        str | None, choice("--alg", ALGORITHMS, "The algorithm that signs its events. Default: from the settings.")
    ] = None,
    scope: Annotated[
        str | None, typer.Option("--scope", metavar="SCOPES", help="The scopes it may request, separated by spaces.")
    ] = None,
) -> Any:
    """Register a client. A secret is shown once."""
    given: dict[str, Any] = {
        "client_id": client_id,
        "jwks": _keys(jwks, public_key),
        "jwks_uri": jwks_uri,
        "tls_client_auth_subject_dn": _subject(certificate, tls_client_auth_subject_dn),
        "set_signing_alg": set_signing_alg,
        "scope": scope,
    }
    given = {field: value for field, value in given.items() if value is not None}
    _require_credential(token_endpoint_auth_method, given)
    method: Any = token_endpoint_auth_method
    made = call.client.clients.create(name=name, token_endpoint_auth_method=method, **given)
    _note_secret(call, made)
    return made


@CLIENT.does("rotate", "Client {client_id} has a new credential.", asks=True)
def rotate(
    call: Call,
    client: ClientArgument,
    jwks: JwksOption = None,
    jwks_uri: JwksUriOption = None,
    public_key: PublicKeyOption = None,
    certificate: CertificateOption = None,
    tls_client_auth_subject_dn: SubjectOption = None,
) -> Any:
    """Replace a client's secret, keys or subject. Its access tokens end at once."""
    client = client_of(call, client)
    call.confirm(f"This replaces the credential of client {client}: its access tokens end.")
    given: dict[str, Any] = {
        "jwks": _keys(jwks, public_key),
        "jwks_uri": jwks_uri,
        "tls_client_auth_subject_dn": _subject(certificate, tls_client_auth_subject_dn),
    }
    made = call.client.clients.rotate(client, **{field: value for field, value in given.items() if value is not None})
    _note_secret(call, made)
    return made


@CLIENT.does("suspend", "Client {client_id} is suspended.", asks=True)
def suspend(call: Call, client: ClientArgument) -> Any:
    """Refuse a client everywhere, at once. Its events are kept."""
    client = client_of(call, client)
    call.confirm(f"This suspends client {client}: it gets no events until it is resumed.")
    return call.client.clients.suspend(client)


@CLIENT.does("resume", "Client {client_id} is admitted again.")
def resume(call: Call, client: ClientArgument) -> Any:
    """Admit a suspended client again."""
    return call.client.clients.resume(client_of(call, client))


@CLIENT.does("delete", "Client {client_id} is removed.", asks=True)
def delete(call: Call, client: ClientArgument) -> Any:
    """Remove a client for good: it is refused, and gets no more events. Its client_id stays taken."""
    client = client_of(call, client)
    status = call.client.events.status(client)
    waiting = status["waiting"] + status["delivered"] + status["errored"]
    call.confirm(f"This removes client {client} ({status['name']}), which has {waiting} events that it did not get.")
    return call.client.clients.delete(client)


@CLIENT.does("tag", "Tags of the client: {tags}")
def tag(call: Call, client: ClientArgument, tag: TagsArgument) -> Any:
    """Add tags to a client."""
    client = client_of(call, client)
    return tags_of([call.client.clients.tag(client, each) for each in tag])


@CLIENT.does("untag", "Tags of the client: {tags}")
def untag(call: Call, client: ClientArgument, tag: TagsArgument) -> Any:
    """Remove tags from a client."""
    client = client_of(call, client)
    return tags_of([call.client.clients.untag(client, each) for each in tag])


@CLIENT.does("why", "{sentence}")
def why(call: Call, client: ClientArgument) -> Any:
    """Explain in one sentence why a client has not got its events."""
    return call.client.clients.why(client_of(call, client))


@CLIENT.lists(
    {"last": when("last_at"), "reason": "reason", "times": "count", "detail": "detail", "from": "address"},
    empty="The client was never refused.",
    name="refusals",
)
def refusals(call: Call, client: ClientArgument) -> Page:
    """List why the token endpoint refused a client: the last time for each reason."""
    return {"items": call.client.clients.refusals(client_of(call, client))["items"], "next": None}


@CLIENT.lists(
    {"id": "id", "at": when("at"), "who": "actor", "what": "event", "client": "client_id", "detail": "detail"},
    empty="Nothing was recorded.",
    name="audit",
    has_since=True,
    filters={"client_id": filters.CLIENT},
)
def audit(call: Call) -> Page:
    """List what operators did with clients and events, newest first."""
    return call.page(call.client.clients.audit_page, **call.filters, since_field="at")


def _note_secret(call: Call, made: Any) -> None:
    if made.get("client_secret") is not None:
        call.note(f"Shown this once:\nclient_secret  {made['client_secret']}")


def _require_credential(method: str, given: dict[str, Any]) -> None:
    if method == "private_key_jwt" and not given.keys() & {"jwks", "jwks_uri"}:
        raise typer.BadParameter("a client with private_key_jwt has keys: give --jwks, --jwks-uri or --public-key")
    if method == "tls_client_auth" and "tls_client_auth_subject_dn" not in given:
        raise typer.BadParameter("a client with tls_client_auth has a certificate: give --certificate or --subject-dn")


def _subject(certificate: Path | None, subject: str | None) -> str | None:
    """The subject in the form that the server compares: RFC 4514."""
    if certificate is None:
        return subject
    if subject is not None:
        raise typer.BadParameter("give --certificate or --subject-dn")
    try:
        return x509.load_pem_x509_certificate(certificate.read_bytes()).subject.rfc4514_string()
    except (ValueError, UnsupportedAlgorithm):
        raise BadInput("--certificate", f"a certificate in PEM, which {certificate} is not") from None


def _keys(jwks: str | None, public_key: Path | None) -> dict[str, Any] | None:
    if public_key is None:
        return _jwks(jwks)
    if jwks is not None:
        raise typer.BadParameter("give --jwks or --public-key")
    return {"keys": [_jwk(public_key.read_bytes())]}


def _jwks(source: str | None) -> dict[str, Any] | None:
    if source is None:
        return None
    raw = typer.get_binary_stream("stdin").read() if source == "-" else Path(source).read_bytes()
    if raw.lstrip().startswith(b"-----BEGIN"):
        raise BadInput("--jwks", "a JWKS; --public-key takes a public key in PEM")
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise BadInput("--jwks", "a JWKS") from None


def _jwk(pem: bytes) -> dict[str, str]:
    """A public key in PEM as a JWK. Its `kid` is its thumbprint (RFC 7638)."""
    try:
        key: Any = (
            x509.load_pem_x509_certificate(pem).public_key() if b"CERTIFICATE" in pem else load_pem_public_key(pem)
        )
    except (ValueError, UnsupportedAlgorithm):
        raise BadInput("--public-key", "a public key or a certificate in PEM, not a private key") from None
    if isinstance(key, rsa.RSAPublicKey):
        rsa_numbers = key.public_numbers()
        jwk = {"e": _number(rsa_numbers.e), "kty": "RSA", "n": _number(rsa_numbers.n)}
    elif isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES:
        ec_numbers, size = key.public_numbers(), (key.curve.key_size + 7) // 8
        points = {"x": _number(ec_numbers.x, size), "y": _number(ec_numbers.y, size)}
        jwk = {"crv": _CURVES[key.curve.name], "kty": "EC", **points}
    elif isinstance(key, ed25519.Ed25519PublicKey):
        jwk = {"crv": "Ed25519", "kty": "OKP", "x": _text(key.public_bytes_raw())}
    else:
        raise BadInput("--public-key", "an RSA, P-256, P-384, P-521 or Ed25519 key")
    thumbprint = hashlib.sha256(msgspec.json.encode(jwk, order="sorted")).digest()
    return {**jwk, "kid": _text(thumbprint), "use": "sig"}


def _number(value: int, size: int | None = None) -> str:
    return _text(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
