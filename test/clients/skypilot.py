"""SkyPilot's own provisioner against a server: launches a cluster, looks at it, launches it again, and ends it."""
import json
import sys

from sky.provision import common, hyperbolic
from sky.provision.hyperbolic import utils
from sky.utils import status_lib

result, utils.BASE_URL, cluster, instance_type = sys.argv[1:]

config = common.ProvisionConfig(
    provider_config={},
    authentication_config={},
    docker_config={},
    node_config={'InstanceType': instance_type},
    count=1,
    tags={},
    resume_stopped_nodes=False,
    ports_to_open_on_launch=None,
)


def launch():
    record = hyperbolic.run_instances('default', cluster, cluster, config)
    return {'head': record.head_instance_id, 'created': record.created_instance_ids}


def query():
    found = hyperbolic.query_instances(cluster, cluster)
    return {name: status.value for name, (status, _) in found.items()}


first = launch()
hyperbolic.wait_instances('default', cluster, status_lib.ClusterStatus.UP)
up = query()
head = hyperbolic.get_cluster_info('default', cluster).get_head_instance()
second = launch()
hyperbolic.terminate_instances(cluster)
with open(result, 'w', encoding='utf-8') as file:
    json.dump({
        'first': first,
        'up': up,
        'host': head.external_ip,
        'port': head.ssh_port,
        'second': second,
        'down': query(),
    }, file)
