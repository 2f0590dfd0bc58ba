"""What Spark is told when Eventide starts it: quiet defaults, and the user's word before each of them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from feeding import Feeding

from eventide.engine import spark_session as session
from eventide.engine.class_archive import ON_THE_CLASS_PATH, ClassArchive
from eventide.engine.connectors import jar_name

SMALL = "org.apache.commons:commons-pool2:2.12.0"


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Gives the settings that a session would be started with, by a user with a home of their own."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in (*ON_THE_CLASS_PATH, "SPARK_LOCAL_IP", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(session, "_started", dict)
    monkeypatch.setattr(session, "_recorded", None)
    return session.local_session


def test_all_cores_and_no_ui_unless_somebody_says_otherwise(told: Any) -> None:
    said = told(name="minutes")
    assert said["spark.master"] == "local[*,4]" and said["spark.ui.enabled"] == "false" and said["spark.app.name"] == "minutes"
    assert told(cores=3)["spark.master"] == "local[3,4]"
    mine = told(conf={"spark.ui.enabled": "true", "spark.sql.session.timeZone": "Asia/Kolkata"})
    assert mine["spark.ui.enabled"] == "true" and mine["spark.sql.session.timeZone"] == "Asia/Kolkata"


def test_what_spark_defaults_say_is_the_users_word(told: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# the UI is how we watch it\nspark.ui.enabled true\nspark.master=spark://here:7077\nspark.jars /opt/mine.jar\n"
        "spark.driver.extraJavaOptions   -Xss4m -Da=b\nspark.sql.execution.arrow.maxRecordsPerBatch : 500\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    said = told()
    assert said["spark.ui.enabled"] == "true" and said["spark.master"] == "spark://here:7077"
    assert said["spark.jars"] == "/opt/mine.jar" and said["spark.sql.execution.arrow.maxRecordsPerBatch"] == "500"
    assert said["spark.driver.extraJavaOptions"].endswith("-Xss4m -Da=b"), "of two, Java takes the later"
    assert told(master="local[2]", conf={"spark.ui.enabled": "false"})["spark.ui.enabled"] == "false"


def test_a_driver_whose_workers_are_elsewhere_is_not_hidden_on_loopback(told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told(master="spark://here:7077")
    assert "SPARK_LOCAL_IP" not in os.environ
    told()
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"
    monkeypatch.delenv("SPARK_LOCAL_IP")


def test_jars_go_where_java_keeps_their_classes_and_on_a_cluster_to_the_workers(told: Any, tmp_path: Path) -> None:
    jar = str(tmp_path / jar_name(SMALL))
    Path(jar).touch()
    here, there = told([SMALL], jars=[jar]), told([SMALL], jars=[jar], master="spark://here:7077")
    assert here["spark.driver.extraClassPath"] == jar and "spark.jars" not in here
    assert there["spark.jars"] == jar and "spark.driver.extraClassPath" not in there


@pytest.mark.parametrize("mine", ["https://repo/mine.jar", "hdfs:///mine.jar", "file:///opt/mine.jar", "/opt/*.jar", "{here}"])
def test_jars_that_spark_is_told_of_are_left_to_spark(told: Any, tmp_path: Path, mine: str) -> None:
    ours = tmp_path / jar_name(SMALL)
    ours.touch()
    mine = mine.format(here=ours.with_name("mine.jar"))
    ours.with_name("mine.jar").touch()
    said = told([SMALL], jars=[str(ours)], conf={"spark.jars": mine, "spark.driver.extraClassPath": "/opt/first.jar"})
    assert said["spark.jars"] == f"{mine},{ours}", "one on the class path would not see those that Spark loads"
    assert said["spark.driver.extraClassPath"] == "/opt/first.jar"


def test_jars_of_ours_that_are_no_files_here_are_for_spark_to_find(told: Any) -> None:
    said = told(jars=["https://repo/mine.jar", "/opt/*.jar"])
    assert said["spark.jars"] == "https://repo/mine.jar,/opt/*.jar" and "spark.driver.extraClassPath" not in said


def test_a_cache_that_cannot_be_written_costs_time_and_no_run(told: Any, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the cache would be")
    assert "Archive" not in options(told(record=True))


def options(said: dict[str, str]) -> str:
    return said["spark.driver.extraJavaOptions"]


def to_write(said: dict[str, str]) -> Path:
    return Path(options(said).partition("-XX:ArchiveClassesAtExit=")[2].split(" ")[0])


@pytest.fixture
def archive(told: Any) -> ClassArchive:
    found = ClassArchive.of([])
    if found is None:
        pytest.skip("this Java keeps no classes")
    return found


def test_classes_are_taken_over_only_from_a_run_that_came_to_its_first_commit(told: Any, archive: ClassArchive) -> None:
    assert "Archive" not in options(told()), "a command that reads a little is none to go by"
    early = to_write(told(record=True))
    early.write_text("of a run that ended early")
    written = to_write(told(record=True))
    assert not early.exists() and written != early and written.parent == archive.file.parent
    session.keep_classes()
    assert "SharedArchiveFile" not in options(told()), "the JVM that has it to write has not ended"
    written.write_text("whole")
    assert f"-XX:SharedArchiveFile={archive.file}" in options(told()) == options(told(record=True))
    assert "SharedArchiveFile" not in options(told(conf={"spark.driver.extraJavaOptions": "-Xshare:off"}))


def test_an_archive_whose_jvm_was_killed_as_it_wrote_is_never_taken_over(told: Any, archive: ClassArchive) -> None:
    torn = to_write(told(record=True))
    session.keep_classes()
    torn.write_bytes(bytes(64) + b"classes; the beginning comes last")
    assert to_write(told(record=True)) != torn and torn.exists(), "it may be at it still"
    os.utime(torn, (0, time.time() - 3601))
    assert "ArchiveClassesAtExit" in options(told(record=True)) and not torn.exists()


def test_archives_that_nobody_has_taken_over_for_a_month_are_removed(told: Any, archive: ClassArchive) -> None:
    month = 30 * 24 * 3600
    ours, other, young = (archive.file, *(archive.file.with_name(f"{name}.jsa") for name in ("other", "young")))
    for file, age in ((ours, month + 60), (other, month + 60), (young, month - 60)):
        file.write_text("whole")
        os.utime(file, (0, time.time() - age))
    assert "SharedArchiveFile" in options(told())
    assert not other.exists() and young.exists() and time.time() - ours.stat().st_mtime < 60, "what is taken over now stays"


def test_a_cache_that_is_removed_meanwhile_stops_no_run(archive: ClassArchive) -> None:
    archive.file.parent.rmdir()
    archive.gather()
    assert archive.options(record=True) == ""


def test_a_jar_that_was_replaced_has_an_archive_of_its_own(archive: ClassArchive, tmp_path: Path) -> None:
    jar = tmp_path / "a.jar"
    jar.write_text("first")
    first, again = ClassArchive.of([str(jar)]), ClassArchive.of([str(jar)])
    os.utime(jar, (0, 0))
    second = ClassArchive.of([str(jar)])
    assert first and again and second and first.file == again.file and len({archive.file, first.file, second.file}) == 3


@pytest.mark.parametrize("name", ON_THE_CLASS_PATH)
def test_with_directories_on_the_class_path_java_is_not_asked_to_keep_classes(
    archive: ClassArchive, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ClassArchive.of([str(tmp_path)]) is None and ClassArchive.of([f"{tmp_path}/*"]) is None
    monkeypatch.setenv(name, str(tmp_path))
    assert ClassArchive.of([]) is None


def test_a_run_lets_go_of_its_state_whatever_becomes_of_the_classes(
    told: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing() -> None:
        raise RuntimeError("no more")

    gone = tmp_path / "gone"
    live = Feeding(tmp_path)
    monkeypatch.setattr(session, "_recorded", ClassArchive(gone / "a.jsa", gone / "a-1.new"))
    for _ in range(2):
        live.land("a", (1, 1, "x", 5))
        live.open()
        live.batch("a")
        live.run.close()
    monkeypatch.setattr("eventide.engine.run.keep_classes", failing)
    live.land("a", (2, 2, "x", 5))
    live.open()
    live.batch("a")
    with pytest.raises(RuntimeError, match="no more"):
        live.run.close()
    live.open()
    live.run.close()


@pytest.mark.parametrize("release", ['JAVA_VERSION="11.0.2"', 'JAVA_VERSION="17.0.1"\nIMPLEMENTOR="Eclipse OpenJ9"', "nothing"])
def test_a_java_that_keeps_no_classes_is_not_asked_to(release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "release").write_text(release)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert ClassArchive.of([]) is None
