"""P63: what SkyPilot and dstack make of the files that `berth pools` prints. Each has its own packages."""

import json
import sys

result, scheduler, file = sys.argv[1:]

if scheduler == "skypilot":
    from sky.ssh_node_pools import utils

    pools = utils.load_ssh_targets(file)
    read = {name: utils.prepare_hosts_info(name, pool) for name, pool in pools.items()}
else:
    import yaml
    from dstack._internal.core.models.configurations import parse_apply_configuration

    with open(file, encoding="utf-8") as text:
        fleet = parse_apply_configuration(yaml.safe_load(text))
    read = json.loads(fleet.json())

with open(result, "w", encoding="utf-8") as out:
    json.dump(read, out)
