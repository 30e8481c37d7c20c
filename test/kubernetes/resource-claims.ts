/**
 * GPUs by resource claims, against the real API server, scheduler and controllers. There is no driver on the node, so a
 * pod is scheduled and its claim allocated, but its container never starts.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { resourceClaimPath } from '../../src/drivers/kubernetes/devices.ts'
import { podPath, readExternalId } from '../../src/drivers/kubernetes/names.ts'
import { anyObject, podObject } from '../../src/drivers/kubernetes/objects.ts'
import { GPU_PRODUCT, type KubeCluster } from '../lab/kube-cluster.ts'
import { openDriver, orderOn, type OpenDriver } from '../lab/kube-driver.ts'
import { waitFor } from '../harness/wait.ts'

const signal = new AbortController().signal
const DRIVER = 'gpu.lab.test'
const api = '/apis/resource.k8s.io/v1'
const owned = z.object({ metadata: z.object({ ownerReferences: z.array(z.looseObject({ kind: z.string() })) }) })

export function resourceClaimSuite(get: () => KubeCluster): void {
  describe('GPUs by resource claims', () => {
    let opened: OpenDriver
    beforeAll(async () => {
      const { admin, node } = get()
      const expression = `device.driver == '${DRIVER}'`
      const selectors = [{ cel: { expression } }]
      const deviceClass = { metadata: { name: DRIVER }, spec: { selectors } }
      await admin.create(`${api}/deviceclasses`, deviceClass, anyObject, { signal })
      const device = (n: number) => ({
        name: `gpu-${n}`,
        attributes: { productName: { string: GPU_PRODUCT.replaceAll('-', ' ') } },
        capacity: { memory: { value: '80Gi' } },
        ...(n === 3 ? { taints: [{ key: 'lab/sick', effect: 'NoSchedule' }] } : {}),
      })
      const pool = { name: node.name, generation: 1, resourceSliceCount: 1 }
      const spec = { driver: DRIVER, nodeName: node.name, pool, devices: [0, 1, 2, 3].map(device) }
      await admin.create(`${api}/resourceslices`, { metadata: { name: 'lab' }, spec }, anyObject, { signal })
      opened = await openDriver(get(), { dra: { deviceClass: DRIVER } })
    })
    afterAll(async () => {
      await opened.close()
      await get().admin.delete(`${api}/resourceslices/lab`, { signal })
    })
    const unsold = async (): Promise<readonly number[] | undefined> => {
      const [machine] = await opened.driver.inventory(signal)
      return machine !== undefined && 'gpusSick' in machine ? machine.gpusSick : undefined
    }

    test('a node has the devices of its slices, less sick ones and those that others have', async () => {
      const { admin } = get()
      const inventory = await opened.driver.inventory(signal)
      expect(inventory).toMatchObject([{ gpusTotal: 4, gpusSick: [3], gpuRamMib: 81_920, gpuType: 'h100' }])
      const exactly = { deviceClassName: DRIVER }
      const claim = { metadata: { name: 'other' }, spec: { devices: { requests: [{ name: 'g', exactly }] } } }
      await admin.create(`${api}/namespaces/default/resourceclaims`, claim, anyObject, { signal })
      const { name, tag } = get().registry.images.busybox
      const pod = {
        metadata: { name: 'other-claim', namespace: 'default' },
        spec: {
          terminationGracePeriodSeconds: 1,
          resourceClaims: [{ name: 'g', resourceClaimName: 'other' }],
          containers: [{ name: 'main', image: `${name}:${tag}`, resources: { claims: [{ name: 'g' }] } }],
        },
      }
      await admin.create('/api/v1/namespaces/default/pods', pod, anyObject, { signal })
      await waitFor('one GPU less', async () => (await unsold())?.join() === '2,3')
      await admin.delete('/api/v1/namespaces/default/pods/other-claim', { signal })
      await waitFor('the GPU to be back', async () => (await unsold())?.join() === '3')
      await admin.delete(resourceClaimPath({ namespace: 'default', name: 'other' }), { signal })
    })

    test('a rental has one claim, which the scheduler fills, its pod owns, and its end removes', async () => {
      const { admin } = get()
      const { driver, config } = opened
      const order = orderOn(get(), config, { gpuCount: 2 })
      const made = await driver.create('berth-dra-1-c0ffee00', order, signal)
      if (made.kind !== 'created') throw new Error(made.message)
      const address = readExternalId(made.externalId) ?? { namespace: '', name: '' }
      const pod = await admin.get(podPath(address), podObject, { signal })
      const claim = await admin.get(resourceClaimPath(address), owned, { signal })
      expect(claim.metadata.ownerReferences).toMatchObject([{ kind: 'Pod', uid: pod.metadata.uid }])
      // Ours are claimed in the database, and not taken twice.
      expect(await unsold()).toEqual([3])
      expect(await driver.create('berth-dra-1-c0ffee00', order, signal)).toEqual(made)
      const full = await driver.create('berth-dra-2-c0ffee00', order, signal)
      expect(full).toMatchObject({ kind: 'refused', reason: 'no_capacity' })
      await driver.destroy(made.externalId, signal)
      await waitFor('pod and claim to be gone', async () => {
        const claims = await admin.list(`${api}/resourceclaims`, anyObject, { signal })
        return claims.items.length === 0 && (await driver.list('berth-dra-', signal)).length === 0
      })
    })

    test('an account gets no more devices than its quota', async () => {
      const limited = await openDriver(get(), { dra: { deviceClass: DRIVER }, quota: { gpus: 1 } })
      const order = orderOn(get(), limited.config)
      expect(await limited.driver.create('berth-dra-3-c0ffee00', order, signal)).toMatchObject({ kind: 'created' })
      const outcome = await limited.driver.create('berth-dra-4-c0ffee00', order, signal)
      expect(outcome).toMatchObject({ kind: 'refused', reason: 'no_capacity' })
      await limited.close()
    })
  })
}
