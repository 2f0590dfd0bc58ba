"""What a worker does for its next task."""

import gc
import importlib
import sys
import zipfile
from zipimport import zipimporter

import pytest

from eventide.engine.between_tasks import ready_for_the_next
from eventide.engine.java import SparkUnavailable
from eventide.engine.worker import check_workers, prepared_workers


class Workers:
    """A session whose tasks say what they are told to; as it is asked for, so often it is counted."""

    def __init__(self, answer, master="spark://here:7077", python="/usr/bin/python3"):
        self.sparkContext, self.answer, self.asked = self, answer, 0
        self.master, self.pythonExec, self.applicationId, self.defaultParallelism = master, python, object(), 3

    def parallelize(self, items, slices):
        self.slices, self.asked = slices, self.asked + 1
        return self

    def map(self, task):
        self.task = task
        return self

    def collect(self):
        if isinstance(self.answer, Exception):
            raise self.answer
        return [self.answer or self.task(0)] * self.slices


MINE = ".".join(map(str, sys.version_info[:2]))


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Exception("[PYTHON_VERSION_MISMATCH] 3.8 is not 3.11"), r"run on Python another version \(/usr/bin/python3\), this program on "),
        (("3.8", []), r"run on Python 3\.8 \(/usr/bin/python3\)"),
        ((MINE, ["polars", "eventide"]), rf"run on Python {MINE} without polars, eventide"),
    ],
)  # fmt: skip
def test_workers_that_cannot_do_our_tasks_are_refused_with_what_to_set(answer, says):
    with pytest.raises(SparkUnavailable, match=says + ".*Set PYSPARK_PYTHON=.*spark-submit --archives"):
        prepared_workers(Workers(answer))
    late = prepared_workers(Workers(answer, "local[3]", sys.executable))
    with pytest.raises(SparkUnavailable, match=f"would fail. Set PYSPARK_PYTHON={sys.executable}"):
        late()


def test_workers_are_asked_once_and_those_of_this_machine_are_all_made_ready():
    there, here = Workers(None), Workers(None, "local[3]", sys.executable)
    check_workers(there)
    check_workers(there)
    assert (there.asked, there.slices) == (1, 1)
    prepared_workers(here)()
    assert (here.asked, here.slices) == (1, 3)


def test_what_is_no_fault_of_the_workers_is_not_told_as_one():
    with pytest.raises(ValueError, match="the cluster is gone"):
        check_workers(Workers(ValueError("the cluster is gone")))


def test_a_zip_file_is_not_read_again_and_can_still_be_imported_from(tmp_path, monkeypatch):
    place = tmp_path / "modules.zip"
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("eventide_first.py", "number = 1")
        archive.writestr("eventide_second.py", "number = 2")
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 1)
    assert importlib.import_module("eventide_first").number == 1
    ready_for_the_next()
    assert not any(isinstance(finder, zipimporter) for finder in sys.path_importer_cache.values())
    importlib.invalidate_caches()
    assert importlib.import_module("eventide_second").number == 2


def test_modules_are_set_aside_once(monkeypatch):
    done = []
    monkeypatch.setattr(gc, "freeze", lambda: done.append("frozen"))
    monkeypatch.setattr(gc, "get_freeze_count", lambda: len(done))
    ready_for_the_next()
    ready_for_the_next()
    assert done == ["frozen"]
