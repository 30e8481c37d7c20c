/** Settings of a cluster, and troubles of the outside world, each on the real cluster. */
import { writeFile } from 'node:fs/promises'
import { afterEach, describe, expect, test } from 'vitest'
import { addMs, HOUR_MS, systemClock } from '../../src/base/instant.ts'
import type { DriverMachine } from '../../src/drivers/driver.ts'
import { Cluster } from '../../src/drivers/kubernetes/cluster.ts'
import { kubernetesDriver } from '../../src/drivers/kubernetes/driver.ts'
import { readKubeconfig } from '../../src/drivers/kubernetes/kubeconfig.ts'
import { externalIdOf, namespaceOf, podPath, readExternalId } from '../../src/drivers/kubernetes/names.ts'
import { anyObject, podObject } from '../../src/drivers/kubernetes/objects.ts'
import type { KubeCluster } from '../lab/kube-cluster.ts'
import { openDriver, orderOn, type OpenDriver } from '../lab/kube-driver.ts'
import { mergePatch } from '../harness/kube-merge.ts'
import { startPrivateRegistry } from '../lab/private-registry.ts'
import { waitFor } from '../harness/wait.ts'

const signal = new AbortController().signal

export function settingSuite(get: () => KubeCluster): void {
  describe('settings of a cluster', () => {
    let opened: OpenDriver | undefined
    afterEach(async () => {
      await opened?.close()
      opened = undefined
    })
    let tags = 0
    /** Its state once it no longer starts. */
    const start = async (
      { driver, config }: OpenDriver,
      overrides: Parameters<typeof orderOn>[2] = {},
    ): Promise<DriverMachine> => {
      const tag = `berth-settings-${(tags += 1)}-c0ffee00`
      const outcome = await driver.create(tag, orderOn(get(), config, overrides), signal)
      if (outcome.kind !== 'created') throw new Error(`${outcome.kind}: ${outcome.message}`)
      return waitFor('an end of its start', async () => {
        const [machine] = await driver.list(tag, signal)
        return machine?.state !== 'starting' && machine
      })
    }

    test('a private registry gives its images only to those who log in', async () => {
      const cluster = get()
      const registry = await startPrivateRegistry(cluster)
      try {
        const image = { name: `${registry.address}/lab/busybox`, tag: '1' }
        const settings = { images: { allowedRegistries: [registry.address] } }
        opened = await openDriver(cluster, settings)
        expect(await start(opened, { image })).toMatchObject({ state: 'failed', failure: 'registry_refused' })
        await opened.close()
        const login = { server: registry.address, username: registry.username, password: registry.password }
        opened = await openDriver(cluster, settings, { program: { registry: login } })
        const machine = await start(opened, { image })
        expect(machine).toMatchObject({ state: 'running' })
        const { namespace = '', name = '' } = readExternalId(machine.externalId) ?? {}
        const secret = `/api/v1/namespaces/${namespace}/secrets/${name}-pull`
        await cluster.admin.get(secret, anyObject, { signal })
        await opened.driver.destroy(machine.externalId, signal)
        expect(await cluster.admin.find(secret, anyObject, { signal })).toBeUndefined()
      } finally {
        await registry.close()
      }
    })

    test('pods have the runtime class, and one that is not there refuses them', async () => {
      const { admin } = get()
      const body = { metadata: { name: 'lab' }, handler: 'runc' }
      await admin.create('/apis/node.k8s.io/v1/runtimeclasses', body, anyObject, { signal })
      opened = await openDriver(get(), { runtimeClass: 'lab' })
      expect(await start(opened)).toMatchObject({ state: 'running' })
      await opened.close()
      opened = await openDriver(get(), { runtimeClass: 'absent' })
      const outcome = await opened.driver.create('berth-class-1-c0ffee00', orderOn(get(), opened.config), signal)
      expect(outcome).toMatchObject({ kind: 'refused', reason: 'engine_failure' })
      expect(await opened.driver.list('berth-class-', signal)).toEqual([])
    })

    test('the level restricted runs images of other users, and refuses those of root', async () => {
      const { registry } = get()
      const layers = [registry.busyboxLayer]
      const image = await registry.push('lab/user', '1', layers, ['/bin/sleep', '1000'], { User: '1000:1000' })
      opened = await openDriver(get(), { podSecurity: 'restricted', namespacePrefix: 'strict' })
      expect(await start(opened, { image })).toMatchObject({ state: 'running' })
      expect(await start(opened)).toMatchObject({ state: 'failed', failure: 'image_refused' })
    })

    test('a node that counts disk space limits that of pods', async () => {
      const { admin, node } = get()
      const count = (amounts: object) => {
        const gpus = { 'nvidia.com/gpu': '4' }
        const status = { capacity: gpus, allocatable: { ...gpus, ...amounts } }
        const body = { apiVersion: 'v1', kind: 'Node', metadata: { name: node.name }, status }
        return admin.apply(`/api/v1/nodes/${node.name}/status`, body, anyObject, { signal })
      }
      await count({ 'ephemeral-storage': '50G' })
      opened = await openDriver(get())
      const { driver, config } = opened
      const large = orderOn(get(), config, { resources: { ...orderOn(get(), config).resources, storageGb: 60 } })
      const outcome = await driver.create('berth-disk-1-c0ffee00', large, signal)
      expect(outcome).toMatchObject({ kind: 'refused', reason: 'no_capacity' })
      await count({})
    })

    test('a token that is replaced in its file is used at once when the old one is rejected', async () => {
      const { kubeconfig, tokenFile } = await get().berthConfig()
      const token = await get().newToken()
      await writeFile(tokenFile, `${token.slice(0, -8)}AAAAAAAA`)
      opened = await openDriver(get())
      const { config } = opened
      const cluster = new Cluster({ config, access: await readKubeconfig(kubeconfig), ...quiet })
      try {
        await expect(cluster.version(signal)).rejects.toMatchObject({ status: 401 })
        await writeFile(tokenFile, token)
        expect(await cluster.version(signal)).toMatch(/^v1\./)
      } finally {
        await cluster.close()
      }
    })

    test('clocks that differ by an hour change no state', async () => {
      for (const ms of [-HOUR_MS, HOUR_MS]) {
        opened = await openDriver(get(), {}, { clock: { now: () => addMs(systemClock.now(), ms) } })
        expect(await start(opened)).toMatchObject({ state: 'running' })
        await opened.close()
      }
    })

    test('a namespace that is stuck in its removal holds up its own account only', async () => {
      const cluster = get()
      opened = await openDriver(cluster, {}, { account: 'acc_Stuck' })
      const { driver, config } = opened
      const name = namespaceOf('berth', 'acc_Stuck')
      const tag = 'berth-stuck-1-c0ffee00'
      const body = { metadata: { name, labels: { 'berth/account': 'acc_Stuck' }, finalizers: ['berth.test/stuck'] } }
      await cluster.admin.create('/api/v1/namespaces', body, anyObject, { signal })
      await cluster.admin.delete(`/api/v1/namespaces/${name}`, { signal })
      // Unknown, not refused: it is tried again.
      await expect(driver.create(tag, orderOn(cluster, config), signal)).rejects.toThrow('being deleted')
      const other = await openDriver(cluster)
      expect(await start(other)).toMatchObject({ state: 'running' })
      await other.close()
      await mergePatch(cluster, `/api/v1/namespaces/${name}`, { metadata: { finalizers: null } })
      await waitFor('the namespace to be gone', async () => {
        const found = await cluster.admin.find(`/api/v1/namespaces/${name}`, anyObject, { signal })
        return found === undefined
      })
      expect(await driver.create(tag, orderOn(cluster, config), signal)).toMatchObject({ kind: 'created' })
    })

    test('a cluster that does not answer hides no other, and its orders are not lost', async () => {
      const cluster = get()
      opened = await openDriver(cluster)
      const { config } = opened
      const away = { cluster: 'away', namespace: namespaceOf('berth', 'acc_Away'), name: 'berth-two-2-c0ffee00' }
      const volume = { ...away, name: 'berth-two-v2-c0ffee00' }
      const silent = new Cluster({
        config: { ...config, name: 'away' },
        access: { server: 'https://127.0.0.1:9', tls: {}, token: async () => undefined },
        ...quiet,
      })
      const order = { tag: away.name, accountId: 'acc_Away', externalId: externalIdOf(away), machineId: 'away-node' }
      const driver = kubernetesDriver({
        clusters: [silent, opened.cluster],
        world: {
          ...opened.world,
          listOrders: async () => [{ ...order, clusterName: 'away', isEnding: false }],
          listVolumes: async () => [{ tag: volume.name, externalId: externalIdOf(volume), machineId: null }],
        },
        clock: systemClock,
        relayHost: '127.0.0.1',
        warn: () => {},
      })
      try {
        expect((await driver.inventory(signal)).map(({ clusterName }) => clusterName)).toEqual(['lab'])
        const made = await opened.driver.create('berth-two-1-c0ffee00', orderOn(cluster, config), signal)
        if (made.kind !== 'created') throw new Error(made.message)
        const listed = (await driver.list('berth-two-', signal)).map(({ externalId, state }) => [externalId, state])
        expect(listed).toHaveLength(2)
        expect(listed).toContainEqual([externalIdOf(away), 'unreachable'])
        const claim = { externalId: externalIdOf(volume), ready: false, attachedTo: [] }
        expect(await driver.volumes.list('berth-two-v', signal)).toMatchObject([claim])
        await expect(driver.destroy(externalIdOf(away), signal)).rejects.toBeInstanceOf(Error)
        await driver.destroy(made.externalId, signal)
        const { namespace = '', name = '' } = readExternalId(made.externalId) ?? {}
        await waitFor('its pod to be gone', async () => {
          const pod = await cluster.admin.find(podPath({ namespace, name }), podObject, { signal })
          return pod === undefined
        })
      } finally {
        await silent.close()
      }
    })
  })
}

const quiet = { tagPrefix: 'berth-', changed: () => {}, warn: () => {} }
