"""The encoding of a store's schema in row `schema` of table `meta`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgpack

from docstore.model.choices import VerdictKind
from docstore.model.errors import CorruptionError, UnsupportedFormat
from docstore.model.types import ColumnFamily, GCPolicy, Policy, Schema

SCHEMA_ROW: Final = b"schema"
META_FAMILY: Final = "m"
SCHEMA_QUALIFIER: Final = b"schema"


def encode_schema(schema: Schema) -> bytes:
    """Encode a schema as msgpack."""
    families = [family._asdict() | {"gc": family.gc._asdict()} for family in schema.families]
    fields = schema._asdict() | {"families": families}
    fields |= {"captures": schema.captures._asdict(), "bodies": schema.bodies._asdict()}
    fields["policies"] = [[str(kind), str(policy)] for kind, policy in schema.policies]
    return bytes(msgpack.packb(fields))


def _check_known(what: str, found: Iterable[str], known: Sequence[str]) -> None:
    for word in found:
        if word not in known:
            raise UnsupportedFormat(
                f"the store's schema has the {what} {word!r}, this docstore knows {', '.join(known)}; open the store "
                "with a newer docstore"
            )


def decode_schema(value: bytes) -> Schema:
    """Decode a schema.

    Raises:
        CorruptionError: not a schema.
        UnsupportedFormat: it has a field or word that only a newer docstore knows.
    """
    try:
        fields = msgpack.unpackb(value)
        _check_known("field", fields, Schema._fields)
        pairs = fields.pop("policies")
        _check_known("verdict", [kind for kind, _ in pairs], list(VerdictKind))
        _check_known("policy", [policy for _, policy in pairs], list(Policy))
        fields |= {name: GCPolicy(**fields[name]) for name in ("captures", "bodies")}
        families = tuple(ColumnFamily(f["name"], GCPolicy(**f["gc"])) for f in fields.pop("families"))
        return Schema(families=families, policies=tuple(map(tuple, pairs)), **fields)
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptionError(f"the store's schema does not decode: {error}", path="meta row `schema`") from error
