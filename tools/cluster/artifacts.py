"""The jars of a cluster: which ones, and how they come into the cache.

Knows Maven; must not know how a server is started.  A change of the list makes another folder of the cache.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tools.cluster.settings import DEFAULT_NAME

HBASE: Final = "2.6.1-hadoop3"
PLAIN_HBASE: Final = "2.6.1"
"""Of parts that have no build against Hadoop 3: taken without the HBase and Hadoop jars that they name."""
HADOOP: Final = "3.3.6"
LOG4J: Final = "2.17.2"
FETCH_SECONDS: Final = 900

_PINNED = (
    *("common", "auth", "annotations", "hdfs", "hdfs-client", "distcp", "mapreduce-client-core"),
    *("yarn-api", "yarn-client", "yarn-common"),
)
_OTHER_LOGGER = ("org.slf4j", "slf4j-reload4j")
_OWN_PARTS = (("org.apache.hbase", "*"), ("org.apache.hadoop", "*"))
_DEPENDENCIES: Final = (
    ("org.apache.hbase", "hbase-server", HBASE, (_OTHER_LOGGER,)),
    ("org.apache.hbase", "hbase-zookeeper", HBASE, (_OTHER_LOGGER,)),
    ("org.apache.hbase", "hbase-thrift", PLAIN_HBASE, _OWN_PARTS),
    ("org.apache.hbase", "hbase-compression-zstd", PLAIN_HBASE, _OWN_PARTS),
    ("org.apache.hadoop", "hadoop-common", HADOOP, (_OTHER_LOGGER,)),
    ("org.apache.hadoop", "hadoop-hdfs", HADOOP, (_OTHER_LOGGER,)),
    ("org.apache.hadoop", "hadoop-hdfs-client", HADOOP, (_OTHER_LOGGER,)),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J, ()),
)


class NotAvailable(Exception):
    """Java, Maven or the artifacts cannot be had here."""


def cache_folder() -> Path:
    """Where jars and clusters are kept: DOCSTORE_CLUSTER_CACHE, or a folder of the user's cache."""
    named = os.environ.get("DOCSTORE_CLUSTER_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else base / "docstore" / "cluster"


def default_root(cache: Path) -> Path:
    """The folder of the cluster that is meant where none is named: DOCSTORE_CLUSTER_ROOT, or one in the cache."""
    named = os.environ.get("DOCSTORE_CLUSTER_ROOT")
    return Path(named) if named else cache / DEFAULT_NAME


def pom() -> str:
    """The project file that names the jars."""
    pinned = "".join(
        f"<dependency>{_named('org.apache.hadoop', 'hadoop-' + part, HADOOP)}</dependency>" for part in _PINNED
    )
    wanted = ""
    for group, artifact, version, excluded in _DEPENDENCIES:
        without = "".join(f"<exclusion>{_named(*one)}</exclusion>" for one in excluded)
        wanted += f"<dependency>{_named(group, artifact, version)}<exclusions>{without}</exclusions></dependency>\n"
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>\n'
        f"{_named('docstore', 'test-cluster', '1')}<packaging>pom</packaging>\n"
        f"<dependencyManagement><dependencies>{pinned}</dependencies></dependencyManagement>\n"
        f"<dependencies>\n{wanted}</dependencies>\n</project>\n"
    )


def _named(group: str, artifact: str, version: str = "") -> str:
    number = f"<version>{version}</version>" if version else ""
    return f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId>{number}"


def folder(cache: Path) -> Path:
    """Where the jars of this version of the list lie."""
    return cache / f"jars-{hashlib.sha256(pom().encode()).hexdigest()[:12]}"


def fetch(cache: Path) -> Path:
    """The folder of the jars; fetches them the first time (about 150 MB).

    Raises:
        NotAvailable: Java or Maven is missing, or Maven cannot reach a repository.
    """
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise NotAvailable(f"no {program} on the path: install a JDK 17 and Maven")
    jars = folder(cache)
    if jars.exists():
        return jars
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=cache) as name:
        project = Path(name)
        (project / "pom.xml").write_text(pom(), encoding="utf-8")
        command = [
            "mvn",
            "-q",
            "-B",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            "-DoutputDirectory=jars",
        ]
        try:
            done = subprocess.run(
                command, cwd=project, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise NotAvailable(f"Maven did not finish within {FETCH_SECONDS} s") from error
        if done.returncode:
            raise NotAvailable(f"Maven cannot fetch the artifacts: {(done.stdout + done.stderr).strip()[-600:]}")
        try:
            (project / "jars").rename(jars)
        except OSError:
            if not jars.exists():  # else another process was faster
                raise
    return jars
