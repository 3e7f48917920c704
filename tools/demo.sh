#!/bin/sh
# A tour over the sample crawl: ingest, one page's text, its duplicates, the store's statistics, a search, a page as Markdown.
# usage: tools/demo.sh path/to/docstore
set -eu
docstore=$1
export DOCSTORE_STORE=.demo-store
rm -rf "$DOCSTORE_STORE"

run() {
    printf '\n$ docstore %s\n' "$*"
    "$docstore" "$@"
}

run init
run ingest examples/sample-crawl.warc.gz --anchors
run get "https://www.boost.org/doc/libs/1_81_0/doc/html/crc.html" | head -n 20
run dups "https://www.boost.org/doc/libs/1_81_0/doc/html/crc.html"
run stats
run index
run search stack buffer overflow --limit 3
run get "https://www.boost.org/doc/libs/1_81_0/doc/html/crc.html" --markdown | head -n 40
