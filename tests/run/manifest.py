"""Holds a manifest to the models of Kubernetes' API in Debian's python3-kubernetes (API 1.22):
every field has a name and a type that the API has, and none is missing that the API requires.
Debian has neither kubeconform nor its schemas.

usage: manifest.py FILE
"""
import re
import sys

import kubernetes.client
import yaml

PLAIN = {"str": str, "int": int, "bool": bool, "object": (str, int)}


def check(value, kind, where):
    inner = re.fullmatch(r"(list|dict)\((?:str, )?(\w+)\)|list\[(\w+)\]", kind)
    if kind in PLAIN:
        assert isinstance(value, PLAIN[kind]), f"{where}: {value!r} is no {kind}"
    elif inner and kind.startswith("list"):
        assert isinstance(value, list), f"{where} is no list"
        for i, item in enumerate(value):
            check(item, inner[2] or inner[3], f"{where}[{i}]")
    elif inner:
        assert isinstance(value, dict), f"{where} is no map"
        for key, item in value.items():
            check(item, inner[2], f"{where}.{key}")
    else:
        check_model(value, getattr(kubernetes.client, kind), where)


def check_model(value, model, where):
    assert isinstance(value, dict), f"{where} is no map"
    names = {model.attribute_map[a]: a for a in model.openapi_types}
    for name, item in value.items():
        assert name in names, f"{where} has no field {name}"
        check(item, model.openapi_types[names[name]], f"{where}.{name}")
    # Refuses None where the API wants a value.
    model(**{names[name]: item for name, item in value.items()})


with open(sys.argv[1], encoding="utf-8") as f:
    documents = list(yaml.safe_load_all(f))
assert documents
for document in documents:
    group, _, version = document["apiVersion"].rpartition("/")
    assert (group, document["kind"]) in (("", "Pod"), ("apps", "DaemonSet")), document["kind"]
    check(document, version.capitalize() + document["kind"], document["kind"])
