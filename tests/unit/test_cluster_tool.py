"""The tool that starts a test cluster, without Java."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools.cluster.__main__ import NOT_AVAILABLE, main
from tools.cluster.hbase import (
    FIRST_PORT,
    HOST,
    PORTS,
    Cluster,
    Processes,
    default_root,
    files,
    folder,
    free_ports,
    hbase,
    load,
    made,
    pom,
    split_name,
    wait_for,
)

ROOT = Path(__file__).parents[2]


def cluster(root: Path) -> Cluster:
    return Cluster(root, 19_400)


def test_every_server_has_a_port_of_its_own(tmp_path: Path) -> None:
    widest = Cluster(tmp_path, 20_000, 9, 9, 9)
    ports = [widest.port(name) for name in [*widest.servers(), "namenode-http"]]
    assert len(ports) == len(set(ports)) and all(20_000 <= port < 20_000 + PORTS for port in ports)


def test_storage_starts_before_the_servers_that_need_it(tmp_path: Path) -> None:
    names = list(cluster(tmp_path).servers())
    assert names[:3] == ["namenode", "zookeeper", "datanode0"] and names[-1] == "gateway1"
    assert len(names) == 9


def test_a_cluster_is_found_again_in_its_folder(tmp_path: Path) -> None:
    assert load(tmp_path) is None
    one = Cluster(tmp_path, 20_000, regionservers=2, session_timeout_ms=6000)
    one.save()
    assert load(tmp_path) == one


@pytest.mark.parametrize("servers", [0, 10])
def test_a_number_of_servers_without_ports_is_refused(tmp_path: Path, servers: int) -> None:
    with pytest.raises(ValueError, match="regionservers must be 1 to 9"):
        Cluster(tmp_path, 20_000, servers)


def test_names_of_servers_are_checked() -> None:
    assert split_name("regionserver2") == ("regionserver", 2) and split_name("master") == ("master", 0)
    for name in ("regionserver", "master1", "nobody", ""):
        with pytest.raises(ValueError, match="no server is named"):
            split_name(name)


def test_used_ports_are_skipped(tmp_path: Path) -> None:
    first = free_ports(tmp_path)
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # other tests try the same ports
        taken.bind((HOST, first + 7))
        taken.listen()
        assert free_ports(tmp_path) != first


def test_clusters_have_different_ports_even_if_none_runs(tmp_path: Path) -> None:
    wanted = [Cluster(tmp_path / f"cluster{number}", 0) for number in range(40)]
    clusters = [made(one) for one in [*wanted, Cluster(tmp_path / "default", 0)]]
    assert len({one.first_port for one in clusters}) == len(clusters)
    assert clusters == [load(one.root) for one in clusters]
    assert all(one.first_port != FIRST_PORT for one in clusters[:-1])  # those are kept for the default one


def test_the_first_port_can_be_chosen(tmp_path: Path) -> None:
    assert made(Cluster(tmp_path / "one", 25_000)).first_port == 25_000


def test_a_cluster_is_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCSTORE_CLUSTER_ROOT", raising=False)
    assert default_root(tmp_path) == tmp_path / "default"
    monkeypatch.setenv("DOCSTORE_CLUSTER_ROOT", str(tmp_path / "other"))
    assert default_root(tmp_path) == tmp_path / "other"


def test_configuration_is_valid_xml_with_loopback_addresses_only(tmp_path: Path) -> None:
    for name, text in files(cluster(tmp_path / "a&b")).items():
        if name.endswith(".xml"):
            values = {one.findtext("name"): one.findtext("value") for one in ElementTree.fromstring(text)}
            assert values and all("0.0.0.0" not in str(value) for value in values.values())
    settings = hbase(cluster(tmp_path))
    assert settings["hbase.wal.hsync"] == "true" and str(settings["hbase.rootdir"]).startswith(f"hdfs://{HOST}:")
    assert settings["hbase.master.wait.on.regionservers.maxtostart"] == 3


def test_jars_are_next_to_their_list(tmp_path: Path) -> None:
    root = ElementTree.fromstring(pom())
    names = {one.text for one in root.iter("{http://maven.apache.org/POM/4.0.0}artifactId")}
    assert {"hbase-server", "hbase-thrift", "hadoop-hdfs"} <= names
    assert folder(tmp_path) == folder(tmp_path) and folder(tmp_path).parent == tmp_path


def test_a_process_that_has_ended_is_not_signalled(tmp_path: Path) -> None:
    processes = Processes(cluster(tmp_path), tmp_path / "jars")
    (tmp_path / "processes").mkdir()
    assert processes.process_id("master") is None
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        (tmp_path / "processes" / "master").write_text(f"{other.pid} 1", encoding="utf-8")
        assert processes.process_id("master") is None  # the id is somebody else's now
        assert not processes.signal("master", signal.SIGKILL)
        assert other.poll() is None


def test_a_process_runs_until_its_last_thread_has_ended(tmp_path: Path) -> None:
    """The first thread is dead while another one still holds the ports: so it is for a while after SIGKILL."""
    script = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
ctypes.CDLL(None).pthread_exit(None)
"""
    processes = Processes(cluster(tmp_path), tmp_path / "jars")
    (tmp_path / "processes").mkdir()
    with subprocess.Popen([sys.executable, "-c", script]) as process:
        status = Path(f"/proc/{process.pid}/stat")
        wait_for(lambda: status.read_text("utf-8").rpartition(")")[2].split()[0] == "Z", "the thread does not end")
        began = status.read_text("utf-8").rpartition(")")[2].split()[19]
        (tmp_path / "processes" / "master").write_text(f"{process.pid} {began}", encoding="utf-8")
        found = processes.process_id("master")
        process.kill()
        process.wait()
        assert found == process.pid
        assert processes.process_id("master") is None


def test_a_command_without_a_cluster_fails_with_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(tmp_path), "status"]) == 1
    assert "no cluster was made" in capsys.readouterr().err


def test_without_java_no_folder_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["--cache", str(tmp_path), "--root", str(tmp_path / "one"), "start"]) == NOT_AVAILABLE
    assert "no java on the path" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("optional", "code"), [("1", 0), ("", 1)])
def test_a_lane_without_java_is_skipped_loudly_or_fails(tmp_path: Path, optional: str, code: int) -> None:
    given = {
        "PATH": str(tmp_path),
        "PYTHON": sys.executable,
        "CLUSTER_OPTIONAL": optional,
        "DOCSTORE_CLUSTER_CACHE": str(tmp_path),
    }
    script = ROOT / "tools" / "test_cluster.sh"
    done = subprocess.run(
        ["/bin/sh", str(script), "tests"], cwd=ROOT, env=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert ("**** SKIPPED: NO TEST ON AN HBASE CLUSTER: no java" in done.stdout) == bool(optional)
    assert "no java on the path" in done.stdout
