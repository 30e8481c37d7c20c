/** A model on a Kubernetes cluster: our own engine in a pod, with weights that the pod downloads from the server. */
import path from 'node:path'
import { expect, inject, test } from 'vitest'
import { namespaceOf } from '../../src/engines/kubernetes/names.ts'
import { podObject } from '../../src/engines/kubernetes/objects.ts'
import { makeEngineImages } from '../../src/models/engine-image.ts'
import { writeTinyGguf } from '../../src/sim/tiny-gguf.ts'
import { succeed } from '../harness/journey.ts'
import type { KubeCluster } from '../harness/kube-cluster.ts'
import { storeWeights } from '../harness/stored-weights.ts'
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
    'a deployment serves chats from a pod, with weights that the pod has downloaded and nobody else can',
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
        replicas: { min: 0, max: 1 },
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
      const shown = await succeed(server.operator, 'GET', `/v2/deployments/${made.id}`)
      expect([asked.status, JSON.stringify(asked.body), shown.replicas]).toMatchObject([
        200,
        expect.stringContaining('"completion_tokens":'),
        [{ state: 'ready', node: get().node.id }],
      ])
      const account = await server.app.database.db
        .selectFrom('rental')
        .select('account_id')
        .where('id', '=', shown.replicas[0].rentalId)
        .executeTakeFirstOrThrow()
      const namespace = namespaceOf('berth', account.account_id)
      const { items } = await cluster.admin.list(`/api/v1/namespaces/${namespace}/pods`, podObject, { signal })
      const [tag = ''] = items.map(({ metadata }) => metadata.name)
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
    },
    2 * START_MS,
  )
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
