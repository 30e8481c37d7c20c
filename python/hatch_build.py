"""
Writes the generated part of the package before it is packed. In a checkout the contract's generator does that with Node; an
sdist has it already.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

GENERATED = "src/berth_client/_generated/operations.py"


class GeneratedCode(BuildHookInterface):  # type: ignore[type-arg]
    """The build hook of pyproject.toml."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        checkout = os.path.dirname(self.root)
        generator = os.path.join(checkout, "scripts", "write-python.ts")
        if not os.path.exists(generator):
            if not os.path.exists(os.path.join(self.root, GENERATED)):
                raise RuntimeError("The generated code is missing: build from a checkout of Berth or from an sdist")
            return
        node = shutil.which("node")
        if node is None or not os.path.isdir(os.path.join(checkout, "node_modules", "tsx")):
            raise RuntimeError("Building from a checkout needs Node 20.19 or newer, and `npm ci` in the checkout")
        subprocess.run([node, "--import", "tsx", generator], cwd=checkout, check=True)
