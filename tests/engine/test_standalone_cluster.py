"""The same pipeline, unchanged, on a Spark standalone cluster of two workers: the same answers as everywhere."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from landing import answer_of_the_oracle, assert_same, land, lane_rows

HERE = Path(__file__).parent
ROWS = 20_000


def environment(root: Path, bare: bool = False) -> dict[str, str]:
    """That of a machine of the cluster: with this Python and Eventide on it, or bare, with Spark alone."""
    paths = [str(HERE.parents[1] / "src"), os.environ.get("PYTHONPATH", "")]
    python = {} if bare else {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "PYTHON", "VIRTUAL_ENV"))}
    return {
        **kept,
        **python,
        "PYTHONPATH": "" if bare else os.pathsep.join(filter(None, paths)),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(root / "local"),
        "SPARK_NO_DAEMONIZE": "1",
        "POLARS_MAX_THREADS": "1",
    }


def started(root: Path, bare: bool, name: str, *arguments: str) -> tuple[subprocess.Popen[bytes], Path]:
    """A daemon of Spark in a working directory of its own; spark-class ends in exec, so the process is the daemon."""
    here = root / name
    here.mkdir(parents=True)
    log = here / "log.txt"
    spark_class = Path(pyspark.__file__).parent / "bin/spark-class"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(spark_class), *arguments], cwd=here, env=environment(root, bare), stdout=out, stderr=out
        )
    return process, log


def said(process: subprocess.Popen[bytes], log: Path, pattern: str, seconds: float = 90) -> str:
    """Wait until a daemon's log says something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found[0]
        assert process.poll() is None, f"it ended: {log.read_text(errors='replace')[-2000:]}"
        time.sleep(0.1)
    raise AssertionError(f"{log} does not say {pattern!r} within {seconds} s: {log.read_text(errors='replace')[-2000:]}")


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    daemons, bare = [], getattr(request, "param", False)
    try:
        deploy = "org.apache.spark.deploy"
        master, log = started(
            tmp_path, bare, "master", f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"
        )
        daemons.append(master)
        address = said(master, log, r"spark://127\.0\.0\.1:\d+")
        for number in (1, 2):
            worker, log = started(
                tmp_path, bare, f"worker {number}".replace(" ", "-"), f"{deploy}.worker.Worker", "--cores", "1", "--memory", "700m",
                "--host", "127.0.0.1", "--webui-port", "0", "--work-dir", str(tmp_path / f"work-{number}"), address,
            )  # fmt: skip
            daemons.append(worker)
            said(worker, log, "Successfully registered with master")
        yield address
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_it_runs_unchanged_on_a_cluster_of_two_workers(cluster: str, tmp_path: Path) -> None:
    land(tmp_path / "in", lane_rows(ROWS), [3, 2, 2, 1], "unevenly")
    driver = [sys.executable, str(HERE / "cluster_driver.py"), cluster, str(tmp_path), str(tmp_path / "answer")]
    done = subprocess.run(driver, cwd=HERE, env=environment(tmp_path), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    theirs: Any = answer_of_the_oracle(ROWS)
    for read in ("worker", "spark"):
        _, places, mine = pickle.loads((tmp_path / f"answer-{read}").read_bytes())
        assert len(places) == 2 and all("work-" in place for place in places), places
        assert_same(mine, theirs)


JOB = """
import json, sys
import eventide as ev

paid = ev.files("payments", "{root}/in", event_time="ts", arrival="at", watermark=ev.bounded("2 seconds"), lane="directory", files_per_batch=3)
minutes = paid.window(ev.tumbling("1 minute"), by="bank").agg(n=ev.count(), total=ev.sum("paise"))
pipeline = ev.Pipeline("payments", minutes.to("drop", late=ev.drop()), state="{root}/state")


def where(_):
    import os, time
    time.sleep(0.2)  # so that no worker takes all the tasks
    return os.path.abspath(sys.prefix)


if __name__ == "__main__":
    done = pipeline.run()
    context = done.run.spark.sparkContext
    panes = pipeline.panes(done.run.spark, "drop").selectExpr("unix_micros(window_start)", "bank", "n", "total")
    facts = dict(rows=done.rows, outputs=done.outputs, batches=done.run.ledger.batch, panes=sorted(map(list, panes.collect()), key=str))
    facts["places"] = sorted(set(context.parallelize(range(8), 8).map(where).collect()))
    facts["settings"] = dict(context.getConf().getAll())
    print("FACTS" + json.dumps(facts))
"""

OWN = {
    "spark.speculation": "true", "spark.speculation.multiplier": "1.01", "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "0ms", "spark.speculation.interval": "10ms", "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true", "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "20s", "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50", "spark.executor.memory": "512m", "spark.driver.memory": "700m",
    "spark.ui.enabled": "true", "spark.ui.port": "0", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
}  # fmt: skip
"""Tasks run twice, executors that come and go, another zone, small Arrow batches, and the UI on."""


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A clean environment with the wheel, by pip, and the same as an archive without Spark's jars, which the cluster has."""
    root = tmp_path_factory.mktemp("packed")
    code = f"import os; os.chdir({str(HERE.parents[1])!r}); from hatchling.build import build_wheel; build_wheel({str(root)!r})"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    venv.create(root / "environment", with_pip=True)
    python = root / "environment" / "bin" / "python"
    install = [python, "-m", "pip", "install", "-q", next(root.glob("*.whl")), f"pyspark=={pyspark.__version__}", "venv-pack2"]
    subprocess.run(install, check=True, timeout=1200, env=environment(root, bare=True))
    archive = root / "environment.tar.gz"
    pack = [
        root / "environment" / "bin" / "venv-pack",
        "-q",
        "-p",
        root / "environment",
        "-o",
        archive,
        "--compress-level",
        "1",
    ]
    subprocess.run([*pack, "--exclude", "*/pyspark/jars/*"], check=True, timeout=1200)
    return python, archive


def submit(cluster: str, root: Path, python: Path, archive: Path, *more: str) -> subprocess.CompletedProcess[str]:
    (root / "job.py").write_text(JOB.format(root=root))
    settings = [part for name, value in OWN.items() for part in ("--conf", f"{name}={value}")]
    bin = Path(pyspark.__file__).parent / "bin/spark-submit"
    env = {
        **environment(root, bare=True), "TZ": "America/New_York", "PYSPARK_PYTHON": "./environment/bin/python",
        "PYSPARK_DRIVER_PYTHON": str(python),
    }  # fmt: skip
    command = [str(bin), "--master", cluster, *settings, "--archives", f"{archive}#environment", *more, str(root / "job.py")]
    return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, timeout=600)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("cluster", [True], indirect=True, ids=["bare machines"])
def test_a_packed_environment_is_all_that_a_cluster_needs(cluster: str, packed: tuple[Path, Path], tmp_path: Path) -> None:
    """spark-submit --archives, with the settings of a user who has some."""
    land(tmp_path / "in", lane_rows(ROWS), [3, 2, 2, 1], "unevenly")
    done = submit(cluster, tmp_path, *packed)
    assert done.returncode == 0 and "FACTS" in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]
    facts = json.loads(done.stdout.partition("FACTS")[2].splitlines()[0])
    theirs: Any = answer_of_the_oracle(ROWS)
    assert {at: tuple(values) for *at, n, total in facts["panes"] for at, values in [(tuple(at), (n, total))]} == {
        (start, bank): values for (start, _, bank), values in theirs.tables["drop"].items()
    }
    assert {v: facts["outputs"]["drop"].get(v, 0) for v in theirs.verdicts["drop"]} == theirs.verdicts["drop"]
    assert facts["batches"] >= 2 and facts["rows"]["in"] == theirs.rows["in"]
    assert facts["places"] and all("work-" in place and place.endswith("/environment") for place in facts["places"])
    assert {name: facts["settings"].get(name) for name in OWN} == OWN, "no setting of the user's was changed"
    refused = submit(cluster, tmp_path, *packed, "--deploy-mode", "cluster")
    assert (
        refused.returncode and "not supported for python applications on standalone clusters" in refused.stdout + refused.stderr
    )
