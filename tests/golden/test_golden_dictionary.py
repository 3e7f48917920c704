"""A small dictionary file, byte by byte, as it has been written since format 1.

The payload's frame is kept in the golden file: another release of zstd may write another one, but must read this one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from docstore.model.errors import CorruptionError, UnsupportedFormat
from docstore.storage.files import Files
from docstore.tablets.dictionaries import DictionaryFiles, decode_dictionary

GOLDEN = Path(__file__).with_name("dictionary.txt")
CONTENT = b"Tropical fish include fish found in tropical environments around the world. " * 3


def golden_bytes() -> bytes:
    return bytes.fromhex("".join(GOLDEN.read_text().partition("all bytes\n")[2].split()))


def test_a_dictionary_is_written_as_it_always_was(tmp_path: Path, rewrite: bool) -> None:
    files = DictionaryFiles(Files(), tmp_path)
    checksum = files.save(CONTENT)
    path = tmp_path / f"{checksum.hex()}.dict"
    raw = path.read_bytes()
    if rewrite:
        lines = [f"file {path.name}", "all bytes"]
        GOLDEN.write_text("\n".join([*lines, *(raw.hex()[at : at + 96] for at in range(0, 2 * len(raw), 96))]) + "\n")
    assert GOLDEN.read_text().splitlines()[0] == f"file {path.name}"
    assert raw[:16] == golden_bytes()[:16]  # magic, version, raw length


def test_the_bytes_of_the_golden_file_are_read_as_they_always_were(tmp_path: Path) -> None:
    raw = golden_bytes()
    assert decode_dictionary(raw) == CONTENT
    name = GOLDEN.read_text().splitlines()[0].removeprefix("file ")
    (tmp_path / name).write_bytes(raw)
    files = DictionaryFiles(Files(), tmp_path)
    (checksum,) = files.names()
    assert files.load(checksum) == CONTENT


@pytest.mark.parametrize("place", range(24))
def test_no_flipped_byte_of_the_header_goes_unseen(place: int) -> None:
    raw = bytearray(golden_bytes())
    raw[place] ^= 1
    if place in (10, 11):  # reserved
        assert decode_dictionary(bytes(raw)) == CONTENT
        return
    with pytest.raises((CorruptionError, UnsupportedFormat), match=r"a\.dict"):  # it says where
        decode_dictionary(bytes(raw), "a.dict")
