#!/bin/sh
# Start an HBase cluster, run the tests that need one, stop it.  Arguments go to pytest.
# With CLUSTER_OPTIONAL=1 a machine without Java, Maven or the artifacts skips them, and says so.
set -eu
python=${PYTHON:-.venv/bin/python}
if ! said=$("$python" -m tools.cluster start 2>&1); then
    if [ "${CLUSTER_OPTIONAL:-}" ] && echo "$said" | grep -q -e "on the path" -e "Maven"; then
        echo "**** SKIPPED: NO TEST ON AN HBASE CLUSTER: $said ****"
        exit 0
    fi
    echo "$said"
    exit 1
fi
echo "$said"
trap '"$python" -m tools.cluster stop' EXIT
DOCSTORE_HBASE=$("$python" -m tools.cluster addresses)
export DOCSTORE_HBASE
"$python" -m pytest -q -p no:xdist "$@"
