"""memento_client: finds the original, and the captures around a time, from TimeGate and mementos."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.clients.conftest import Archive, Environment

PROGRAM = """
import json, sys
from datetime import datetime
from memento_client import MementoClient
base = sys.argv[1]
client = MementoClient(timegate_uri=base + "/", check_native_timegate=False)
memento = base + "/20240101000000id_/http://example.test/"
found = client.get_memento_info(memento, datetime(2024, 5, 1))
print(json.dumps({"original": client.get_original_uri(memento), **found}, default=str))
"""


def test_original_and_mementos_around_a_time_are_found(
    environment: Callable[[str], Environment], archive: Archive
) -> None:
    found = json.loads(environment("memento_client").run("python", "-c", PROGRAM, archive.base))
    assert found["original"] == "http://example.test/"
    assert found["timegate_uri"] == f"{archive.base}/http://example.test/"
    mementos = {rel: one["uri"][0] for rel, one in found["mementos"].items()}
    assert mementos == {
        "closest": f"{archive.base}/20240601000000id_/http://example.test/",
        "first": f"{archive.base}/20240101000000id_/http://example.test/",
        "prev": f"{archive.base}/20240101000000id_/http://example.test/",
        "next": f"{archive.base}/20240901000000id_/http://example.test/",
        "last": f"{archive.base}/20240901000000id_/http://example.test/",
    }
