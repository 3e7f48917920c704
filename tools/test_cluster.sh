#!/bin/sh
# Start an HBase cluster, run the tests that need one, stop it.  Arguments go to pytest.
# The cluster has a folder and ports of its own, which go at the end: several runs may go on at a time.  With
# DOCSTORE_CLUSTER_ROOT it is the one in that folder, and its data stay.
# With CLUSTER_OPTIONAL=1 a machine on which no cluster can be started skips the tests, and says so.
set -eu
python=${PYTHON:-.venv/bin/python}
cluster() { "$python" -m tools.cluster "$@"; }
cache=$("$python" -c 'from tools.cluster.hbase import cache_folder; print(cache_folder())')
logs=$cache/logs-of-last-failure

clean() {
    status=$?
    trap - EXIT
    if [ "$own" ]; then
        if [ "$status" -ne 0 ] && [ -d "$DOCSTORE_CLUSTER_ROOT/logs" ]; then
            rm -rf "$logs"
            cp -r "$DOCSTORE_CLUSTER_ROOT/logs" "$logs" && echo "logs of the servers: $logs"
        fi
        cluster stop --at-once --remove || true
    else
        cluster stop || true
    fi
    exit "$status"
}

own=
if [ -z "${DOCSTORE_CLUSTER_ROOT:-}" ]; then
    own=yes
    for left in "$cache"/run-*; do # of runs that were killed
        if [ -d "$left" ] && ! kill -0 "${left##*-}" 2>/dev/null; then
            cluster --root "$left" stop --at-once --remove || true
        fi
    done
    DOCSTORE_CLUSTER_ROOT=$cache/run-$$
fi
export DOCSTORE_CLUSTER_ROOT
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

started=0
said=$(cluster start 2>&1) || started=$?
if [ "$started" -ne 0 ] && [ "$started" -ne 3 ]; then # 3: Java or the artifacts cannot be had
    echo "$said"
    echo "starting the cluster once more"
    cluster stop --at-once || true
    started=0
    said=$(cluster start 2>&1) || started=$?
fi
if [ "$started" -ne 0 ]; then
    if [ "${CLUSTER_OPTIONAL:-}" ]; then
        echo "**** SKIPPED: NO TEST ON AN HBASE CLUSTER: $said ****"
        exit 0
    fi
    echo "$said"
    exit 1
fi
echo "$said"
DOCSTORE_HBASE=$(cluster addresses)
export DOCSTORE_HBASE DOCSTORE_EXAMPLES=all
"$python" -m pytest -q -p no:xdist "$@"
