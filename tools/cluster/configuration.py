"""The configuration of a cluster's servers, as text; docs/hbase.md explains the settings that matter.

Pure.  Loopback only.  Detection of dead servers is set for seconds, not for the minute that HBase takes by default.
"""

from __future__ import annotations

from xml.sax.saxutils import escape

from tools.cluster.settings import HOST, Cluster

CELL_LIMIT_BYTES = 32 << 20

_LOG = """status=warn
appender.c.type=Console
appender.c.name=c
appender.c.target=SYSTEM_ERR
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%d{ISO8601} %-5p [%t] %c{2}: %m%n
rootLogger.level=INFO
rootLogger.appenderRef.c.ref=c
"""


def files(cluster: Cluster) -> dict[str, str]:
    """Configuration files by name."""
    return {
        "core-site.xml": _xml(_core(cluster)),
        "hdfs-site.xml": _xml(_hdfs(cluster)),
        "hbase-site.xml": _xml(hbase(cluster)),
        "log4j2.properties": _LOG,
    }


def _core(cluster: Cluster) -> dict[str, object]:
    return {
        "fs.defaultFS": _file_system(cluster),
        "hadoop.security.token.service.use_ip": "true",
        "hadoop.tmp.dir": cluster.root / "data" / "tmp",
        "ipc.client.connect.max.retries": 5,
        "ipc.client.connect.retry.interval": 500,
    }


def _hdfs(cluster: Cluster) -> dict[str, object]:
    data = cluster.root / "data"
    return {
        "dfs.namenode.rpc-address": f"{HOST}:{cluster.port('namenode')}",
        "dfs.namenode.http-address": f"{HOST}:{cluster.port('namenode-http')}",
        "dfs.namenode.name.dir": f"file://{data}/namenode",
        "dfs.datanode.data.dir": f"file://{data}/datanode0",
        "dfs.datanode.address": f"{HOST}:{cluster.port('datanode0')}",
        "dfs.datanode.http.address": f"{HOST}:0",
        "dfs.datanode.ipc.address": f"{HOST}:0",
        "dfs.datanode.hostname": "localhost",
        "dfs.replication": min(3, cluster.datanodes),
        "dfs.permissions.enabled": "false",
        "dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER",
        "dfs.heartbeat.interval": 1,
        "dfs.namenode.heartbeat.recheck-interval": 3000,
        "dfs.namenode.stale.datanode.interval": 3000,
        "dfs.namenode.avoid.write.stale.datanode": "true",
        "dfs.namenode.avoid.read.stale.datanode": "true",
        "dfs.namenode.safemode.extension": 0,
        "dfs.namenode.safemode.min.datanodes": 1,
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        "dfs.namenode.handler.count": 5,
        "dfs.client.socket-timeout": 10_000,
        "dfs.blockreport.initialDelay": 0,
        "dfs.datanode.max.transfer.threads": 256,
    }


def hbase(cluster: Cluster) -> dict[str, object]:
    """Settings of HBase's own servers."""
    return {
        "hbase.rootdir": f"{_file_system(cluster)}/hbase",
        "hbase.wal.dir": f"{_file_system(cluster)}/hbase-wal",
        "hbase.cluster.distributed": "true",
        "hbase.wal.hsync": "true",
        "hbase.tmp.dir": cluster.root / "data" / "hbase",
        # where they listen
        "hbase.zookeeper.quorum": HOST,
        "hbase.zookeeper.property.clientPort": cluster.port("zookeeper"),
        "hbase.zookeeper.property.clientPortAddress": HOST,
        "hbase.zookeeper.property.dataDir": cluster.root / "data" / "zookeeper",
        "hbase.zookeeper.property.admin.enableServer": "false",
        "hbase.master.port": cluster.port("master"),
        "hbase.master.hostname": "localhost",
        "hbase.master.ipc.address": HOST,
        "hbase.master.info.port": -1,
        "hbase.unsafe.regionserver.hostname": "localhost",
        "hbase.regionserver.ipc.address": HOST,
        "hbase.regionserver.info.port": -1,
        "hbase.thrift.info.port": -1,
        # how soon a server counts as dead, and how soon others take over
        "zookeeper.session.timeout": cluster.session_timeout_ms,
        "hbase.zookeeper.property.tickTime": cluster.session_timeout_ms // 6,
        "hbase.lease.recovery.first.pause": 500,
        "hbase.lease.recovery.pause": 500,
        "hbase.lease.recovery.dfs.timeout": 5000,
        "hbase.rpc.timeout": 5000,
        "hbase.client.operation.timeout": 60_000,
        "hbase.client.meta.operation.timeout": 30_000,
        "hbase.client.pause": 50,
        "hbase.client.retries.number": 30,
        # a quick start
        "hbase.master.wait.on.regionservers.mintostart": 1,
        "hbase.master.wait.on.regionservers.maxtostart": cluster.regionservers,
        "hbase.master.wait.on.regionservers.timeout": 3000,
        "hbase.master.wait.on.regionservers.interval": 200,
        "hbase.regionserver.msginterval": 1000,
        "hbase.server.thread.wakefrequency": 500,
        # sizes
        "hbase.regionserver.handler.count": 20,
        "hbase.hregion.memstore.flush.size": 32 << 20,
        "hbase.client.keyvalue.maxsize": CELL_LIMIT_BYTES,
        "hbase.server.keyvalue.maxsize": CELL_LIMIT_BYTES,
        "hbase.io.compress.zstd.codec": "org.apache.hadoop.hbase.io.compress.zstd.ZstdCodec",
    }


def _file_system(cluster: Cluster) -> str:
    return f"hdfs://{HOST}:{cluster.port('namenode')}"


def _xml(settings: dict[str, object]) -> str:
    lines = [
        f"<property><name>{escape(name)}</name><value>{escape(str(value))}</value></property>"
        for name, value in settings.items()
    ]
    return "\n".join(['<?xml version="1.0"?>', "<configuration>", *lines, "</configuration>", ""])
