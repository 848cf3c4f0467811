"""What schemathesis does not know of the API by itself (docs/management.md#clients)."""

import json

import jsonschema_rs
import schemathesis

# ms. Streams are read to their end, and one of a minute is no better than one of this time.
LONGEST_WATCH = 20


@schemathesis.serializer("application/toml")
def toml(_context, value):
    """A configuration is sent as the text it is."""
    return value if isinstance(value, (str, bytes)) else str(value)


@schemathesis.deserializer("application/x-ndjson")
def text(_context, response):
    """Lines are a text to the document; `each_line_has_its_type` looks into it."""
    return response.content.decode()


@schemathesis.hook
def before_call(_context, case, _kwargs):
    """Streams that would go on are told to end. Values that are wrong stay as they are."""
    if case.path == "/v1/events" and str((case.query or {}).get("follow", "true")).lower() == "true":
        case.query = {**(case.query or {}), "follow": "false"}
    if case.path == "/v1/watch" and isinstance(case.body, dict):
        time = case.body.get("timeout_ms")
        whole = isinstance(time, (int, float)) and not isinstance(time, bool) and time == int(time)
        if time is None or whole and LONGEST_WATCH < time <= 86_400_000:
            case.body["timeout_ms"] = LONGEST_WATCH


@schemathesis.check
def each_line_has_its_type(_context, response, case):
    """Each line of an answer in NDJSON fits the schema that the document has for it."""
    media = response.headers.get("content-type", [""])[0]
    if media != "application/x-ndjson":
        return
    root = case.operation.schema.raw_schema
    content = root["paths"][case.path][case.method.lower()]["responses"]["200"]["content"]
    schema = {**content[media]["schema"]["contentSchema"], "components": root["components"]}
    validator = jsonschema_rs.validator_for(schema)
    for line in response.content.decode().splitlines():
        if line:
            validator.validate(json.loads(line))
