"""What Confluent's service answered to every schema of the recorded session: its text, its refusals, its reasons."""

from __future__ import annotations

from typing import Any

from eventide.registry.compatibility import InvalidSchema, check, parse


def _parsed(request: dict[str, Any], texts: dict[str, str]) -> Any:
    references = {given["name"]: texts.get(given["subject"], "") for given in request.get("references", ())}
    return parse(request.get("schemaType", "AVRO"), request["schema"], {n: t for n, t in references.items() if t})


def test_texts_refusals_and_reasons_are_those_of_the_recorded_session(cases: Any) -> None:
    texts: dict[str, str] = {}
    stored = refused = reasons = 0
    for entry in cases("confluent_rest_transcript.json")["requests"]:
        request, answer = entry["request"], entry["response"]
        if entry["method"] != "POST" or not request or not request.get("schema"):
            continue
        message = answer.get("message", "")
        if ", details: " in message and answer.get("error_code") == 42201:
            if "No schema reference found" in message:
                continue  # the service's own: it looks for the referenced subject
            try:
                _parsed(request, texts)
            except InvalidSchema as error:
                assert message.endswith(f", details: {error}"), entry["n"]
                refused += 1
            else:
                raise AssertionError(f"request {entry['n']} was refused: {message}")
        elif "schema" in answer:
            parsed = _parsed(request, texts)
            assert parsed.canonical == answer["schema"], entry["n"]
            assert parse(parsed.kind, parsed.canonical, {}, strict=False) if not request.get("references") else True
            subject = entry["path"].split("/")[2]
            texts[subject] = answer["schema"]
            stored += 1
        elif "errorType" in message or "errorType" in str(answer.get("messages")):
            lines = message + "\n".join(answer.get("messages", ()))
            old = lines.partition("{oldSchema: '")[2].partition("'}")[0]
            new = _parsed(request, texts)
            for reason in check(new, parse(new.kind, old)):
                assert reason.verbose in lines, entry["n"]
                reasons += 1
    assert min(stored, refused, reasons) > 0
