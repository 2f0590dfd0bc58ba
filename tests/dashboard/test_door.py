"""Who is let in, and what a browser may send: no token, no page; no name of another machine; nothing becomes a path."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.dashboard.at_work import AtWork, place_of

from eventide.dashboard.app import Board, application
from eventide.dashboard.watched import Place

TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Board:
    work = AtWork(tmp_path_factory.mktemp("door"))
    work.batch({"north": [1, 2], "south": [10, 20]}, 80)
    made = Board([place_of(work)])
    for one in made.watched:
        one.look()
    return made


def client(board: Board, token: str | None = None, host: str = "127.0.0.1:8090", peer: str = "127.0.0.1") -> TestClient:
    return TestClient(application(board, token), base_url=f"http://{host}", client=(peer, 5000), follow_redirects=False)


@pytest.mark.parametrize("path", ["/", "/api/board", "/api/pipelines/0", "/metrics", "/events", "/assets/board.js"])
def test_without_the_token_nothing_is_told(board: Board, path: str) -> None:
    assert client(board, TOKEN, "board.example", "10.0.0.7").get(path).status_code == 401
    wrong = {"authorization": "Bearer wrong", "cookie": "eventide_token=wrong"}
    assert client(board, TOKEN, "board.example", "10.0.0.7").get(path, headers=wrong).status_code == 401


def test_the_token_lets_in_and_leaves_the_address(board: Board) -> None:
    visitor = client(board, TOKEN, "board.example", "10.0.0.7")
    answer = visitor.get("/", params={"token": TOKEN})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert "HttpOnly" in answer.headers["set-cookie"] and "samesite=strict" in answer.headers["set-cookie"].lower()
    assert visitor.get("/api/pipelines/0").json()["facts"]["pipeline"] == "payments"
    assert (
        client(board, TOKEN, "x", "10.0.0.7").get("/metrics", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    )


@pytest.mark.parametrize("host", ["elsewhere.example", "elsewhere.example:8090", "127.0.0.1.elsewhere.example"])
def test_a_name_that_was_made_to_point_here_is_refused(board: Board, host: str) -> None:
    assert client(board, host=host).get("/api/board").status_code == 403
    assert client(board, host="localhost:8090").get("/api/board").status_code == 200


def test_another_machine_is_refused_where_there_is_no_token(board: Board) -> None:
    assert client(board, peer="10.0.0.7").get("/api/board").status_code == 403


@pytest.mark.parametrize(
    "path",
    ["/assets/..%2f..%2fapp.py", "/assets/LICENSE.uPlot", "/api/pipelines/99", "/api/pipelines/-1", "/api/pipelines/0/windows/9/0/1",
     "/api/pipelines/0/windows/0/1e9/2", "/api/pipelines/0/windows/0/9999999999999999999999/2", "/api/schemas/0"],
)  # fmt: skip
def test_what_is_not_there_is_not_there(board: Board, path: str) -> None:
    assert client(board).get(path).status_code == 404


def test_every_answer_says_what_a_browser_may_do(board: Board) -> None:
    for path in ("/", "/api/board", "/nowhere"):
        headers = client(board).get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"] and "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_a_state_that_cannot_be_read_is_told_and_holds_up_no_other(board: Board, tmp_path: Path) -> None:
    both = Board([board.places[0], Place(str(tmp_path), "gone")])
    for one in both.watched:
        one.look()
    visitor = client(both)
    assert visitor.get("/api/pipelines/0").json()["fault"] is None
    assert "has committed nothing" in visitor.get("/api/pipelines/1").json()["fault"]
    assert visitor.get("/readyz").status_code == 503 and visitor.get("/healthz").status_code == 200
