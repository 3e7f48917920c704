"""Drop what a store has already seen from a datatrove pipeline: `python examples/datatrove_example.py STORE IN OUT`.

Needs `pip install docstore datatrove`.  IN is a folder of JSON Lines with `text` and `metadata.url`; OUT gets the texts
that are new to the store, which has them from then on.  Several pipelines may ask one store through `docstore serve`:
then STORE is the address of the server.
"""

import sys
from functools import cached_property

from datatrove.data import Document
from datatrove.executor.local import LocalPipelineExecutor
from datatrove.pipeline.filters.base_filter import BaseFilter
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers.jsonl import JsonlWriter

import docstore

TEXT = {"Content-Type": "text/plain; charset=utf-8"}


class NewToStore(BaseFilter):
    """Keeps documents whose verdict is new or similar; the others are dropped with the verdict as the reason."""

    name = "new to the store"

    def __init__(self, store: str) -> None:
        super().__init__()
        self.address = store

    @cached_property
    def store(self) -> docstore.DocumentStore | docstore.RemoteStore:
        """Opened in the process that runs the step."""
        if "://" in self.address:
            return docstore.connect(self.address)
        return docstore.open(self.address, create=True)

    def filter(self, doc: Document) -> bool | tuple[bool, str]:
        """Whether to keep a document."""
        result = self.store.put_page(doc.metadata["url"], doc.text.encode(), headers=TEXT)
        is_new = result.verdict.kind in ("new", "similar") and result.previous in ("none", "changed")
        return is_new or (False, str(result.verdict.kind))

    def run(self, data, rank=0, world_size=1):  # type: ignore[no-untyped-def]  # as datatrove declares it
        """Filter, then close the store."""
        yield from super().run(data, rank, world_size)
        self.store.close()


if __name__ == "__main__":
    _, address, source, target = sys.argv
    steps = [JsonlReader(source), NewToStore(address), JsonlWriter(target, compression=None)]
    LocalPipelineExecutor(steps, tasks=1, logging_dir=f"{target}/logs").run()
