"""What `import eventide as ev` offers: every name, and none of what is behind it before it is asked for."""

import subprocess
import sys

import eventide as ev
from eventide.lateness.measured import Lateness
from eventide.tuning.tune import tune


def test_every_name_that_is_offered_is_there():
    assert [name for name in ev.__all__ if not hasattr(ev, name)] == []
    assert set(ev.__all__) <= set(dir(ev))


def test_history_and_lateness_are_asked_from_the_top():
    assert ev.tune is tune
    assert ev.lateness.Lateness is Lateness


def test_to_import_it_brings_neither_polars_nor_spark_and_to_define_a_pipeline_no_engine():
    code = """
import sys, eventide as ev
assert not {"polars", "pyarrow", "pyspark"} & set(sys.modules)
ev.Pipeline, ev.files
assert not [name for name in sys.modules if name.startswith(("pyspark", "eventide.engine", "eventide.tuning", "eventide.lateness"))]
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
