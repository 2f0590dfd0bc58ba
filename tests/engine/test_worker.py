"""What a worker does for its next task."""

import gc
import importlib
import sys
import zipfile
from zipimport import zipimporter

from eventide.engine.worker import ready_for_the_next


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
