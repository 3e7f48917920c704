"""A sweep on Spark without a store: pages where they lie -> duplicates, clusters and the pages that stay, as Parquet.

    files -> pages -> versions -> bands -> pairs -> verified pairs -> components -> clusters
          (analysis)  (by row)  (by bucket)      (exact, by text)   (least number)  (rule)

The driver plans, and sees counts alone.  Versions are numbered in the order (row key, time), as in the local sweep, and
written into a table with their texts and fingerprints, which a later sweep of another crawl is given.  Everything after
it is computed from that table, and again from it if an executor is lost.  Simpler than it could be: a component is
clustered in one task, so the largest one must fit into an executor.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, reduce
from pathlib import Path
from typing import Any, TypeAlias

from docstore.archives.entries import TableColumns
from docstore.model.choices import CanonicalPolicy
from docstore.model.errors import InvalidArgument, StoreUnavailable, missing_extra
from docstore.model.keys import check_source
from docstore.model.plain import Plain
from docstore.model.types import Schema
from docstore.reading.documents import MAX_REDIRECTS
from docstore.spark import kernels
from docstore.sweep.candidates import check_probability
from docstore.sweep.clusters import ROUNDS
from docstore.sweep.kernels import TextRule

try:
    from py4j.protocol import Py4JError
    from pyspark import StorageLevel
    from pyspark.errors import AnalysisException, PySparkException
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
except ImportError as missing:
    raise missing_extra("docstore-spark", "spark", missing) from missing

Frame: TypeAlias = Any
"""A DataFrame of Spark."""
SETTINGS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
}
"""Settings that a sweep needs.  They can be set while Spark runs."""
READ = ("url", "fetched_url", "body", "text", "timestamp", "date", "status", "headers", "docno", "id")
"""Columns of Parquet files of pages; a file may lack some that others have."""
TABLE_BITS = 56
"""The number of a version is its number in its table, with the number of the table above these bits."""
TABLES = 1 << (63 - TABLE_BITS)
FORMAT = 1
"""Number of the format of the table of fingerprints.  The column `made_by` holds it, with the rule of texts."""
MOST_STARS = 100
BLOCK_BITS = 12, 14
"""Pairs whose first and whose second numbers are equal but for so many low bits are verified together.  Neighbouring
numbers are pages of one site, so a text that is paired with many of them is sent once.  A task has few texts at a time,
however many a text is paired with."""
_COLUMNS = re.compile(r'"STRUCT<(.*)>"')
_PYTHON_ERROR = re.compile(r"[A-Za-z_][\w.]*(Error|Exception): ")


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Parameters of a sweep on Spark.

    Attributes:
        schema: how texts are extracted and compared; thresholds and the rule of titles.
        threshold: least exact Jaccard coefficient of a pair; None takes the schema's `near_threshold`.
        canonical_policy: which page of a cluster is canonical; not `most-anchors`.
        same_url: pairs of versions of one URL too.
        against: tables of fingerprints of earlier sweeps; their pages are canonical before those of this crawl, then
            the oldest is, and a page may be a duplicate of its own URL.
        kept: write the pages that stay, too.
        files: the paths are archives or JSON Lines, not Parquet.
        columns: of Parquet and JSON Lines; see `archives.ingest.IngestOptions`.
    """

    schema: Schema = Schema()  # noqa: RUF009 - immutable
    threshold: float | None = None
    canonical_policy: CanonicalPolicy = CanonicalPolicy.CANONICAL_LINK
    same_url: bool = False
    against: tuple[str, ...] = ()
    kept: bool = False
    files: bool = False
    columns: TableColumns = TableColumns()


@dataclass(slots=True)
class SparkReport(Plain):
    """Results of a sweep on Spark: versions, errors, pairs that were verified, and versions by kind."""

    versions: int = 0
    errors: int = 0
    pairs: int = 0
    kinds: dict[str, int] = field(default_factory=dict)


def sweep(spark: Any, paths: Sequence[str], output: str, options: SparkOptions = SparkOptions()) -> SparkReport:
    """Find all duplicates among pages, and write them into `output`/clusters.

    Args:
        spark: the session.
        paths: of files, folders or patterns, that Spark reads.
        output: folder that Spark writes: `fingerprints`, `clusters` and `errors`, and `kept` on request.
            They must not exist.
        options: how.
    Raises:
        InvalidArgument: an option has an invalid value, or Spark refuses a path.
        StoreUnavailable: Spark failed.
    """
    if options.canonical_policy is CanonicalPolicy.MOST_ANCHORS:
        raise InvalidArgument("policy most-anchors needs a store; choose canonical-link, oldest or shortest-url")
    check_source(options.columns.source)
    if len(options.against) >= TABLES:
        raise InvalidArgument(f"at most {TABLES - 1} tables can be compared with, not {len(options.against)}")
    with _translated():
        for name, value in SETTINGS.items():
            spark.conf.set(name, value)
        spark.sparkContext.setLogLevel("ERROR")
        spark.sparkContext.setCheckpointDir(f"{output}/_work")
        return _Sweep(spark, output, options).run(paths)


class _Sweep:
    def __init__(self, spark: Any, output: str, options: SparkOptions) -> None:
        schema = options.schema
        self._spark = spark
        self._output = output
        self._options = options
        self._threshold = schema.near_threshold if options.threshold is None else options.threshold
        self._rule = TextRule(schema.extractor, schema.shingle_words, True, schema.vocabulary)
        self._rule.kernel()  # refuses invalid parameters before anything is read
        check_probability("threshold", self._threshold)
        self._fresh = len(options.against) << TABLE_BITS
        self._held: list[Frame] = []

    def run(self, paths: Sequence[str]) -> SparkReport:
        try:
            return self._run(paths)
        finally:
            for frame in self._held:
                frame.unpersist()

    def _run(self, paths: Sequence[str]) -> SparkReport:
        schema = self._options.schema
        for name in ("errors", "fingerprints", "clusters", *(["kept"] if self._options.kept else [])):
            if self._exists(f"{self._output}/{name}"):
                raise InvalidArgument(f"{self._output}/{name} exists; remove it, or choose another folder as output")
        made_by = f"{FORMAT} {schema.extractor} {schema.shingle_words} {schema.vocabulary}".rstrip()
        tables = [self._spark.read.parquet(path) for path in self._options.against]
        for path, earlier in zip(self._options.against, tables, strict=True):
            others = earlier.where(F.col("made_by") != made_by).select("made_by").take(1)
            if others:
                raise InvalidArgument(f"{path} was made by the rule {others[0][0]!r}, not {made_by!r}; sweep with that")
        self._begin("pages")
        errors = self._write_versions(paths, made_by)
        self._begin("pairs")
        tables.append(self._spark.read.parquet(f"{self._output}/fingerprints"))
        every = reduce(
            lambda one, other: one.unionByName(other),
            (each.withColumn("id", F.col("id") + (n << TABLE_BITS)) for n, each in enumerate(tables)),
        )
        versions = every.where("is_last is not null")
        groups = self._persist(
            versions.groupBy("identity").agg(F.min("id").alias("leader"), F.count("*").alias("size"))
        )
        leading = versions.join(groups, versions["id"] == groups["leader"], "left_semi").where("by_text")
        verified = self._verified(self._candidates(leading), leading).checkpoint()
        self._begin("components")
        bodies = versions.join(groups, "identity").select("body", "leader")
        first = bodies.groupBy("body").agg(F.min("leader").alias("first"), F.max("leader").alias("second"))
        many = first.where("first < second")  # groups whose texts differ although they share a body
        linked = bodies.join(many.select("body", "first"), "body").where("leader != first")
        edges = verified.select("first", "second").union(linked.select("first", F.col("leader").alias("second")))
        components = self._components(edges)
        self._begin("clusters")
        members = self._persist(self._members(every, versions, groups, components))
        places = self._places(members, verified).checkpoint()
        compared = verified.select("first", "second").limit(0)
        for _ in range(ROUNDS):  # with pairs that large buckets left out, as the local sweep does
            missing = places.select(F.explode("missing").alias("first"), F.col("id").alias("second"))
            missing = missing.subtract(compared).checkpoint()
            compared = compared.union(missing)
            if missing.isEmpty() or (more := self._verified(missing, leading).checkpoint()).isEmpty():
                break
            verified = verified.union(more)
            places = self._places(members, verified).checkpoint()
        places.drop("id", "missing").write.parquet(f"{self._output}/clusters")
        if self._options.kept:
            stays = places.where("kind = 'new'").select("id", "url", "timestamp")
            texts = versions.select("id", F.col("title").cast("string"), F.col("text").cast("string"))
            stays.join(texts, "id").drop("id").write.parquet(f"{self._output}/kept")
        kinds = {row[0]: int(row[1]) for row in places.groupBy("kind").count().collect()}
        return SparkReport(sum(kinds.values()), errors, verified.count(), dict(sorted(kinds.items())))

    def _exists(self, path: str) -> bool:
        """Whether there is such a file or folder, in any file system that Spark reads."""
        try:
            self._spark.read.format("binaryFile").load(path)
        except AnalysisException as error:
            if error.getCondition() == "PATH_NOT_FOUND":
                return False
            raise
        return True

    def _begin(self, step: str) -> None:
        """Name the step that the next jobs are of: in Spark's pages, and in its log of events."""
        self._spark.sparkContext.setJobDescription(step)

    def _persist(self, frame: Frame) -> Frame:
        """A frame whose partitions are kept on the executors; a lost one is computed again."""
        self._held.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return frame

    # --- versions

    def _write_versions(self, paths: Sequence[str], made_by: str) -> int:
        """Write the tables of versions and of errors; -> errors."""
        if self._options.files:
            found = self._spark.read.format("binaryFile").load(list(paths))
            if found.select("path").isEmpty():
                raise InvalidArgument(f"there are no files in {', '.join(paths)}")
            is_local = found.select("path").where("path not like 'file:%'").isEmpty()  # then executors open them
            read = found.select("path", F.lit(None).cast("binary").alias("content") if is_local else "content")
            kernel = kernels.pages_of_files
        else:
            read = self._rows(paths)
            kernel = kernels.pages_of_rows
        work = partial(kernel, self._rule, columns=self._options.columns)
        pages = self._persist(read.mapInArrow(work, kernels.ddl(kernels.PAGE)))
        damaged = pages.where("error is not null").select("url", "error")
        damaged.write.parquet(f"{self._output}/errors")
        errors = int(damaged.count())
        self._begin("versions")
        (
            pages.where("error is null")
            .drop("url", "error")
            .repartitionByRange("row_key")
            .sortWithinPartitions("row_key", "timestamp", "body")
            .mapInArrow(kernels.versions_of_pages, kernels.ddl(kernels.VERSION))
            .withColumn("id", F.monotonically_increasing_id())
            .withColumn("made_by", F.lit(made_by))
            .write.parquet(f"{self._output}/fingerprints")
        )
        pages.unpersist()
        return errors

    def _rows(self, paths: Sequence[str]) -> Frame:
        """The rows of Parquet files, with the names that `read_batch` reads.

        Of a row without a URL, `file` is the first file that has its id, if another file has another text for it.
        """
        read = self._spark.read.option("mergeSchema", "true").parquet(*paths)  # else those of one file alone
        names, missing = self._options.columns.stored_names(read.columns)
        if missing or not {"url", "docno", "id"} & names.keys() or not {"body", "text"} & names.keys():
            wrong = f"there is no column {missing}" if missing else "pages need a column url or id, and body or text"
            raise InvalidArgument(
                f"{wrong}; the columns in {', '.join(paths)} are {', '.join(read.columns)}; name those to read: "
                "--url-column, --text-column, --id-column"
            )
        if not {"timestamp", "date"} & names.keys():
            read = read.withColumn("timestamp", F.col("_metadata.file_modification_time"))
            names["timestamp"] = "timestamp"
        chosen = [F.col(f"`{stored}`").alias(name) for name, stored in names.items() if name in READ]
        rows = read.select(*chosen, F.col("_metadata.file_path").alias("file"))
        ids = [F.col(name).cast("string") for name in ("docno", "id") if name in names]
        if not ids:
            return rows.drop("file")
        texts = [F.col(name).cast("binary") for name in ("body", "text") if name in names]
        has_url = F.col("url").isNotNull() if "url" in names else F.lit(False)
        rows = rows.withColumn("row_id", F.when(~has_url, F.coalesce(*ids)))
        of_id = (
            rows.where("row_id is not null")
            .groupBy("row_id")
            .agg(
                F.min("file").alias("first"),
                F.count_distinct("file").alias("files"),
                F.count_distinct(F.xxhash64(F.coalesce(*texts))).alias("texts"),
            )
        )
        conflicts = of_id.where("files > 1 and texts > 1").select("row_id", "first")
        rows = rows.join(conflicts, "row_id", "left").drop("row_id")
        return rows.withColumn("file", F.when(F.col("file") != F.col("first"), F.col("first"))).drop("first")

    # --- pairs

    def _candidates(self, leading: Frame) -> Frame:
        """Likely pairs of leaders."""
        fingerprints = leading.select("id", F.lit(False).alias("is_crowded"), "shingle_count", "sketch")
        crowded = self._buckets(fingerprints, "bucket", "id").mapInArrow(kernels.crowded_of, "id bigint").distinct()
        crowded = crowded.withColumn("is_crowded", F.lit(True))
        fingerprints = fingerprints.drop("is_crowded").join(crowded, "id", "left").fillna(False, "is_crowded")
        work = partial(kernels.pairs_of_buckets, self._threshold, self._fresh)
        return self._buckets(fingerprints, "*").mapInArrow(work, kernels.ddl(kernels.PAIR)).distinct()

    def _buckets(self, fingerprints: Frame, *columns: str) -> Frame:
        """Columns of BANDED; the rows of a bucket are together."""
        banded = fingerprints.mapInArrow(partial(kernels.bands_of, self._threshold), kernels.ddl(kernels.BANDED))
        return banded.select(*columns).repartition("bucket").sortWithinPartitions("bucket")

    def _verified(self, pairs: Frame, leading: Frame) -> Frame:
        """Those pairs of leaders that are within the threshold."""
        blocks = (F.shiftright(*each) for each in zip(("first", "second"), BLOCK_BITS, strict=True))
        pairs = self._persist(pairs.select(F.xxhash64(*blocks).alias("block"), F.col("first").alias("id"), "second"))
        needed = pairs.select("block", "id").union(pairs.select("block", "second")).distinct()
        texts = needed.join(leading.select("id", "text", "is_list"), "id")
        work = partial(kernels.verified_pairs, self._rule, self._threshold)
        return (
            pairs.unionByName(texts, allowMissingColumns=True)
            .repartition("block")
            .sortWithinPartitions("block")
            .mapInArrow(work, kernels.ddl(kernels.VERIFIED))
        )

    def _components(self, edges: Frame) -> Frame:
        """The least number of each component, by large and small stars (Kiveris et al. 2014).

        Gives `leader`, `component`; without the leaders that have the least number, or no edge.
        """
        pairs = edges.select(F.col("second").alias("u"), F.col("first").alias("v")).distinct().checkpoint()
        state = _sum_of(pairs)
        for _ in range(MOST_STARS):
            both = pairs.union(pairs.select(F.col("v").alias("u"), F.col("u").alias("v")))
            least = both.groupBy("u").agg(F.least("u", F.min("v")).alias("m"))
            large = both.join(least, "u").where("v > u").select(F.col("v").alias("u"), F.col("m").alias("v")).distinct()
            least = large.groupBy("u").agg(F.min("v").alias("m"))
            small = large.join(least, "u").where("v != m").select(F.col("v").alias("u"), F.col("m").alias("v"))
            stars = small.union(least.select("u", F.col("m").alias("v"))).distinct().checkpoint()
            before, state = state, _sum_of(stars)
            pairs = stars
            if state == before:
                break
        return pairs.select(F.col("u").alias("leader"), F.col("v").alias("component"))

    # --- clusters

    def _members(self, every: Frame, versions: Frame, groups: Frame, components: Frame) -> Frame:
        """Versions with their component, and what the rule of clusters needs of them."""
        members = versions.drop("text", "sketch", "redirect").join(groups, "identity")
        members = members.join(components, "leader", "left")
        members = members.withColumn("component", F.coalesce("component", "leader"))
        return self._with_votes(every, members, self._policy)

    @property
    def _policy(self) -> CanonicalPolicy:
        return CanonicalPolicy.OLDEST if self._options.against else self._options.canonical_policy

    def _places(self, members: Frame, verified: Frame) -> Frame:
        """PLACE of all versions of this crawl."""
        options = self._options
        same_url = options.same_url or bool(options.against)
        rule = kernels.ClusterRule(
            self._policy, same_url, options.schema.title_rule, options.schema.near_threshold, self._fresh
        )
        roots_of = members.where("id = leader").select(F.col("id").alias("first"), "component")
        # one row for all pairs of a text: a large family has some hundred for each
        near = F.sort_array(F.collect_list(F.struct("second", "similarity")))
        pairs = verified.groupBy("first").agg(near.alias("near"))
        pairs = pairs.join(roots_of, "first").withColumnRenamed("first", "id")
        return (
            members.unionByName(pairs, allowMissingColumns=True)
            .repartition("component")
            .sortWithinPartitions("component", "id")
            .mapInArrow(partial(kernels.clusters_of_components, rule), kernels.ddl(kernels.PLACE))
        )

    def _with_votes(self, every: Frame, members: Frame, policy: CanonicalPolicy) -> Frame:
        """Members with the row that each declares as canonical, redirects followed, and redirects that lead to it."""
        if policy is not CanonicalPolicy.CANONICAL_LINK:
            return members.withColumn("end", F.lit(None).cast("binary")).withColumn("votes", F.lit(0).cast("bigint"))
        redirects = every.where("redirect is not null").select(
            F.col("row_key").alias("source"), F.col("redirect").alias("target")
        )
        redirects = redirects.checkpoint()
        step = redirects.select(F.col("source").alias("target"), F.col("target").alias("next"))
        ends = redirects
        for _ in range(MAX_REDIRECTS - 1):
            moved = ends.join(step, "target", "left")
            moved = moved.select("source", "target", F.coalesce("next", "target").alias("end")).checkpoint()
            is_done = moved.where("target != end").isEmpty()
            ends = moved.select("source", F.col("end").alias("target"))
            if is_done:
                break
        votes = ends.groupBy("target").count()
        votes = votes.select(F.col("target").alias("row_key"), F.col("count").alias("votes"))
        ends = ends.select(F.col("source").alias("declared"), F.col("target").alias("end"))
        members = members.join(ends, "declared", "left").withColumn("end", F.coalesce("end", "declared"))
        votes = votes.withColumn("is_last", F.lit(True))
        return members.join(votes, ["row_key", "is_last"], "left").fillna(0, "votes")


def _sum_of(pairs: Frame) -> Any:
    """What two equal sets of pairs share."""
    return pairs.agg(F.count("*"), F.sum(F.xxhash64("u", "v").cast("decimal(38,0)"))).first()


def start(master: str | None, settings: Mapping[str, str]) -> Any:
    """A session of Spark.

    Args:
        master: of the cluster, such as spark://host:7077, or local[2]; None takes Spark's own settings.
        settings: by name.
    """
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and (Path(home) / "bin" / "java").exists()):
        raise InvalidArgument("Spark needs Java 17 or later on the PATH, or JAVA_HOME; install a JRE")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # executors use it, as a path on their machines
    builder = SparkSession.builder.appName("docstore-spark")
    for name, value in ({"spark.master": master} if master else {}).items() | settings.items():
        builder = builder.config(name, value)
    with _translated():
        return builder.getOrCreate()


@contextmanager
def _translated() -> Iterator[None]:
    """Translate errors of Spark."""
    try:
        yield
    except AnalysisException as error:
        if error.getCondition() == "UNABLE_TO_INFER_SCHEMA":
            raise InvalidArgument("there are no Parquet files in the paths; archives need --files") from error
        raise InvalidArgument(f"Spark refuses the call: {failure_reason(str(error))}") from error
    except (Py4JError, PySparkException) as error:
        if "CANNOT_MERGE_SCHEMAS" in str(error):
            columns = " and ".join(_COLUMNS.findall(str(error))[:2])
            raise InvalidArgument(
                f"the Parquet files differ in the type of a column: {columns}; write them with one type, or sweep "
                "them one after the other, with --against"
            ) from error
        raise StoreUnavailable(
            f"Spark failed: {failure_reason(str(error))}; read the logs of its executors, remove the folders that were "
            "written, then run it again"
        ) from error


def failure_reason(message: str) -> str:
    """The line of Spark's long message with the cause: the last error of Python, else that of Java."""
    lines = [line.strip() for line in message.strip().splitlines()] or [""]
    errors = [line for line in lines if _PYTHON_ERROR.match(line)]
    java = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    return (errors[-1:] or java or lines)[0]
