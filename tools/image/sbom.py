"""Writes the software bill of materials of this environment: CycloneDX 1.5, from the installed distributions.

    /opt/oncelog/bin/python sbom.py > sbom.cdx.json

Owns: the document. What the base image brings is not in it: its own bill has that.
"""

import json
import platform
import sys
from importlib import metadata


def component(found: metadata.Distribution) -> dict[str, object]:
    name, version = found.metadata["Name"], found.version
    described: dict[str, object] = {
        "type": "library",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name.lower().replace('_', '-')}@{version}",
    }
    licence = found.metadata.get("License-Expression") or found.metadata.get("License")
    if licence and "\n" not in licence:
        described["licenses"] = [{"license": {"name": licence}}]
    return described


def main() -> None:
    components = sorted(map(component, metadata.distributions()), key=lambda each: str(each["name"]).lower())
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": "oncelog", "version": metadata.version("oncelog")}},
        "components": [
            *components,
            {"type": "platform", "name": "cpython", "version": platform.python_version()},
        ],
    }
    json.dump(document, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
