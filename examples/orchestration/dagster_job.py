"""Assets: the pipeline's tables catch up every hour, and are reconciled every night. For `dagster dev -f dagster_job.py`."""

import subprocess

import dagster as dg

PIPELINES = "/srv/pipelines"  # relative paths of a pipeline begin there


def run(context: dg.AssetExecutionContext, *command: str) -> None:
    """One command, its words in the log of the run; 1 and above fail it."""
    done = subprocess.run(["eventide", *command], cwd=PIPELINES, capture_output=True, text=True)
    context.log.info(done.stdout + done.stderr)
    if done.returncode:
        raise dg.Failure(f"eventide {command[0]} ended with {done.returncode}", metadata={"said": done.stderr[-2000:]})


@dg.asset(retry_policy=dg.RetryPolicy(max_retries=3, delay=300))
def upi_minutes(context: dg.AssetExecutionContext) -> None:
    """All that has arrived, judged; what is there already is not done twice."""
    run(context, "run", "upi.py", "--until-caught-up")


@dg.asset(deps=[upi_minutes])
def upi_minute_corrections(context: dg.AssetExecutionContext) -> None:
    """What came too late, beside the results."""
    run(context, "reconcile", "upi.py", "--against", "late")


defs = dg.Definitions(
    assets=[upi_minutes, upi_minute_corrections],
    schedules=[
        dg.ScheduleDefinition(name="hourly", target=upi_minutes, cron_schedule="5 * * * *"),
        dg.ScheduleDefinition(name="nightly", target=upi_minute_corrections, cron_schedule="30 2 * * *"),
    ],
)
