"""Works with a running switch through a generated client: check_client.py URL TOKEN CONFIG JOB."""

import json
import sys
from pathlib import Path

from weir_management_client import AuthenticatedClient, Client
from weir_management_client.api.configuration import apply_config, get_config, get_sonic_config
from weir_management_client.api.frames import explain_frame, watch_frames
from weir_management_client.api.health import get_health, get_readiness
from weir_management_client.api.inc import add_inc_job, end_inc_job
from weir_management_client.api.switch import get_events, get_fdb, get_history, get_index, get_metrics, get_snapshot
from weir_management_client.api.tables import get_inc, get_pfc, get_ports, get_switch
from weir_management_client.models import FdbKind, GetReadinessVerbose, Job, Problem, WatchOrder
from weir_management_client.types import File

url, token, config, job = sys.argv[1:]
stranger = Client(base_url=url)
client = AuthenticatedClient(base_url=url, token=token)

assert get_health.sync(client=stranger).endswith("ok\n")
assert get_readiness.sync(client=client, verbose=GetReadinessVerbose.TRUE).startswith("[+]")
refused = get_ports.sync_detailed(client=stranger)
assert refused.status_code == 401 and isinstance(refused.parsed, Problem), refused

ports = get_ports.sync(client=client)
assert [row.port for row in ports.ports] == ["p0", "p1", "inc0"], ports
assert isinstance(ports.ports[0].rx_packets, int) and ports.uptime_seconds > 0
one = get_pfc.sync(client=client, port="p1")
assert len(one.pfc) == 8 and {row.port for row in one.pfc} == {"p1"}
none = get_pfc.sync(client=client, port="p9")
assert isinstance(none, Problem) and none.status == 404 and none.parameter == "port", none
assert get_switch.sync(client=client).switch[0].conservation_error == 0

assert any(table.path == "/v1/ports" for table in get_index.sync(client=client).tables)
snapshot = get_snapshot.sync(client=client)
assert len(snapshot.ports) == 3 and snapshot.switch_name == ports.switch_name
assert get_history.sync(client=client).step_ms == 200
page = get_fdb.sync(client=client, limit=1)
assert page.fdb[0].type_ is FdbKind.STATIC and page.fdb[0].port == "inc0", page
while page.next_:
    page = get_fdb.sync(client=client, after=page.next_)
assert "weir_build_info" in get_metrics.sync(client=client)
assert isinstance(get_events.sync(client=client, follow=False), str)

frame = explain_frame.sync(client=client, port="p0", dscp=26, len_=1000)
assert frame.group.lossless and frame.class_.pg == 3 and frame.verdict == "admitted", frame
told = watch_frames.sync(client=client, body=WatchOrder(port="p0", count=1, timeout_ms=10_000))
assert '"event":"arrived"' in told and '"why":"count reached"' in told, told

assert any(value.key == "switch.name" for value in get_config.sync(client=client).values)
assert "PORT" in get_sonic_config.sync(client=client).additional_properties
text = Path(config).read_bytes()
dry = apply_config.sync(client=client, body=File(payload=text), dry_run=True, name="dry")
assert dry.applied is False and dry.changed == [], dry
with open(config, "rb") as file:
    done = apply_config.sync(client=client, body=File(payload=file), name=config)
assert done.applied and done.changed == [], done
wrong = apply_config.sync(client=client, body=File(payload=b"[[port]]\nname = 7\n"), name="wrong")
assert isinstance(wrong, Problem) and wrong.status == 422 and 2 in [fault.line for fault in wrong.faults], wrong



spec = Job.from_dict(json.loads(Path(job).read_text()))
added = add_inc_job.sync(client=client, body=spec)
assert added.job == 7 and added.memory_bytes > 0, added
assert [row.job for row in get_inc.sync(client=client).inc] == [7]
assert end_inc_job.sync(client=client, id=7).port == "inc0"
assert end_inc_job.sync(client=client, id=8).status == 404
print("everything as the types say")
