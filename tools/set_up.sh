#!/bin/sh
# Install docstore of this checkout, in place, with some of its extras, in an environment.
# usage: tools/set_up.sh VENV PYTHON EXTRA...
#
# The packages that docstore needs are installed while its native kernel is built.  Without cargo `puccinialin` fetches a
# Rust toolchain into VENV/rust, for this checkout alone; the Makefile puts that on the PATH.
set -eu
venv=$1
python=$2
shift 2
bin=$venv/bin
saying="sh tools/saying.sh"

stop() {
    echo "$*" >&2
    exit 1
}

# The requirements of the package and of some extras, each on a line; an extra may name others.
requirements() {
    "$bin/python" - "$@" <<'END'
import re, sys, tomllib

project = tomllib.load(open("pyproject.toml", "rb"))["project"]
extras = list(sys.argv[1:])
lines = project["dependencies"]
for extra in extras:  # the list grows
    for line in project["optional-dependencies"][extra]:
        own = re.fullmatch(r"docstore\[(.*)\]", line)
        extras += own[1].split(",") if own else []
        lines += [] if own else [line]
print(*lines, sep="\n")
END
}

command -v cc >/dev/null || stop "docstore's kernel needs a C compiler (cc): install gcc or clang, then run this again"
[ -x "$bin/python" ] || $saying "making $venv" "$python" -m venv "$venv"
if ! command -v cargo >/dev/null; then
    # shellcheck disable=SC2016 - the inner shell has the arguments
    $saying "there is no cargo: fetching a Rust toolchain into $venv/rust" sh -c '
        said=$("$1/bin/python" -m pip install --quiet --target "$1/rust/fetch" puccinialin 2>&1 &&
            PYTHONPATH=$1/rust/fetch "$1/bin/python" -m puccinialin --location "$1/rust" 2>&1) || {
            rm -rf "$1/rust"
            echo "no Rust toolchain can be fetched ($(echo "$said" | tail -n 1)):" \
                "install Rust 1.89 or later (https://rustup.rs), then run this again"
            exit 1
        }' - "$venv"
fi
rm -f docstore/dedup/docstore_native.*.so # one of another suffix would be loaded instead
requirements "$@" >"$venv/requirements.txt"
# shellcheck disable=SC2016 - the inner shell has the arguments
$saying "installing docstore and what it needs, and building its native kernel (a minute or two)" sh -c '
    "$1/bin/python" -m pip install --quiet --no-deps --editable . &
    if ! "$1/bin/python" -m pip install --quiet --requirement "$1/requirements.txt"; then
        kill "$!"
        exit 1
    fi
    wait "$!"' - "$venv"
