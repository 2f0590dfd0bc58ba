"""Connector jars come whole, from the repository alone, once; and a machine without a network can be given them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from eventide.engine.connectors import fetch, jar_name, jars_of
from eventide.engine.java import SparkUnavailable
from eventide.engine.spark_compat import LINES, SparkUnsupported, line_of

SMALL = "org.apache.commons:commons-pool2:2.12.0"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_a_half_filled_maven_repository_does_not_matter(home: Path) -> None:
    """Maven leaves poms of jars that it did not need; Spark's own resolver takes such a module for found, and its jar for missing."""
    half = home / ".m2" / "repository" / "org" / "apache" / "commons" / "commons-pool2" / "2.12.0"
    half.mkdir(parents=True)
    (half / "commons-pool2-2.12.0.pom").write_text("<project><modelVersion>4.0.0</modelVersion></project>")
    [jar] = jars_of([SMALL])
    assert zipfile.is_zipfile(jar)


def test_a_cut_off_jar_in_the_cache_is_fetched_anew_and_a_whole_one_is_not(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poisoned = home / "cache" / "eventide" / "jars" / jar_name(SMALL)
    poisoned.parent.mkdir(parents=True)
    poisoned.write_bytes(b"PK\x03\x04 and no more")
    assert jars_of([SMALL]) == [str(poisoned)]
    assert zipfile.is_zipfile(poisoned)
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "http://127.0.0.1:9/")
    assert jars_of([SMALL]) == [str(poisoned)], "nobody is asked for what is there"


def test_without_a_network_the_error_says_what_is_missing_in_one_sentence(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "http://127.0.0.1:9/")
    with pytest.raises(
        SparkUnavailable, match=r"^org\.apache\.commons:commons-pool2:2\.12\.0 could not be fetched: .*--jars PATH"
    ) as failure:
        jars_of([SMALL])
    assert len(str(failure.value).splitlines()) == 1
    assert not list((home / "cache").rglob("*.jar")), "nothing half is left behind"


def test_jars_given_by_path_are_not_fetched(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "http://127.0.0.1:9/")
    assert jars_of([SMALL], ["/opt/jars/commons-pool2-2.13.1.jar"]) == ["/opt/jars/commons-pool2-2.13.1.jar"]


def test_a_run_that_needs_no_connector_needs_no_cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "cache").write_text("a file where the cache would be")
    assert jars_of([]) == []
    assert jars_of([SMALL], ["/opt/jars/commons-pool2-2.13.1.jar"]) == ["/opt/jars/commons-pool2-2.13.1.jar"]
    with pytest.raises(
        SparkUnavailable, match=r"^org\.apache\.commons:commons-pool2:2\.12\.0 cannot be kept .*XDG_CACHE_HOME.*--jars PATH"
    ):
        jars_of([SMALL])


def test_a_cache_that_cannot_be_written_serves_what_is_in_it(home: Path) -> None:
    there = home / "cache" / "eventide" / "jars" / jar_name(SMALL)
    (there.parent / ".lock").mkdir(parents=True)  # nobody can take a lock here, whoever asks
    with zipfile.ZipFile(there, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "")
    assert jars_of([SMALL]) == [str(there)]


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    assert jars_of([]) == []
    with pytest.raises(SparkUnavailable, match=r"home directory\. Set XDG_CACHE_HOME"):
        jars_of([SMALL])


def test_a_java_that_cannot_be_run_is_no_matter_of_the_cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(home / "none"))
    with pytest.raises(SparkUnavailable, match=r"could not be fetched: .*none/bin/java"):
        jars_of([SMALL])


def test_an_artifact_that_does_not_exist_is_named(home: Path, tmp_path: Path) -> None:
    with pytest.raises(SparkUnavailable, match=r"commons-pool2:99\.9 could not be fetched: .*not found"):
        fetch(["org.apache.commons:commons-pool2:99.9"], tmp_path, transitive=False)


@pytest.mark.parametrize("version", LINES)
def test_every_line_of_spark_has_its_own_kafka_connector(version: str) -> None:
    line = line_of(f"{version}.7")
    assert {name.split(":")[1].split("_")[0] for name in line.kafka} == {
        "spark-sql-kafka-0-10", "spark-token-provider-kafka-0-10", "kafka-clients", "commons-pool2"
    }  # fmt: skip


def test_a_spark_that_nobody_tried_is_refused_with_those_that_were() -> None:
    with pytest.raises(SparkUnsupported, match=r"this is Spark 3\.4\.1; Eventide runs on 3\.5, 4\.0, 4\.1, 4\.2, 4\.3"):
        line_of("3.4.1")
