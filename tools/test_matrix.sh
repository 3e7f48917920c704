#!/bin/sh
# What depends on the Python and on the library for LevelDB, under each interpreter that is there: the engine and crash
# suites, and the kernel's mirror tests.  An environment for each is kept in .venv-matrix; TESTS names other tests.
# usage: tools/test_matrix.sh PYTHON...
set -eu
tests=${TESTS:-tests/contract tests/crash tests/property/test_engine_model.py tests/property/test_native_mirror.py
    tests/unit/test_leveldb.py tests/unit/test_store.py tests/unit/test_tokens.py}
which='import sys; print("%d.%d.%d" % sys.version_info[:3])'
ran= failed=

for python in "$@"; do
    version=$("$python" -c "$which" 2>/dev/null) || { echo "skipped: no $python"; continue; }
    case " $ran " in *" $version "*) continue ;; esac
    ran="$ran $version"
    venv=.venv-matrix/$version
    if [ ! -e "$venv/.installed" ] || [ pyproject.toml -nt "$venv/.installed" ]; then
        sh tools/saying.sh "== CPython $version: making $venv" "$python" -m venv "$venv"
        sh tools/saying.sh "== CPython $version: installing docstore" \
            "$venv/bin/python" -m pip install --quiet -e '.[test]'
        touch "$venv/.installed"
    fi
    echo "== CPython $version, $("$venv/bin/python" -m pip list 2>/dev/null | grep '^plyvel' | tr -s ' ')"
    # shellcheck disable=SC2086 - a list of words
    DOCSTORE_EXAMPLES=all "$venv/bin/python" -m pytest -q -m "not slow" $tests || failed="$failed $version"
done
[ -n "$ran" ] || { echo "no Python of these is there: $*"; exit 1; }
[ -z "$failed" ] || { echo "failed under$failed"; exit 1; }
echo "passed under$ran"
