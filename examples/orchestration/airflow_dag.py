"""A DAG: catch up every hour, reconcile every night. Put it where Airflow looks for DAGs, and say where the pipelines are."""

from datetime import datetime, timedelta

from airflow import DAG
from airflow.providers.standard.operators.bash import BashOperator

PIPELINES = (
    "/srv/pipelines"  # relative paths of a pipeline begin there; without `cwd` Airflow would run each task in a new directory
)

with DAG(
    "upi_hourly",
    schedule="5 * * * *",
    start_date=datetime(2026, 11, 1),  # noqa: DTZ001 (Airflow takes it in its own zone)
    catchup=False,  # a run reads whatever is there: hours that were missed need no runs of their own
    max_active_runs=1,  # one at a time holds the state; a second one would be refused
    default_args={
        "retries": 3,
        "retry_delay": timedelta(minutes=5),
    },  # a batch that was not committed is done again, and doubles nothing
):
    BashOperator(task_id="validate", bash_command="eventide validate upi.py", cwd=PIPELINES) >> BashOperator(
        task_id="catch_up", bash_command="eventide run upi.py --until-caught-up", cwd=PIPELINES
    )

with DAG("upi_nightly", schedule="30 2 * * *", start_date=datetime(2026, 11, 1), catchup=False, max_active_runs=1):  # noqa: DTZ001
    BashOperator(task_id="reconcile", bash_command="eventide reconcile upi.py --against late", cwd=PIPELINES, retries=1)
