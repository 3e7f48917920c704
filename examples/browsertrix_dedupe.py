"""Index what a store holds for Browsertrix Crawler: `python examples/browsertrix_dedupe.py webtable known.wacz`.

Then `indexer --sourceUrl known.wacz --redisDedupeUrl redis://HOST:PORT/0`, a program of Browsertrix Crawler, fills its
index, and `crawl --redisDedupeUrl ...` writes a revisit record in place of each body that the store has.  `docstore
ingest` takes the revisit as a visit of the stored page.  The file has no bodies, only URLs, times and SHA-256.
"""

import hashlib
import json
import sys
from datetime import UTC, datetime
from zipfile import ZipFile

import docstore


def main(store_path: str, wacz_path: str) -> None:
    """Write one line for each page that was fetched with status 200."""
    lines = []
    with docstore.open(store_path, read_only=True) as store:
        for page in store.get_many(store.urls(), families=("page", "http")):
            if page is not None and page.newest.body and page.newest.status == 200:
                now = page.newest
                date = datetime.fromtimestamp(now.timestamp / 1e6, UTC).strftime("%Y%m%d%H%M%S")
                digest = "sha256:" + hashlib.sha256(now.body).hexdigest()
                fields = {"url": page.url, "digest": digest, "length": str(len(now.body))}
                lines.append(f"{page.url} {date} {json.dumps(fields)}\n")
    with ZipFile(wacz_path, "w") as wacz:
        wacz.writestr("indexes/index.cdxj", "".join(lines))
        wacz.writestr("datapackage.json", json.dumps({"profile": "data-package", "wacz_version": "1.1.1"}))
    print(len(lines), "pages")


if __name__ == "__main__":
    main(*sys.argv[1:])
