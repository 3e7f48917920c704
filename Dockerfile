# `docstore serve` in a container, built from this checkout; docs/install.md says how to run it.
# EXTRAS=scrapy makes the image of a crawler instead, as compose.yaml does.
FROM rust:1.95-slim-bookworm AS rust

FROM python:3.13-slim-bookworm AS build
ARG EXTRAS=server
ENV CARGO_HOME=/usr/local/cargo RUSTUP_HOME=/usr/local/rustup PATH=/usr/local/cargo/bin:$PATH \
    SETUPTOOLS_RUST_CARGO_PROFILE=wheel
COPY --from=rust /usr/local/cargo /usr/local/cargo
COPY --from=rust /usr/local/rustup /usr/local/rustup
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml MANIFEST.in README.md LICENSE ./
COPY native native
COPY docstore docstore
RUN python -m venv /opt/docstore \
    && /opt/docstore/bin/pip install --no-cache-dir ".[$EXTRAS]" \
    && /opt/docstore/bin/docstore --version \
    && /opt/docstore/bin/pip uninstall --yes pip

FROM python:3.13-slim-bookworm
COPY --from=build /opt/docstore /opt/docstore
ENV PATH=/opt/docstore/bin:$PATH DOCSTORE_STORE=/data/webtable PYTHONUNBUFFERED=1
RUN useradd --uid 10001 --no-create-home docstore && install --directory --owner=docstore --mode=0700 /data
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8470
# Writes are asked for too: a store on a full disk still reads.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8470/healthz?writes=1', timeout=4)"]
# SIGTERM commits what was accepted; give it time: `docker stop --time 60`.
ENTRYPOINT ["docstore"]
CMD ["serve", "--create"]
