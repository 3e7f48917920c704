#!/bin/sh
# Install docstore of this checkout, in place, with some of its extras, in an environment.
# usage: tools/set_up.sh VENV PYTHON EXTRA...
#
# pip builds the native kernel.  Meanwhile uv, which pip fetches into the environment, installs the packages that docstore
# needs: it chooses their versions in a second, which takes pip more than a minute.  Where there is no uv, or no index that
# it knows (it does not read the settings of pip), pip does all of it.  Then the tests are compiled once: each of their
# processes would compile all of them.  Without cargo `puccinialin` fetches a Rust toolchain into VENV/rust, for this
# checkout alone; the Makefile puts that on the PATH.
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
# shellcheck disable=SC2016 - the inner shell has the arguments
$saying "installing docstore and what it needs, and building its native kernel (a minute or two)" sh -c '
    venv=$1
    python=$venv/bin/python
    shift
    extras=
    for extra in "$@"; do
        extras="$extras --extra $extra"
    done
    with_uv() {
        "$python" -m pip install --quiet --only-binary :all: uv &&
            "$venv/bin/uv" pip install --quiet --python "$python" --requirement pyproject.toml $extras
    }
    compile_what_tests_import() {
        "$python" -m compileall -q docstore tools
        "$python" -m pytest --collect-only --noconftest --quiet # without the kernel each file fails, once it is compiled
    }
    "$python" -m pip install --quiet --no-deps --editable . &
    if with_uv; then
        case " $* " in *" dev "*) compile_what_tests_import >/dev/null 2>&1 || : ;; esac
        wait "$!"
    else
        wait "$!" && "$python" -m pip install --quiet --editable ".[$(echo "$*" | tr " " ,)]"
    fi' - "$venv" "$@"
