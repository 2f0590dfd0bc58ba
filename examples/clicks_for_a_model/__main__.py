"""Make the data, run the pipeline, and say whom lateness costs: python examples/clicks_for_a_model [DIRECTORY]."""

import os
import shutil
import sys
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
import data
import plane
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from eventide.lateness import bias
from eventide.reconcile import features


def main(directory: str = "demo/clicks_for_a_model") -> None:
    """All of it, below a directory of its own."""
    shutil.rmtree(directory, ignore_errors=True)
    Path(directory).mkdir(parents=True)
    os.chdir(directory)
    data.write(Path("landing"))
    from pipeline import pipeline

    handle = pipeline.run(drain=True)
    print(f"{handle.rows['in']:,} clicks in, all accounted for")
    for name, beside in (("serving", "put aside"), ("training", "dropped")):
        counts = handle.outputs[name]
        admitted, refused = counts["rows_admitted"], counts["rows_refused"]
        print(f"  {name:<9}{counts['rows_on_time']:,} on time, {admitted:,} admitted late, {refused:,} {beside}")
    spark = SparkSession.getActiveSession()
    served = by_device(features(pipeline, spark, served="serving", trained="archive"))
    trained = by_device(features(pipeline, spark, served="serving", trained="training"))
    biased = {one.value for one in bias(pipeline.lateness().counts("device")) if one.flagged}
    print(f"  {'device':<9}{'clicks':>7}{'served without':>16}{'trained without':>17}")
    for device, (was, complete) in sorted(served.items()):
        flag = "  loses more than the others" if device in biased else ""
        missing = 1 - was / complete, 1 - trained[device][1] / complete
        print(f"  {device:<9}{complete:>7,}{missing[0]:>16.1%}{missing[1]:>17.1%}{flag}")
    title = "Clicks of phones come in bursts: what a bound of two seconds refuses"
    plane.draw(plane.archived(), {"clicks": timedelta(seconds=2)}, timedelta(minutes=1), timedelta(minutes=5), title)


def by_device(features_of_windows: DataFrame) -> dict[str, tuple[int, int]]:
    """Clicks as they were served, and as they were trained on."""
    found = features_of_windows.groupBy("device").agg(F.sum("clicks_served"), F.sum("clicks_trained")).collect()
    return {device: (was, complete) for device, was, complete in found}


if __name__ == "__main__":
    main(*sys.argv[1:])
