#!/bin/sh
# Build the sdist and wheels into dist/, and test this machine's wheel under several Pythons, without a compiler.
#
# On Linux zig links against the symbols of glibc 2.17, so that one wheel (manylinux2014) runs on every distribution of
# the last ten years, and builds for the other processor.  auditwheel checks that, and refuses a wheel without the
# kernel; abi3audit checks that the library keeps to the stable ABI of CPython.
#
# usage: tools/wheel.sh build PYTHON [x86_64|aarch64]... | tools/wheel.sh test PYTHON...
set -eu
largest_bytes=8000000
tests=${TESTS:-tests/unit/test_store.py tests/unit/test_sample_crawl.py
    tests/property/test_native_records.py tests/property/test_native_mirror.py tests/property/test_engine_model.py}
page=https://www.boost.org/doc/libs/1_81_0/doc/html/crc.html
root=$PWD
made=$root/.venv-wheel
saying="sh $root/tools/saying.sh"

stop() {
    echo "$*" >&2
    exit 1
}

build() {
    python=$1
    shift
    bin=$made/build/bin
    if [ ! -e "$bin/twine" ] || [ pyproject.toml -nt "$bin/twine" ]; then
        rm -rf "$made/build"
        "$python" -m venv "$made/build"
        "$bin/python" -m pip install --quiet --upgrade pip
        $saying "installing what builds and checks wheels" "$bin/python" -m pip install --quiet --group wheel
        touch "$bin/twine"
    fi
    rm -rf dist build
    $saying "building the sdist" "$bin/python" -m build --sdist --outdir dist
    export CARGO_TARGET_DIR="$root/native/target/wheel" SETUPTOOLS_RUST_CARGO_PROFILE=wheel
    if [ "$(uname -s)" = Linux ]; then
        zig=$("$bin/python" -c 'import ziglang; print(ziglang.__path__[0] + "/zig")')
        export CARGO="$bin/cargo-zigbuild" CARGO_ZIGBUILD_ZIG_PATH="$zig"
        for processor in "$@"; do
            $saying "building the wheel for $processor (two minutes or so)" env PATH="$bin:$PATH" \
                CARGO_BUILD_TARGET="$processor-unknown-linux-gnu.2.17" _PYTHON_HOST_PLATFORM="linux-$processor" \
                "$bin/python" -m pip wheel --no-deps --no-cache-dir --verbose --log build/log \
                --wheel-dir "build/$processor" dist/*.tar.gz
            PATH=$bin:$PATH auditwheel repair --wheel-dir dist "build/$processor"/*.whl ||
                stop "no kernel in the wheel: $(grep -A 3 -m 1 -E 'error(\[|:)|Error:' build/log)"
            "$bin/auditwheel" show "dist/"*"$processor.whl"
        done
    else
        $saying "building the wheel (two minutes or so)" \
            "$bin/python" -m pip wheel --no-deps --no-cache-dir --wheel-dir dist dist/*.tar.gz
    fi
    "$bin/abi3audit" --strict --verbose dist/*.whl
    "$bin/twine" check --strict dist/*
    [ -z "$(find dist -name '*.whl' -size +${largest_bytes}c)" ] || stop "a wheel is larger than $largest_bytes bytes"
    ls -l dist
}

# A fresh environment with FILE and more, and no other program on its PATH.
install() {
    rm -rf "$made/try"
    "$1" -m venv "$made/try"
    bare=$made/try/bin
    for tool in cc gcc clang zig cargo rustc; do
        [ -z "$(PATH=$bare command -v "$tool" || true)" ] || stop "$tool is on the PATH $bare"
    done
    python=$1
    file=$2
    shift 2
    $saying "== $("$python" -V): installing $(basename "$file")" \
        env PATH="$bare" "$bare/python" -I -m pip install --quiet "$file" "$@"
    # Away from the checkout and its pyproject.toml, so that nothing but what is installed can be imported.
    mkdir -p "$made/try/checkout/native/core"
    cp -r tests examples "$made/try/checkout"
    cp -r native/core/data "$made/try/checkout/native/core" # the readable definition of words needs its tables
    echo "[pytest]" >"$made/try/checkout/pytest.ini"
    cd "$made/try/checkout"
    export PATH="$bare"
}

try_wheel() (
    install "$1" "$wheel" --only-binary :all: pytest hypothesis
    docstore --version
    case $(docstore --version) in "docstore $version"*) ;; *) stop "not docstore $version" ;; esac
    docstore ingest examples/sample-crawl.warc.gz --create
    [ "$(docstore get "$page" | { read -r line && echo "$line"; })" = "Chapter 10. Boost.CRC 1.5" ] || stop "wrong text"
    docstore dups "$page"
    docstore check
    # shellcheck disable=SC2086 - a list of words
    said=$(python -m pytest -q -rs -W ignore -p no:cacheprovider -m "not slow" $tests) || stop "$said"
    echo "$said"
)

# Without cargo the sdist cannot be installed; pip has to say what is missing.
try_sdist() (
    ! said=$(install "$1" "$(ls "$root"/dist/docstore-*.tar.gz)" 2>&1) || stop "the sdist was built without cargo"
    case $said in *"Rust"*) echo "the sdist asks for Rust" ;; *) stop "nothing about Rust: $said" ;; esac
)

case $1 in
build)
    shift
    build "$@"
    ;;
test)
    shift
    wheel=$(ls "$root"/dist/docstore-*-cp311-abi3-*"$(uname -m)".whl) || stop "no wheel for this machine: run make wheel"
    version=$(basename "$wheel" | cut -d- -f2)
    ran=
    for python in "$@"; do
        is=$("$python" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) ||
            { echo "skipped: no $python"; continue; }
        case " $ran " in *" $is "*) continue ;; esac
        try_wheel "$python"
        [ -n "$ran" ] || try_sdist "$python"
        ran="$ran $is"
    done
    [ -n "$ran" ] || stop "no Python of these is there: $*"
    echo "the wheel passed under$ran"
    ;;
*)
    stop "usage: tools/wheel.sh build PYTHON [x86_64|aarch64]... | tools/wheel.sh test PYTHON..."
    ;;
esac
