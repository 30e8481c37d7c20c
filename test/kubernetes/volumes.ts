/** Volumes on Kubernetes: claims of real storage classes. The storage is folders, which the controllers make. */
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { volumeConformance } from '../../src/drivers/conformance-volumes.ts'
import { bindPodName } from '../../src/drivers/kubernetes/claim.ts'
import { machineIdOf, namespaceOf, OURS, podPath, readExternalId } from '../../src/drivers/kubernetes/names.ts'
import { anyObject, claimStatus, podObject } from '../../src/drivers/kubernetes/objects.ts'
import { parseQuantity } from '../../src/drivers/kubernetes/quantity.ts'
import { claimPath } from '../../src/drivers/kubernetes/volumes.ts'
import { storageClasses, type KubeCluster } from '../lab/kube-cluster.ts'
import { ACCOUNT, isClaimCreate, openDriver, type OpenDriver } from '../lab/kube-driver.ts'
import { mergePatch } from '../harness/kube-merge.ts'
import { pollDelay, waitFor } from '../harness/wait.ts'

const signal = new AbortController().signal
const namespace = namespaceOf('berth', ACCOUNT)
const texts = z.record(z.string(), z.string())
const claimQuota = z.object({ status: z.object({ used: texts.optional() }).optional() })
const boundClaim = z.object({ spec: z.object({ volumeName: z.string() }) })
const quotas = `/api/v1/namespaces/${namespace}/resourcequotas`

export function volumeSuite(get: () => KubeCluster): void {
  volumeConformance(
    'Kubernetes',
    async () => {
      const opened = await openDriver(get())
      const { admin, node } = get()
      const stopResizing = resizeClaims(get())
      const repair = async (): Promise<void> => void (await admin.delete(`${quotas}/full`, { signal }))
      return {
        engine: opened.driver.volumes,
        region: opened.config.region,
        near: { host: machineIdOf('lab', node.name) },
        sizeGb: 256,
        settle: () => settle(get()),
        fill: async () => {
          const body = { metadata: { name: 'full' }, spec: { hard: { 'requests.storage': '256G' } } }
          await admin.create(quotas, body, anyObject, { signal })
          await waitFor('the quota to count', () => isCounted(get()))
          return 'plain'
        },
        breakCreates: async () => {
          opened.line.disturb(isClaimCreate, 'lose-request', 1)
          return 'plain'
        },
        repair,
        lose: async (externalId) => {
          const volume = await volumeOf(get(), externalId)
          await admin.delete(`/api/v1/persistentvolumes/${volume}`, { signal })
          await mergePatch(get(), `/api/v1/persistentvolumes/${volume}`, { metadata: { finalizers: null } })
          await waitFor('the storage to be lost', async () => {
            const claim = await admin.get(claimPath(addressOf(externalId)), claimStatus, { signal })
            return claim.status?.phase === 'Lost'
          })
        },
        traces: async () => (await claims(get())).map(({ metadata }) => metadata.name),
        dispose: async () => {
          await stopResizing()
          await repair()
          for (const { metadata } of await claims(get()))
            await admin.delete(claimPath({ namespace, name: metadata.name }), { signal })
          await settle(get())
          await opened.close()
        },
      }
    },
    { grows: true, copies: false },
  )

  describe('a storage class that waits for the first pod', () => {
    let opened: OpenDriver
    beforeAll(async () => {
      opened = await openDriver(get(), { storage: { class: storageClasses.late } })
    })
    afterAll(() => opened.close())

    test('has the storage created at once, without a pod that stays, and does not let it grow', async () => {
      const { volumes } = opened.driver
      const near = { host: machineIdOf('lab', get().node.name) }
      const tag = `berth-late-v1-${randomBytes(4).toString('hex')}`
      const made = await volumes.create(tag, { region: 'lab-1', label: 'late', sizeGb: 256, near }, signal)
      if (made.kind === 'refused') throw new Error(made.message)
      const listed = (await volumes.list(tag, signal)).map(({ externalId, ready }) => ({ externalId, ready }))
      expect(listed).toEqual([{ externalId: made.externalId, ready: undefined }])
      const { name } = addressOf(made.externalId)
      await waitFor('the pod to be gone', async () => {
        const pod = await get().admin.find(podPath({ namespace, name: bindPodName(name) }), podObject, { signal })
        return pod === undefined
      })
      expect(await volumes.grow?.(made.externalId, 512, signal)).toMatchObject({ kind: 'refused' })
      await volumes.destroy(made.externalId, signal)
      await waitFor('the volume to be gone', async () => (await volumes.list(tag, signal)).length === 0)
    })

    test('refuses a volume for a machine of no cluster, or with a class that is not there', async () => {
      const { volumes } = opened.driver
      const spec = { region: 'lab-1', label: 'none', sizeGb: 256 }
      const outcome = await volumes.create('berth-none-v1-c0ffee00', { ...spec, near: { host: 'other-node' } }, signal)
      expect(outcome).toMatchObject({ kind: 'refused', reason: 'rejected_by_provider' })
      const without = await openDriver(get(), { storage: { class: 'absent' } })
      await expect(without.driver.volumes.create('berth-none-v2-c0ffee00', spec, signal)).rejects.toThrow(
        'no storage class absent',
      )
      const [left] = await without.driver.volumes.list('berth-none-v2-', signal)
      expect(left).toMatchObject({ ready: false })
      await without.driver.volumes.destroy(left?.externalId ?? '', signal)
      await without.close()
    })
  })
}

function addressOf(externalId: string) {
  const address = readExternalId(externalId)
  if (address === undefined) throw new Error(`${externalId} is not an id of ours`)
  return address
}

const claims = async ({ admin }: KubeCluster) =>
  (await admin.list('/api/v1/persistentvolumeclaims', claimStatus, { query: { labelSelector: OURS }, signal })).items

/** Nothing is being removed any more. */
async function settle(cluster: KubeCluster): Promise<void> {
  await pollDelay()
  await waitFor('removed claims to be gone', async () =>
    (await claims(cluster)).every(({ metadata }) => metadata.deletionTimestamp === undefined),
  )
}

async function isCounted({ admin }: KubeCluster): Promise<boolean> {
  const quota = await admin.get(`${quotas}/full`, claimQuota, { signal })
  return quota.status?.used?.['requests.storage'] !== undefined
}

async function volumeOf({ admin }: KubeCluster, externalId: string): Promise<string> {
  return (await admin.get(claimPath(addressOf(externalId)), boundClaim, { signal })).spec.volumeName
}

/** The part of a storage driver that folders lack: grows volumes and claims as they ask for it. */
function resizeClaims(cluster: KubeCluster): () => Promise<void> {
  let isOver = false
  const { admin } = cluster
  const resize = async (): Promise<void> => {
    for (const { metadata, spec, status } of await claims(cluster)) {
      const storage = spec?.resources?.requests?.['storage'] ?? ''
      const found = parseQuantity(status?.capacity?.['storage'])
      if (found === undefined || found >= (parseQuantity(storage) ?? 0)) continue
      const at = { namespace, name: metadata.name }
      const body = { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: at, status: { capacity: { storage } } }
      await admin.apply(`${claimPath(at)}/status`, body, anyObject, { signal })
    }
  }
  const running = (async () => {
    while (!isOver) {
      await resize()
      await pollDelay()
    }
  })()
  return async () => {
    isOver = true
    await running
  }
}
