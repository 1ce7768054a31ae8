"""Writes the space of a built-in CUDA family as T1 JSON from the lists in its script."""
import json
import re


def write(name, knobs, constraints):
    """`knobs`: (name, type, values, default or None); `constraints`: (expression, reason)."""
    names = [knob[0] for knob in knobs]

    def parameter(knob):
        entry = dict(zip(("Name", "Type", "Values", "Default"), knob))
        return entry if entry["Default"] is not None else {key: entry[key] for key in ("Name", "Type", "Values")}

    def condition(expression, reason):
        used = [name for name in names if re.search(r"\b" + name + r"\b", expression)]
        return {"Expression": expression, "Parameters": used, "Reason": reason}

    print(json.dumps({
        "General": {"BenchmarkName": name, "OutputFormat": "JSON"},
        "ConfigurationSpace": {
            "TuningParameters": [parameter(knob) for knob in knobs],
            "Conditions": [condition(*constraint) for constraint in constraints],
        },
        "KernelSpecification": {"Language": "CUDA", "KernelName": name, "KernelFile": f"kernels/cuda/{name}.cuh"},
    }, indent=2))
