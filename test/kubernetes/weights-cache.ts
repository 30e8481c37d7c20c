/** Weights that nodes keep: storage claims of a real cluster, made for pods and removed by budget and age. */
import { afterEach, describe, expect, test } from 'vitest'
import { addMs, DAY_MS, HOUR_MS, instantOf, systemClock } from '../../src/base/instant.ts'
import type { HostWeights } from '../../src/contract/weights.ts'
import { namespaceOf, podPath, readExternalId } from '../../src/drivers/kubernetes/names.ts'
import { claimStatus, podObject } from '../../src/drivers/kubernetes/objects.ts'
import { claimsOf } from '../../src/drivers/kubernetes/volumes.ts'
import { storageClasses, type KubeCluster } from '../lab/kube-cluster.ts'
import { openDriver, orderOn, removePods, type OpenDriver } from '../lab/kube-driver.ts'
import { waitFor } from '../harness/wait.ts'

const ACCOUNT = 'acc_Weights'
const namespace = namespaceOf('berth', ACCOUNT)
const signal = new AbortController().signal
/** Its claim has 3 GB. */
const model = (digit: string): HostWeights => ({
  mountPath: '/models',
  files: [{ path: 'model.gguf', bytes: 1_000_000_000, sha256: digit.repeat(64) }],
})

export function weightsCacheSuite(get: () => KubeCluster): void {
  describe('weights on a node', () => {
    let opened: OpenDriver
    afterEach(() => opened.close())
    let now = instantOf(0)
    let weights = model('0')

    async function open(settings: object = {}): Promise<void> {
      const { name, tag } = get().registry.images.busybox
      // It has no program that downloads: the storage is what counts here.
      const engineImage = `${name}:${tag}`
      const serving = { engineImage, serverUrl: 'http://127.0.0.1:9', cache: { gbPerNode: 5, days: 2 } }
      const program = {
        get weights() {
          return weights
        },
      }
      const orders = { account: ACCOUNT, program, downloadAs: 'Berth-Pod x', clock: { now: () => now } }
      opened = await openDriver(get(), { storage: { class: storageClasses.late }, serving, ...settings }, orders)
    }
    /** The claims that the pod of a new order has. */
    async function start(tag: string): Promise<string[]> {
      const { driver, config } = opened
      const resources = { cpuModel: 'any', cpuCount: 0.1, ramGb: 0.1, storageGb: 10 }
      const made = await driver.create(tag, orderOn(get(), config, { resources }), signal)
      if (made.kind !== 'created') throw new Error(made.message)
      const address = readExternalId(made.externalId) ?? { namespace, name: '' }
      return claimsOf(await get().admin.get(podPath(address), podObject, { signal }))
    }
    async function kept(): Promise<string[]> {
      const path = `/api/v1/namespaces/${namespace}/persistentvolumeclaims`
      const { items } = await get().admin.list(path, claimStatus, { signal })
      return items.flatMap(({ metadata }) => (metadata.deletionTimestamp === undefined ? [metadata.name] : []))
    }
    const endPods = () => waitFor('the pods to be gone', async () => (await removePods(get())) === 0)

    test('are shared by pods, make room for others, and go when they were not used for days', async () => {
      now = systemClock.now()
      await open()
      const [first = ''] = await start('berth-cache-1-c0ffee00')
      expect(await start('berth-cache-2-c0ffee00')).toEqual([first])
      expect(await kept()).toEqual([first])
      // Pods have them, so others find no room and use their own disk.
      now = addMs(now, HOUR_MS)
      weights = model('1')
      expect(await start('berth-cache-3-c0ffee00')).toEqual([])
      await endPods()
      const [second = ''] = await start('berth-cache-4-c0ffee00')
      expect(await kept()).toEqual([second])
      now = addMs(now, 3 * DAY_MS)
      await opened.driver.tidy?.(signal)
      expect(await kept()).toEqual([second])
      await endPods()
      // They were in use a day ago.
      now = addMs(now, DAY_MS)
      await opened.driver.tidy?.(signal)
      expect(await kept()).toEqual([second])
      now = addMs(now, 2 * DAY_MS)
      await opened.driver.tidy?.(signal)
      expect(await kept()).toEqual([])
    })

    test('are on the disk of the pod where the storage class does not exist', async () => {
      now = systemClock.now()
      await open({ storage: { class: 'absent' } })
      expect(await start('berth-cache-5-c0ffee00')).toEqual([])
    })
  })
}
