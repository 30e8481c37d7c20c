/**
 * Virtual machines, against the real API server with definitions of KubeVirt's kinds. They have the fields that Berth
 * uses, written for this test; KubeVirt itself does not run, so the test writes the states that it would write.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { readExternalId } from '../../src/drivers/kubernetes/names.ts'
import { anyObject } from '../../src/drivers/kubernetes/objects.ts'
import { virtualMachinePath } from '../../src/drivers/kubernetes/virtual-machine.ts'
import type { KubeCluster } from '../lab/kube-cluster.ts'
import { openDriver, orderOn, type OpenDriver } from '../lab/kube-driver.ts'
import { mergePatch } from '../harness/kube-merge.ts'
import { waitFor } from '../harness/wait.ts'

const signal = new AbortController().signal
const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
const machineObject = z.object({
  metadata: z.object({ uid: z.string() }),
  spec: z.object({
    template: z.object({
      spec: z.object({ domain: z.object({ devices: z.object({ gpus: z.array(z.unknown()) }) }) }),
    }),
  }),
})
const secretObject = z.object({
  metadata: z.object({ ownerReferences: z.array(z.looseObject({ kind: z.string() })) }),
  data: z.object({ userdata: z.string() }),
})

export function virtualMachineSuite(get: () => KubeCluster): void {
  describe('virtual machines by KubeVirt', () => {
    let opened: OpenDriver
    beforeAll(async () => {
      for (const [kind, plural] of [
        ['VirtualMachine', 'virtualmachines'],
        ['VirtualMachineInstance', 'virtualmachineinstances'],
      ] as const)
        await get().admin.create(definitions, definitionOf(kind, plural), anyObject, { signal })
      await waitFor('the definitions', async () => {
        const found = await get().admin.find('/apis/kubevirt.io/v1/virtualmachineinstances', z.unknown(), { signal })
        return found !== undefined
      })
      opened = await openDriver(get(), {
        virtualMachines: { image: 'registry.example/disks/debian:12', user: 'debian' },
      })
    })
    afterAll(() => opened.close())

    const order = () =>
      orderOn(get(), opened.config, { kind: 'virtual-machine', gpuCount: 2, sshKeys: ['ssh-ed25519 AAAA ada'] })
    const addressOf = (externalId: string) => readExternalId(externalId) ?? { namespace: '', name: '' }
    /** As KubeVirt would report it. */
    const report = (at: { namespace: string; name: string }, printableStatus: string) =>
      mergePatch(get(), `${virtualMachinePath(at)}/status`, { status: { printableStatus } })
    const namespaceOfOrders = async (): Promise<string | undefined> => {
      const { items } = await get().admin.list('/apis/kubevirt.io/v1/virtualmachines', anyObject, { signal })
      return items[0]?.metadata.namespace
    }
    /** Creates one, and reports a state as soon as it exists. */
    const create = async (tag: string, printableStatus: string) => {
      const making = opened.driver.create(tag, order(), signal)
      const namespace = await waitFor('the machine', namespaceOfOrders)
      await report({ namespace, name: tag }, printableStatus)
      return making
    }

    test('nodes are sold for them where KubeVirt runs', async () => {
      expect(await opened.driver.inventory(signal)).toEqual([])
      const path = `/api/v1/nodes/${get().node.name}`
      await mergePatch(get(), path, { metadata: { labels: { 'kubevirt.io/schedulable': 'true' } } })
      const isSold = async () => (await opened.driver.inventory(signal))[0]
      expect(await waitFor('the node', isSold)).toMatchObject({
        offering: 'virtual-machine',
        gpuType: 'h100',
        priceUsdPerGpuHour: null,
        gpusTotal: 4,
      })
    })

    test('a rental is a machine with its GPUs and keys, which goes with all that belongs to it', async () => {
      const { admin } = get()
      const { driver } = opened
      const tag = 'berth-vm-1-c0ffee00'
      const made = await create(tag, 'Starting')
      if (made.kind !== 'created') throw new Error(made.message)
      expect(await driver.create(tag, order(), signal)).toEqual(made)
      const at = addressOf(made.externalId)
      const machine = await admin.get(virtualMachinePath(at), machineObject, { signal })
      const gpu = { deviceName: 'nvidia.com/gpu' }
      expect(machine.spec.template.spec.domain.devices.gpus).toMatchObject([gpu, gpu])
      const secretPath = `/api/v1/namespaces/${at.namespace}/secrets/${at.name}`
      const secret = await admin.get(secretPath, secretObject, { signal })
      expect(secret.metadata.ownerReferences).toMatchObject([{ kind: 'VirtualMachine', uid: machine.metadata.uid }])
      expect(Buffer.from(secret.data.userdata, 'base64').toString()).toMatch(/^#cloud-config\n.*"ssh-ed25519 AAAA ada"/)
      const state = async () => (await driver.list(tag, signal))[0]
      expect(await state()).toMatchObject({ state: 'starting' })
      const instances = `/apis/kubevirt.io/v1/namespaces/${at.namespace}/virtualmachineinstances`
      await admin.create(
        instances,
        { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstance', metadata: { name: at.name } },
        anyObject,
        { signal },
      )
      const interfaces = [{ ipAddress: '10.1.2.3' }]
      const status = { phase: 'Running', nodeName: get().node.name, interfaces }
      await mergePatch(get(), `${instances}/${at.name}/status`, { status })
      expect(await state()).toMatchObject({
        state: 'running',
        data: { sshNetworking: [{ host: '127.0.0.1', port: 40_000, user: 'debian' }] },
      })
      await mergePatch(get(), `${instances}/${at.name}/status`, { status: { phase: 'Failed' } })
      expect(await state()).toMatchObject({ state: 'failed', failure: 'crashed' })
      await driver.destroy(made.externalId, signal)
      expect(await state()).toBeUndefined()
      expect(await admin.find(secretPath, anyObject, { signal })).toBeUndefined()
      await driver.destroy(made.externalId, signal)
      await admin.delete(`${instances}/${at.name}`, { signal })
    })

    test('a machine that finds no room is refused, and nothing of it is left', async () => {
      const outcome = await create('berth-vm-2-c0ffee00', 'ErrorUnschedulable')
      expect(outcome).toMatchObject({ kind: 'refused', reason: 'no_capacity' })
      expect(await opened.driver.list('berth-vm-', signal)).toEqual([])
    })
  })
}

function definitionOf(kind: string, plural: string) {
  const text = { type: 'string' }
  const open = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }
  const fields = (properties: object) => ({ type: 'object', properties })
  const domain = fields({
    cpu: fields({ cores: { type: 'integer', minimum: 1 } }),
    memory: fields({ guest: text }),
    devices: fields({
      gpus: { type: 'array', items: { ...fields({ name: text, deviceName: text }), required: ['name', 'deviceName'] } },
      disks: { type: 'array', items: open },
      interfaces: { type: 'array', items: open },
    }),
  })
  const guest = fields({
    domain,
    affinity: open,
    tolerations: { type: 'array', items: open },
    terminationGracePeriodSeconds: { type: 'integer' },
    evictionStrategy: text,
    networks: { type: 'array', items: open },
    volumes: { type: 'array', items: open },
  })
  const strategies = ['Always', 'RerunOnFailure', 'Manual', 'Halted', 'Once']
  const ofMachine = fields({
    runStrategy: { ...text, enum: strategies },
    template: fields({ metadata: open, spec: guest }),
  })
  const schema = fields({ spec: kind === 'VirtualMachine' ? ofMachine : guest, status: open })
  return {
    metadata: { name: `${plural}.kubevirt.io` },
    spec: {
      group: 'kubevirt.io',
      scope: 'Namespaced',
      names: { kind, plural, singular: kind.toLowerCase() },
      versions: [
        { name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: schema }, subresources: { status: {} } },
      ],
    },
  }
}
