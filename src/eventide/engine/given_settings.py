"""Spark's settings as they were given from outside: by spark-submit, or in spark-defaults.conf."""

from __future__ import annotations

import os
import re
from pathlib import Path

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set in programs that spark-submit has started: the JVM is there before them."""


def is_submitted() -> bool:
    """Whether spark-submit has started this program."""
    return SUBMITTED in os.environ


def given_settings() -> dict[str, str]:
    """What holds before this program says anything; it is the user's, so that no default of ours may take its place."""
    if not is_submitted():
        file = _defaults_file()
        return read_defaults(file.read_text(encoding="utf-8")) if file.is_file() else {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def read_defaults(text: str) -> dict[str, str]:
    r"""The settings in the text of a spark-defaults.conf: a name, then a blank or an equals sign, then the value.

    >>> read_defaults("# ours\nspark.ui.enabled  true\nspark.driver.extraJavaOptions=-Da=b\n")
    {'spark.ui.enabled': 'true', 'spark.driver.extraJavaOptions': '-Da=b'}
    """
    found = {}
    for line in text.splitlines():
        parts = re.match(r"\s*([^#!\s=:][^\s=:]*)\s*[\s=:]\s*(.*?)\s*$", line)
        if parts and parts[1].startswith("spark."):
            found[parts[1]] = parts[2]
    return found


def _defaults_file() -> Path:
    if folder := os.environ.get("SPARK_CONF_DIR"):
        return Path(folder) / "spark-defaults.conf"
    import pyspark

    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "conf" / "spark-defaults.conf"
