/**
 * Berth on Kubernetes: the chart installed on a real cluster with two servers and a gateway. It serves, rents out the
 * cluster that it runs in, is updated under load, goes back, and leaves nothing behind but its database.
 */
import { mkdtemp } from 'node:fs/promises'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { machineIdOf } from '../src/drivers/kubernetes/names.ts'
import { startModelServer, type ModelServer } from './sim/model-server.ts'
import { writeTinyGguf } from './sim/tiny-gguf.ts'
import { forgetServer } from './harness/chat-client.ts'
import { startChatLoad, type ChatLoad } from './harness/chat-load.ts'
import { NAMESPACE, RELEASE, remoteServer, startChartLab, type ChartLab } from './lab/chart-lab.ts'
import { forwardTo, type Forward } from './harness/forward.ts'
import { chart, runProgram, whyNoHelm } from './lab/helm.ts'
import { testPrices } from './harness/inference.ts'
import { rentInstance, terminate, untilGone, untilStatus } from './harness/instance.ts'
import { succeed } from './harness/journey.ts'
import { whyNoKubernetes } from './lab/kube-programs.ts'
import { removeFolder } from './harness/leftover.ts'
import { makeCustomer, type Customer, type MachineServer } from './lab/machines.ts'
import { waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('docker', 'kubernetes', 'helm', 'build')

const START_MS = 60 * 60_000
const UPDATE_MS = 10 * 60_000
const MODEL = 'test/model'
/** One word of a stream. */
const WORD_MS = 100
const missing = whyNoKubernetes() ?? whyNoHelm() ?? undefined
const skipped = missing === undefined ? '' : ` (skipped: ${missing})`

describe.skipIf(missing !== undefined)(`Berth on Kubernetes${skipped}`, () => {
  let lab: ChartLab
  let folder: string
  let upstream: ModelServer
  let upstreamPort: Forward
  let server: MachineServer
  let ada: Customer

  beforeAll(async () => {
    folder = await mkdtemp(path.join(os.tmpdir(), 'berth-on-kubernetes-'))
    lab = await startChartLab()
    upstream = await startModelServer({ behaviour: { words: 150, intervalMs: WORD_MS } })
    upstreamPort = await forwardTo(lab.cluster.network.bridgeAddress, () => net.connect(upstream.port, upstream.host))
  }, START_MS)
  afterAll(async () => {
    forgetServer(lab?.url ?? '')
    upstreamPort?.close()
    await upstream?.close()
    await lab?.close()
    await removeFolder(folder)
  }, UPDATE_MS)

  test('the API server accepts every object of the chart before anything is installed', async () => {
    const everything = {
      gateway: { autoscaling: { enabled: true, min: 2, max: 4, outstandingMetric: 'berth_inference_outstanding' } },
      ingress: { enabled: true, host: 'gpu.example.com', appsDomain: 'apps.example.com', tlsSecret: 'tls' },
    }
    const made = await lab.helm('install', everything, '--dry-run=server')
    for (const kind of ['HorizontalPodAutoscaler', 'Ingress', 'NetworkPolicy', 'PodDisruptionBudget'])
      expect(made).toContain(`kind: ${kind}`)
    expect(await lab.get('statefulsets,services')).toEqual([])
  })

  test(
    'installs: the tables first, then the pods, all ready under the level restricted',
    async () => {
      await lab.helm('install', {}, '--wait', '--timeout', '8m')
      const pods = await lab.get('pods')
      expect(pods.map((pod) => pod.metadata.name).toSorted()).toEqual([
        'berth-gateway-0',
        'berth-server-0',
        'berth-server-1',
      ])
      // `lastState` says why a pod was restarted.
      for (const { status } of pods) {
        const { ready, restartCount, lastState } = status.containerStatuses[0]
        expect({ ready, restartCount, lastState }).toEqual({ ready: true, restartCount: 0, lastState: {} })
      }
      expect((await lab.get('networkpolicies,poddisruptionbudgets')).map(({ kind }) => kind).toSorted()).toEqual([
        'NetworkPolicy',
        'PodDisruptionBudget',
        'PodDisruptionBudget',
      ])
      // The node's proxy learns of ready pods a moment later.
      await waitFor('the Service to answer', () =>
        fetch(`${lab.url}/healthz`).then(
          ({ ok }) => ok,
          () => false,
        ),
      )
      server = remoteServer(lab.url, await operatorKey())
      ada = await makeCustomer(server, path.join(folder, 'key'))
    },
    UPDATE_MS,
  )

  test('answers chats through the Service, with the metric that gateways scale by', async () => {
    await succeed(server.operator, 'POST', '/v2/operator/models', {
      name: MODEL,
      kind: 'chat',
      contextTokens: 8_192,
      maxOutputTokens: 4_096,
      ...testPrices,
    })
    const url = `http://${lab.cluster.network.bridgeAddress}:${upstreamPort.port}`
    await succeed(server.operator, 'POST', '/v2/operator/deployments', { model: MODEL, url, upstreamModel: 'theirs' })
    const ask = { model: MODEL, max_tokens: 3, messages: [{ role: 'user', content: 'Hello' }] }
    // Each server and gateway learns of the model on its own.
    let inARow = 0
    await waitFor('every pod to serve the model', async () => {
      const { status } = await ada.call('POST', '/v1/chat/completions', ask, { Connection: 'close' })
      inARow = status === 200 ? inARow + 1 : 0
      return inARow >= 12
    })
    const metrics = await server.operator('GET', '/metrics')
    expect(metrics.body).toMatch(/^berth_inference_outstanding \d+$/m)
    expect((await server.anonymous('GET', '/metrics')).status).toBe(401)
  })

  /** The ports of a server that a pod can connect to. */
  async function reachedFrom(namespace: string, pod: string): Promise<number[]> {
    const address = (await lab.get('pods')).find(({ metadata }) => metadata.name === 'berth-server-0')?.status.podIP
    const tries = 'for port in 8420 8421; do nc -w 2 "$0" $port </dev/null >/dev/null 2>&1 && echo $port; done; true'
    const out = await lab.kubectl(['-n', namespace, 'exec', pod, '--', 'sh', '-c', tries, address])
    return out.split('\n').flatMap((line) => (line === '' ? [] : [Number.parseInt(line, 10)]))
  }

  test('pods of others reach its API and not the port between servers', async () => {
    const { name, tag } = lab.cluster.registry.images.busybox
    await lab.kubectl(['run', 'stranger', `--image=${name}:${tag}`, '--command', '--', 'sleep', '1000'])
    await lab.kubectl(['wait', '--for=condition=Ready', 'pod/stranger', '--timeout=60s'])
    expect(await reachedFrom('default', 'stranger')).toEqual([8_420])
    await lab.kubectl(['delete', 'pod', 'stranger', '--grace-period=1'])
  })

  test('rents out the cluster that it runs in, with the rights of the chart', async () => {
    const node = { id: machineIdOf('here', lab.cluster.node.name) }
    const command = ['/bin/sh', '-c', 'echo up; sleep 100000']
    const options = { cluster_name: 'here', command }
    const name = await waitFor('the node to be on sale', () =>
      rentInstance(ada, node, lab.cluster.registry.images.busybox, options).catch(() => undefined),
    )
    await untilStatus(ada, name, 'online')
    const tenants = JSON.parse(await lab.kubectl(['get', 'pods', '-A', '-o', 'json'])).items.filter(
      (pod: { metadata: { namespace: string } }) => pod.metadata.namespace.startsWith('berth-acc'),
    )
    expect(tenants).toHaveLength(1)
    expect(tenants[0].status.phase).toBe('Running')
    const { namespace, name: pod } = tenants[0].metadata
    expect(await reachedFrom(namespace, pod)).toEqual([])
    await terminate(ada, name)
    await untilGone(ada, name)
    const asBerth = ['--as', `system:serviceaccount:${NAMESPACE}:${RELEASE}`, '--dry-run=server']
    const stray = lab.kubectl(['-n', 'default', 'create', 'secret', 'generic', 'stray', ...asBerth])
    await expect(stray).rejects.toThrow('Berth may change only namespaces that it has made')
  })

  test(
    'an update under load loses no request and cuts no stream',
    async () => {
      const before = await podIds()
      const load = startLoad()
      await waitFor('the load', () => load.answered > 20)
      // A value of the servers changes, and the image has another tag: every pod is replaced.
      await lab.cluster.node.tagImage('docker.io/library/berth:0.1.0', 'docker.io/library/berth:next')
      const settings = { BERTH_LOCAL_ENGINES: 'true' }
      await lab.helm('upgrade', { image: { tag: 'next' }, settings }, '--wait', '--timeout', '8m')
      const answered = load.answered
      await waitFor('answers of the new pods', () => load.answered > answered + 20)
      await load.stop()
      expectAllAnswered(load)
      const after = await podIds()
      expect(after).toHaveLength(3)
      expect(after.filter((id) => before.includes(id))).toEqual([])
    },
    UPDATE_MS,
  )

  test('answers with a model on its own engine', async () => {
    const models = (await succeed(server.operator, 'GET', '/v2/operator/models')).models as Array<{ name: string }>
    for (const { name } of models.filter((one) => one.name !== MODEL))
      await server.operator('DELETE', `/v2/operator/models?name=${name}`)
    const file = await lab.addFile('tiny.gguf', writeTinyGguf)
    await succeed(server.operator, 'POST', '/v2/operator/models', {
      name: 'tiny',
      kind: 'chat',
      engine: 'llama',
      files: [{ source: `file:${file}`, file: 'tiny.gguf', bytes: null, sha256: null }],
      contextTokens: 2_048,
      ...testPrices,
    })
    const ask = { model: 'tiny', max_tokens: 5, messages: [{ role: 'user', content: 'Hello' }] }
    const answer = await waitFor('an answer of the engine', async () => {
      const { status, body } = await ada.call('POST', '/v1/chat/completions', ask)
      return status === 200 && body
    })
    expect(answer.usage.completion_tokens).toBeGreaterThan(0)
  })

  test(
    'goes back under load to the version before, and everything is charged once',
    async () => {
      const load = startLoad()
      await waitFor('the load', () => load.answered > 20)
      await inNamespace('rollback', RELEASE, '--wait', '--timeout', '8m')
      await load.stop()
      expectAllAnswered(load)
      const [image] = (await lab.get('pods')).map((pod) => pod.spec.containers[0].image)
      expect(image).toBe('berth:0.1.0')
      expect(await succeed(server.operator, 'GET', '/v2/operator/ledger/verify')).toMatchObject({ findings: [] })
    },
    UPDATE_MS,
  )

  test(
    'installs without values as a trial, whose data and secret key outlive an update (issue 31, 13)',
    async () => {
      const trial = ['--namespace', 'berth-trial', '--kubeconfig', lab.cluster.adminFile]
      const wait = ['--wait', '--timeout', '8m']
      await runProgram('helm', ['install', 'berth', chart, ...trial, '--create-namespace', ...wait])
      const read = `fs.readFileSync('/data/berth/secret.key') + fs.readFileSync('/data/berth/demo.key')`
      const keys = (): Promise<string> =>
        lab.kubectl(['-n', 'berth-trial', 'exec', 'berth-server-0', '--', 'node', '-p', read])
      const before = await keys()
      expect(before.trim().length).toBeGreaterThan(60)
      await runProgram('helm', ['upgrade', 'berth', chart, ...trial, '--set', 'drainSeconds=1', ...wait])
      expect(await keys()).toBe(before)
      // Neither kind becomes the other by mistake.
      const secrets = ['--set', 'database.secret=a,secretKey.secret=b']
      await expect(runProgram('helm', ['upgrade', 'berth', chart, ...trial, ...secrets])).rejects.toThrow(
        'this release is a trial',
      )
      await expect(inNamespace('upgrade', RELEASE, chart, '--reset-values')).rejects.toThrow(
        'database.secret is missing',
      )
      await runProgram('helm', ['uninstall', 'berth', ...trial, ...wait])
    },
    UPDATE_MS,
  )

  test(
    'leaves nothing behind but the database',
    async () => {
      await inNamespace('uninstall', RELEASE, '--wait', '--timeout', '5m')
      await waitFor('its objects to be gone', async () => (await leftovers()).length === 0)
      const database = new pg.Client({ connectionString: lab.databaseUrl })
      await database.connect()
      const { rows } = await database.query("select count(*)::int as n from account where id = 'operator'")
      await database.end()
      expect(rows).toEqual([{ n: 1 }])
    },
    UPDATE_MS,
  )

  const inNamespace = (...args: string[]): Promise<string> =>
    runProgram('helm', ['--kubeconfig', lab.cluster.adminFile, '--namespace', NAMESPACE, ...args])

  /** As NOTES.txt says: from the pod that made it. */
  async function operatorKey(): Promise<string> {
    const read = "try { process.stdout.write(fs.readFileSync('/data/berth/operator.key')) } catch {}"
    const keys = await Promise.all(
      (await lab.get('pods')).map((pod) =>
        lab.kubectl(['-n', NAMESPACE, 'exec', pod.metadata.name, '--', 'node', '-e', read]),
      ),
    )
    const [key, ...others] = keys.map((text) => text.trim()).filter(Boolean)
    expect(others).toEqual([])
    return key ?? ''
  }

  async function podIds(): Promise<string[]> {
    return (await lab.get('pods')).map((pod) => pod.metadata.uid)
  }

  /** Short answers and streams of up to ten seconds, on both paths, over connections that stay open. */
  function startLoad(): ChatLoad {
    const target = { url: lab.url, key: ada.key, model: MODEL }
    const mix = [
      { stream: false, maxTokens: 5, fullPath: false },
      { stream: true, maxTokens: 100, fullPath: false },
      { stream: false, maxTokens: 5, fullPath: true },
      { stream: true, maxTokens: 30, fullPath: true },
      { stream: true, maxTokens: 15, fullPath: false },
    ]
    return startChatLoad({ clients: 12, target: () => target, mix, dryAfter: Infinity })
  }

  function expectAllAnswered({ results }: ChatLoad): void {
    const failed = results.filter((one) => one.status !== 200 || !one.isComplete)
    expect(failed.map(({ ask, status, words, body }) => ({ ...ask, status, words, body }))).toEqual([])
  }

  async function leftovers(): Promise<string[]> {
    const inside = 'statefulsets,pods,services,jobs,persistentvolumeclaims,configmaps,secrets,serviceaccounts,leases'
    const namespaced = await lab.get(`${inside},networkpolicies,poddisruptionbudgets,roles,rolebindings`)
    const policies = 'validatingadmissionpolicies,validatingadmissionpolicybindings'
    const kinds = `clusterroles,clusterrolebindings,${policies}`
    const wide = JSON.parse(await lab.kubectl(['get', kinds, '-o', 'json'])).items
    const brought = ['berth-db', 'berth-key', 'kube-root-ca.crt', 'default']
    return [
      ...namespaced,
      ...wide.filter((one: { metadata: { name: string } }) => one.metadata.name.startsWith('berth-rentals')),
    ]
      .map((one) => `${one.kind}/${one.metadata.name}`)
      .filter((name) => !brought.includes(name.split('/')[1] ?? ''))
  }
})
