"""The time of a Python worker between two tasks, made short.

Before each task PySpark has Python forget what it knows of the places that it imports from. Of a zip file (PySpark's own is one) Python
then reads the whole table of contents again, about a tenth of a second each time. After each task PySpark collects garbage, which
walks over every module that is loaded. Both cost more than a small task does.
"""

from __future__ import annotations

import gc
import sys
from zipimport import zipimporter


def ready_for_the_next() -> None:
    """Called at the end of a task: whatever the next one has to wait for is made small."""
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            # Only the finder goes. If something is imported again, another is made from the table that Python still has.
            del sys.path_importer_cache[path]
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()  # modules stay as long as the worker does; nobody need look at them again
