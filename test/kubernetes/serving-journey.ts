/** A model on a Kubernetes cluster: our own engine in pods, with weights that their node downloads from the server once. */
import path from 'node:path'
import { expect, inject, test } from 'vitest'
import { namespaceOf } from '../../src/drivers/kubernetes/names.ts'
import { claimStatus, podObject } from '../../src/drivers/kubernetes/objects.ts'
import { claimsOf } from '../../src/drivers/kubernetes/volumes.ts'
import { makeEngineImages } from '../../src/artifacts/oci/engine-image.ts'
import { writeTinyGguf } from '../sim/tiny-gguf.ts'
import { succeed } from '../harness/journey.ts'
import type { KubeCluster } from '../lab/kube-cluster.ts'
import { storeWeights } from '../harness/stored-weights.ts'
import type { TestServer } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'
import type { KubeJourney } from './volume-journey.ts'

/** Only on the node: no registry has it. */
export const ENGINE_IMAGE = 'lab.invalid/berth/engine:side-loaded'
const signal = new AbortController().signal
const START_MS = 180_000

/** Of a server that has a model store, at an address that pods reach. */
export function servingEnv(cluster: KubeCluster, port: number): Record<string, string> {
  return {
    BERTH_HOST: cluster.network.bridgeAddress,
    BERTH_PORT: String(port),
    BERTH_LOCAL_ENGINES: 'true',
    BERTH_ENGINE_DIR: path.dirname(inject('serverBundle')),
  }
}

export function servingConfig(cluster: KubeCluster, port: number): object {
  return {
    engineImage: ENGINE_IMAGE,
    serverUrl: `http://${cluster.network.bridgeAddress}:${port}`,
    allowedAddresses: [`${cluster.network.bridgeAddress}/32`],
  }
}

export function servingJourney(get: () => KubeJourney): void {
  test(
    'a deployment serves chats from pods, with weights that their node has downloaded once and nobody else can',
    async () => {
      const { server, ada, cluster } = get()
      await sideLoad(cluster, server.dataDir)
      const { weights } = await storeWeights(server, 'house/stored', (file) => writeTinyGguf(file))
      const sha256 = weights.files[0]?.sha256
      const made = await succeed(server.operator, 'POST', '/v2/deployments', {
        model: 'house/on-a-cluster',
        forEveryone: true,
        recipe: { name: 'berth-engine', weights },
        gpus: { count: 1 },
        replicas: { min: 2, max: 2 },
        hourlyBudgetUsd: '1.00',
      })
      const messages = [{ role: 'user', content: 'Hello' }]
      await waitFor('the model to be known', async () => {
        const { data } = await succeed(ada.call, 'GET', '/v1/models')
        return data.some(({ id }: { id: string }) => id === 'house/on-a-cluster')
      })
      const asked = await ada.call('POST', '/v1/chat/completions', {
        model: 'house/on-a-cluster',
        messages,
        max_tokens: 4,
      })
      expect([asked.status, JSON.stringify(asked.body)]).toEqual([200, expect.stringContaining('"completion_tokens":')])
      const shown = await waitFor(
        'both replicas',
        async () => {
          const now = await succeed(server.operator, 'GET', `/v2/deployments/${made.id}`)
          const ready = now.replicas.filter(({ state }: { state: string }) => state === 'ready')
          return ready.length === 2 ? now : undefined
        },
        START_MS,
      )
      expect(shown.replicas).toMatchObject([{ node: get().node.id }, { node: get().node.id }])
      expect(await downloadsOf(server)).toEqual(['200 1'])
      const account = await server.app.database.db
        .selectFrom('rental')
        .select('account_id')
        .where('id', '=', shown.replicas[0].rentalId)
        .executeTakeFirstOrThrow()
      const namespace = namespaceOf('berth', account.account_id)
      const { items } = await cluster.admin.list(`/api/v1/namespaces/${namespace}/pods`, podObject, { signal })
      const [tag = ''] = items.map(({ metadata }) => metadata.name)
      const claims = `/api/v1/namespaces/${namespace}/persistentvolumeclaims`
      const kept = async () => (await cluster.admin.list(claims, claimStatus, { signal })).items
      const [claim, ...more] = await kept()
      expect([claim?.status?.phase, more]).toEqual(['Bound', []])
      expect(items.map((pod) => claimsOf(pod))).toEqual([[claim?.metadata.name], [claim?.metadata.name]])
      for (const authorization of ['Berth-Pod of-nobody', `Bearer ${ada.key}`]) {
        const refused = await server.anonymous('GET', `/v2/agent/weights/${tag}/${sha256}`, undefined, {
          authorization,
        })
        expect([401, 404]).toContain(refused.status)
      }
      await succeed(server.operator, 'DELETE', `/v2/deployments/${made.id}`)
      await waitFor(
        'it to be gone',
        async () => (await server.operator('GET', `/v2/deployments/${made.id}`)).status === 404,
        START_MS,
      )
      await waitFor('its pod to be gone', async () => {
        const left = await cluster.admin.list(`/api/v1/namespaces/${namespace}/pods`, podObject, { signal })
        return left.items.length === 0
      })
      // The next replica on the node finds the weights.
      expect((await kept()).map(({ metadata }) => metadata.name)).toEqual([claim?.metadata.name])
    },
    2 * START_MS,
  )
}

/** Requests for weights by status, as the server counts them. */
async function downloadsOf({ operator }: TestServer): Promise<string[]> {
  const { body } = await operator('GET', '/metrics')
  const counted = /^berth_http_requests_total\{operation="downloadWeights",status="(\d+)"\} (\d+)$/gm
  return [...String(body).matchAll(counted)].map(([, status, count]) => `${status} ${count}`)
}

/** As an operator without a registry does it on each node. */
async function sideLoad(cluster: KubeCluster, folder: string): Promise<void> {
  const images = makeEngineImages({
    folder: path.join(folder, 'engine-image'),
    programDir: path.dirname(inject('serverBundle')),
    version: 'test',
  })
  const { file, tag } = await images.open()
  await cluster.node.importImage(file)
  await cluster.node.tagImage(`docker.io/berth/engine:${tag}`, ENGINE_IMAGE)
}
