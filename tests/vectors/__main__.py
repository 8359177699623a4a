"""Write the published vectors: `python -m tests.vectors`."""

import json

from tests.commands import signature_vectors
from tests.vectors import ack_vectors, bundle_vectors, token_vectors
from tests.vectors.published import FOLDER, read

if __name__ == "__main__":
    for name, built in {
        signature_vectors.VECTORS_PATH.name: signature_vectors.build_vectors(),
        ack_vectors.NAME: ack_vectors.build(),
        bundle_vectors.NAME: bundle_vectors.build(),
        token_vectors.NAME: token_vectors.build(read(token_vectors.NAME)),
    }.items():
        (FOLDER / name).write_text(json.dumps(built, indent=2, ensure_ascii=True) + "\n", encoding="utf-8")
