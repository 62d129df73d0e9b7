"""Holds what `npuctl metrics` prints: read by the parser of prometheus_client, with the values of
a client that the calling test knows, and with every metric that the dashboard asks for. Where
promtool is installed (package prometheus), it has nothing to say of the names.

usage: metrics.py DASHBOARD NPUCTL <metrics
"""
import json
import re
import shutil
import subprocess
import sys

from prometheus_client import parser
from prometheus_client.openmetrics.parser import text_string_to_metric_families

families = list(text_string_to_metric_families(sys.stdin.read()))
samples = {}
for family in families:
    assert family.documentation and family.name.startswith("npud"), family
    for sample in family.samples:
        key = (sample.name, tuple(sorted(sample.labels.items())))
        assert key not in samples, f"twice: {key}"
        samples[key] = sample.value


def value(name, **labels):
    return samples[(name, tuple(sorted(labels.items())))]


# The format before OpenMetrics has the same samples, each in a family that has a type. What a
# device says of itself is the answer to the question before, so it may be in the second one alone.
of_itself = ("npud_device_temperature_", "npud_device_power_", "npud_device_memory_errors")
text = subprocess.run([sys.argv[2], "metrics", "--text"], capture_output=True, check=True,
                      text=True).stdout
others = [f for f in parser.text_string_to_metric_families(text) if f.type and f.documentation]
assert {f.type for f in others} == {"gauge", "counter", "histogram"} and "# EOF" not in text
told = {(s.name, tuple(sorted(s.labels.items()))) for f in others for s in f.samples}
other = {sample for sample in told ^ set(samples) if not sample[0].startswith(of_itself)}
assert not other, other
if shutil.which("promtool"):
    said = subprocess.run(["promtool", "check", "metrics"], capture_output=True, check=False,
                          input=text, text=True)
    assert said.returncode == 0 and not said.stderr, said
else:
    print("SKIPPED promtool check metrics: there is no promtool (package prometheus)")

names = {name for name, _ in samples}
with open(sys.argv[1], encoding="utf-8") as file:
    asked = [t["expr"] for p in json.load(file)["panels"] for t in p["targets"]]
for expr in asked:
    wanted = re.findall(r"\bnpud_\w+", expr)
    assert wanted, expr
    for name in wanted:
        assert name in names, f"the dashboard asks for {name}, which is not there"

assert value("npud_up") == 1 and value("npud_sessions") == 1
assert value("npud_device_streams", device="0") == 3 and value("npud_device_up", device="1") == 1
assert value("npud_device_memory_bytes", device="0") >= 4096
assert value("npud_deaths_total") == 1 and value("npud_restarts_total") == 0
refused = {dict(labels)["reason"]: n for (name, labels), n in samples.items()
           if name == "npud_refusals_total"}
assert refused == {"device_memory": 1}, refused
users = {name: n for (name, labels), n in samples.items() if dict(labels).keys() == {"uid"}}
assert users == {"npud_user_queues": 1, "npud_user_queues_full": 0,
                 "npud_user_queue_messages": 1}, users
limits = {name: n for (name, labels), n in samples.items()
          if dict(labels).get("resource") == "memory_exports"}
assert limits == {"npud_user_objects": 0, "npud_user_objects_limit": 8192}, limits
assert value("npud_streams", state="waiting") == 1 and value("npud_streams", state="other") == 0
assert value("npud_wait_age_seconds_gcount") == 1
assert value("npud_wait_age_seconds_bucket", le="3600.0") == 1
