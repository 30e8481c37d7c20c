/** What customers do with volumes on a Kubernetes cluster. */
import { expect, test } from 'vitest'
import type { PodAddress } from '../../src/drivers/kubernetes/names.ts'
import { anyObject } from '../../src/drivers/kubernetes/objects.ts'
import { instancesPath, rentInstance, terminate, untilGone, untilStatus, type Instance } from '../harness/instance.ts'
import { succeed } from '../harness/journey.ts'
import type { KubeCluster } from '../lab/kube-cluster.ts'
import type { Customer } from '../lab/machines.ts'
import type { LabImage } from '../lab/registry-lab.ts'
import type { TestServer } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'

export interface KubeJourney {
  readonly server: TestServer
  readonly ada: Customer
  readonly cluster: KubeCluster
  readonly node: { readonly id: string }
  readonly image: LabImage
  readonly exec: (instance: Instance, ...command: string[]) => Promise<{ out: string; exit: unknown }>
  readonly addressOf: (instance: Instance) => Promise<PodAddress>
}

const rentals = '/v2/rentals'
const volumesPath = '/v2/alpha/on-demand/storage-volumes'
const signal = new AbortController().signal

export function volumeJourney(get: () => KubeJourney): void {
  test('a volume keeps its files from one rental to the next, and goes only when it is deleted', async () => {
    const { server, ada, cluster, node, image, exec, addressOf } = get()
    // The cluster is outside of the regions for storage: any price will do.
    const storage = [{ region: 'eu-north-2', perGbHourUsd: '0.0001', enabled: true }]
    await succeed(server.operator, 'PUT', '/v2/operator/price-book', { storage, reason: 'for the test' })
    const order = { region: 'eu-north-2', label: 'data', sizeInGb: 256, nodeName: node.id }
    const { storageVolumeId } = await succeed(ada.call, 'POST', volumesPath, order)
    const volume = async () => {
      const all = await succeed(ada.call, 'GET', volumesPath)
      return all.find((one: { id: number }) => one.id === storageVolumeId)
    }
    await waitFor('the volume to be active', async () => (await volume()).status === 'active')
    expect(await volume()).toMatchObject({ supports: { kinds: ['container'], attach: [], grow: true, clone: false } })
    const program = (script: string) => ({ command: ['sh', '-c', `${script}; exec sleep 1000`] })
    const volumes = [{ volumeId: storageVolumeId, path: '/data' }]
    const writer = await rentInstance(ada, node, image, { ...program('echo kept >/data/file'), volumes })
    const wrote = await untilStatus(ada, writer, 'online')
    await waitFor('the file', async () => (await exec(wrote, 'cat', '/data/file')).out === 'kept\n')
    const second = await ada.call('POST', `${instancesPath}/create`, {
      cluster_name: 'lab',
      node_name: node.id,
      gpu_count: 1,
      image,
      ...program('true'),
      volumes,
    })
    expect([second.status, second.body.reason]).toEqual([400, 'volume_in_use'])
    const plain = await rentInstance(ada, node, image, program('true'))
    const added = { storageVolumeId, path: '/data' }
    const late = await ada.call('POST', `${rentals}/${plain}/volumes`, added)
    expect([late.status, late.body.reason]).toEqual([400, 'volume_fixed'])
    for (const name of [writer, plain]) await terminate(ada, name)
    for (const name of [writer, plain]) await untilGone(ada, name)
    const readers = { ...program('cat /data/file'), volumes: [{ ...volumes[0], readOnly: true }] }
    const reader = await rentInstance(ada, node, image, readers)
    const read = await untilStatus(ada, reader, 'online')
    const tried = await exec(read, 'sh', '-c', 'cat /data/file; touch /data/more')
    expect(tried).toMatchObject({ out: expect.stringMatching(/^kept\n.*Read-only/), exit: { exitCode: 1 } })
    await terminate(ada, reader)
    await untilGone(ada, reader)
    await waitFor('the volume to be free', async () => (await volume()).attachedRentals.length === 0)
    const { namespace } = await addressOf(read)
    const claims = async () => {
      const path = `/api/v1/namespaces/${namespace}/persistentvolumeclaims`
      return (await cluster.admin.list(path, anyObject, { signal })).items.length
    }
    expect(await claims()).toBe(1)
    await succeed(ada.call, 'POST', `${volumesPath}/terminate`, { storageVolumeId })
    await waitFor('the claim to be gone', async () => (await claims()) === 0)
  })
}
