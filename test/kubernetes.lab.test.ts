/**
 * Driver conformance of Kubernetes, on a real cluster with a real node, as the service account of
 * deploy/kubernetes/role.yaml. The line to the API server has the faults.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { emptyWorkload } from '../src/domain/workload.ts'
import type { ConformanceHarness } from '../src/drivers/conformance-bench.ts'
import { driverConformance } from '../src/drivers/conformance.ts'
import { KubernetesApi } from '../src/drivers/kubernetes/api.ts'
import { readKubeconfig } from '../src/drivers/kubernetes/kubeconfig.ts'
import { MANAGED_LABEL, MANAGER } from '../src/drivers/kubernetes/names.ts'
import { anyObject } from '../src/drivers/kubernetes/objects.ts'
import { startKubeCluster, type KubeCluster } from './lab/kube-cluster.ts'
import {
  cordon,
  isClaimCreate,
  isClaimDelete,
  isPodCreate as isCreate,
  isPodDelete as isDelete,
  openDriver,
  orderOn,
  removePods,
  type OpenDriver,
} from './lab/kube-driver.ts'
import { whyNoKubernetes } from './lab/kube-programs.ts'
import { pollDelay, waitFor } from './harness/wait.ts'
import { resourceClaimSuite } from './kubernetes/resource-claims.ts'
import { settingSuite } from './kubernetes/settings.ts'
import { virtualMachineSuite } from './kubernetes/virtual-machines.ts'
import { volumeSuite } from './kubernetes/volumes.ts'
import { weightsCacheSuite } from './kubernetes/weights-cache.ts'
import { needs } from './needs.ts'

needs('docker', 'kubernetes')

const START_MS = 60 * 60_000
const signal = new AbortController().signal
const missing = whyNoKubernetes()
const skipped = missing === undefined ? '' : ` (skipped: ${missing})`

describe.skipIf(missing !== undefined)(`Kubernetes${skipped}`, () => {
  let cluster: KubeCluster
  beforeAll(async () => {
    cluster = await startKubeCluster()
  }, START_MS)
  afterAll(() => cluster.close())

  driverConformance(
    'kubernetes',
    async () => {
      const opened = await openDriver(cluster)
      const { driver, line, config } = opened
      let vanishing = false
      return {
        driver,
        spec: (overrides) => orderOn(cluster, config, overrides),
        advance: async (ms) => {
          if (vanishing && ms > 0) await removePods(cluster)
          await pollDelay()
        },
        faults: {
          'create-timeout': { arm: () => line.disturb(isCreate, 'lose-answer') },
          'create-lost': { arm: () => line.disturb(isCreate, 'lose-request') },
          'no-capacity': { spec: { gpuCount: 64 } },
          'boot-fails': { spec: { workload: { ...emptyWorkload, command: ['/no/such/program'] } } },
          vanish: { arm: () => void (vanishing = true) },
          'destroy-refused': { arm: () => line.disturb(isDelete, { status: 503 }, 2) },
          'volume-create-timeout': { arm: () => line.disturb(isClaimCreate, 'lose-answer') },
          'volume-destroy-refused': { arm: () => line.disturb(isClaimDelete, { status: 503 }, 2) },
          unreachable: { arm: () => line.down() },
        },
        dispose: () => opened.close(),
      } satisfies ConformanceHarness
    },
    {
      parts: ['machines', 'volumes'],
      volumesAreFixed: true,
      cannot: { 'list-lag': 'the API server lists what it has stored' },
    },
  )

  volumeSuite(() => cluster)
  weightsCacheSuite(() => cluster)
  resourceClaimSuite(() => cluster)
  settingSuite(() => cluster)
  virtualMachineSuite(() => cluster)

  describe('the API server', () => {
    let opened: OpenDriver
    beforeEach(async () => {
      opened = await openDriver(cluster)
    })
    afterEach(() => opened.close())
    const sold = async (): Promise<boolean> => (await opened.driver.inventory(signal)).length > 0
    const countOf = (asked: (request: string) => boolean): number => opened.line.requests.filter(asked).length

    test('is asked again when it is busy, after the time that it names', async () => {
      const { driver, line, config } = opened
      line.disturb(isCreate, { status: 429, headers: { 'retry-after': '1' } }, 2)
      const startedAt = performance.now()
      const outcome = await driver.create('berth-busy-1-c0ffee00', orderOn(cluster, config), signal)
      expect(outcome).toMatchObject({ kind: 'created' })
      expect(performance.now() - startedAt).toBeGreaterThan(2_000)
      expect(countOf(isCreate)).toBe(3)
    })

    test('gets the new token when it rejects the old one', async () => {
      const { driver, line } = opened
      await driver.check(signal)
      const before = countOf(isVersion)
      line.disturb(isVersion, { status: 401 })
      await driver.check(signal)
      expect(countOf(isVersion) - before).toBe(2)
      line.disturb(isVersion, { status: 401 }, 2)
      await expect(driver.check(signal)).rejects.toThrow('disturbed')
    })

    test('tells of a cordoned node, also when its watches are cut or have expired', async () => {
      const { line } = opened
      expect(await sold()).toBe(true)
      await cordon(cluster, true)
      await waitFor('the node to be off sale', async () => !(await sold()))
      line.disturb(isWatch, { status: 410 }, 2)
      line.cutWatches()
      await cordon(cluster, false)
      await waitFor('the node to be on sale', sold)
      await waitFor('new watches', () => countOf(isWatch) >= 6)
      await cordon(cluster, true)
      await waitFor('the node to be off sale again', async () => !(await sold()))
      await cordon(cluster, false)
      await waitFor('the node to be on sale again', sold)
    })

    test('finds the first pod when a create is repeated after a lost answer', async () => {
      const { driver, line, config } = opened
      const order = orderOn(cluster, config)
      line.disturb(isCreate, 'lose-answer')
      await expect(driver.create('berth-twice-1-c0ffee00', order, signal)).rejects.toBeInstanceOf(Error)
      const outcome = await driver.create('berth-twice-1-c0ffee00', order, signal)
      expect(outcome).toMatchObject({ kind: 'created' })
      expect(await driver.list('berth-twice-', signal)).toHaveLength(1)
    })

    test('refuses what Berth does not need', async () => {
      const { kubeconfig } = await cluster.berthConfig()
      const api = new KubernetesApi(await readKubeconfig(kubeconfig))
      const refused = ['/api/v1/secrets', '/api/v1/namespaces/kube-system/configmaps', '/api/v1/services']
      for (const path of refused) {
        await expect(api.get(path, z.unknown(), { signal })).rejects.toMatchObject({ status: 403 })
      }
      await api.close()
    })

    test('refuses changes outside of the namespaces that Berth has made', async () => {
      const { kubeconfig } = await cluster.berthConfig()
      const api = new KubernetesApi(await readKubeconfig(kubeconfig))
      const { name, tag } = cluster.registry.images.busybox
      const pod = { metadata: { name: 'stray' }, spec: { containers: [{ name: 'main', image: `${name}:${tag}` }] } }
      const path = '/api/v1/namespaces/default/pods'
      const reason = 'Berth may change only namespaces that it has made'
      await expect(api.create(path, pod, anyObject, { signal, query: { dryRun: 'All' } })).rejects.toThrow(reason)
      const metadata = { name: 'default', labels: { [MANAGED_LABEL]: MANAGER } }
      const body = { apiVersion: 'v1', kind: 'Namespace', metadata }
      await expect(api.apply('/api/v1/namespaces/default', body, anyObject, { signal })).rejects.toThrow(reason)
      await api.close()
    })
  })
})

const isVersion = (asked: string): boolean => asked === 'GET /version'
const isWatch = (asked: string): boolean => asked.includes('watch=true')
