/**
 * A customer rents containers on a real Kubernetes cluster and uses them, until they end and are billed; the node is lost
 * and comes back. Berth acts as the service account of deploy/kubernetes/role.yaml. Only the GPUs are declared.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { z } from 'zod'
import {
  machineIdOf,
  namespaceOf,
  podPath,
  readExternalId,
  type PodAddress,
} from '../../src/drivers/kubernetes/names.ts'
import { anyObject, podObject } from '../../src/drivers/kubernetes/objects.ts'
import {
  charged,
  dueForInstance,
  eventData,
  eventsOf,
  instantOf,
  LAB_PRICE,
  listingOf,
  rentalIdOf,
  rentalStatusOf,
  rentInstance,
  terminate,
  untilGone,
  untilStatus,
  type Instance,
} from '../harness/instance.ts'
import { checkLedgerAndEngines, succeed } from '../harness/journey.ts'
import { GPU_PRODUCT, startKubeCluster, storageClasses, type KubeCluster } from '../lab/kube-cluster.ts'
import { whyNoKubernetes } from '../lab/kube-programs.ts'
import { makeCustomer, type Customer } from '../lab/machines.ts'
import { ownPorts } from '../harness/own-port.ts'
import { testServer, type TestServer } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'
import { askWebApp } from '../harness/web-app.ts'
import { metricJourney } from '../kubernetes/metric-journey.ts'
import { sessionJourney } from '../kubernetes/session-journey.ts'
import { servingConfig, servingEnv, servingJourney } from '../kubernetes/serving-journey.ts'
import { volumeJourney } from '../kubernetes/volume-journey.ts'
import { needs } from '../needs.ts'

needs('docker', 'kubernetes', 'build')

const START_MS = 60 * 60_000
const HTTP_PORT = 8080
const TCP_PORT = 9000
const APPS_DOMAIN = 'apps.example.test'
const rentals = '/v2/rentals'
const signal = new AbortController().signal
const missing = whyNoKubernetes()
const skipped = missing === undefined ? '' : ` (skipped: ${missing})`

describe.skipIf(missing !== undefined)(`containers on Kubernetes from order to bill${skipped}`, () => {
  let cluster: KubeCluster
  let server: TestServer
  let ada: Customer
  let folder: string
  let node: { id: string }
  let image: { name: string; tag: string }

  beforeAll(async () => {
    cluster = await startKubeCluster()
    folder = await mkdtemp(path.join(os.tmpdir(), 'berth-kube-journey-'))
    const { kubeconfig } = await cluster.berthConfig()
    const port = ownPorts()
    const config = {
      name: 'lab',
      kubeconfig,
      region: 'lab-1',
      prices: { [GPU_PRODUCT]: '0.40' },
      simulatedGpus: true,
      graceSeconds: 1,
      images: { allowedRegistries: [cluster.registry.address] },
      storage: { class: storageClasses.now },
      serving: servingConfig(cluster, port),
    }
    const file = path.join(folder, 'clusters.json')
    await writeFile(file, JSON.stringify({ clusters: [config] }))
    server = await testServer({
      env: {
        BERTH_DRIVERS: 'kubernetes',
        BERTH_KUBERNETES: file,
        BERTH_APPS_DOMAIN: `http://${APPS_DOMAIN}`,
        ...servingEnv(cluster, port),
      },
    })
    ada = await makeCustomer(server, path.join(folder, 'key'))
    node = { id: machineIdOf('lab', cluster.node.name) }
    image = cluster.registry.images.busybox
  }, START_MS)
  afterAll(async () => {
    await server?.close()
    await cluster?.close()
    await rm(folder, { recursive: true, force: true })
  })

  /** Where the pod of an instance is. */
  async function addressOf(instance: Instance): Promise<PodAddress> {
    const id = await rentalIdOf(ada, instance)
    const row = await server.app.database.db
      .selectFrom('rental')
      .select('external_id')
      .where('id', '=', id)
      .executeTakeFirstOrThrow()
    const address = readExternalId(row.external_id ?? '')
    if (address === undefined) throw new Error(`${instance.id} has no pod`)
    return address
  }

  /** The output and the exit code of a command in the machine. */
  async function exec(instance: Instance, ...command: string[]): Promise<{ out: string; exit: unknown }> {
    const query = new URLSearchParams(command.map((word): [string, string] => ['command', word]))
    const where = `${rentals}/${await rentalIdOf(ada, instance)}/terminal?${query.toString()}`
    const headers = { Authorization: `Bearer ${ada.key}` }
    const socket = new WebSocket(`${server.url.replace('http', 'ws')}${where}`, { headers })
    let out = ''
    let exit: unknown
    socket.on('message', (data: Buffer, isBinary) => {
      if (isBinary) out += data.toString()
      else exit = JSON.parse(data.toString())
    })
    await new Promise((resolve, reject) => socket.once('close', resolve).once('error', reject))
    return { out: out.replaceAll('\r\n', '\n'), exit }
  }

  let first: Instance
  let address: PodAddress

  test('a node of the cluster is on sale, with its price and that its GPUs are declared', async () => {
    expect(await listingOf(server, node)).toMatchObject({
      gpus_total: 4,
      gpus_reserved: 0,
      network: { simulated: true },
      pricing: { price: { amount: 0.4, period: 'hourly' } },
    })
  })

  test('an order starts a pod with its variables, secrets, files and start script', async () => {
    await succeed(ada.call, 'PUT', '/v2/secrets/TOKEN', { value: 'hunter2 $(HOME)' })
    const serve = `echo "greeting: $GREETING"; mkdir /tmp/www; echo page >/tmp/www/index.html; \
      nc -ll -p ${TCP_PORT} -e echo tcp-answer & exec httpd -f -p ${HTTP_PORT} -h /tmp/www`
    const name = await rentInstance(ada, node, image, {
      env: { GREETING: 'hello $$ $(PATH)', TOKEN: '{{ secrets.TOKEN }}' },
      files: [{ path: '/etc/app/app.conf', content: 'token={{ secrets.TOKEN }}\n' }],
      onStart: 'echo started with $GREETING',
      command: ['/bin/sh', '-c', serve],
      ports: [
        { port: HTTP_PORT, protocol: 'http' },
        { port: TCP_PORT, protocol: 'tcp' },
      ],
      shmGb: 0.0625,
    })
    first = await untilStatus(ada, name, 'online')
    address = await addressOf(first)
    const ran = await exec(first, 'sh', '-c', 'echo "$TOKEN"; cat /etc/app/app.conf; echo gpus=$BERTH_GPUS; exit 7')
    expect(ran).toEqual({ out: 'hunter2 $(HOME)\ntoken=hunter2 $(HOME)\ngpus=0\n', exit: { exitCode: 7 } })
    const shm = await exec(first, 'sh', '-c', 'df -k /dev/shm | tail -1')
    // Whole pages: 62.5 MB are 61,035.2 KiB.
    expect(Number(shm.out.split(/\s+/)[1])).toBe(61_036)
    expect(await listingOf(server, node)).toMatchObject({ gpus_reserved: 1 })
  })

  test('returns the log of the program and of the start script, and follows it', async () => {
    const log = async (query = ''): Promise<string> => {
      const answer = await ada.call('GET', `${rentals}/${first.id}/logs${query}`)
      expect(answer.status).toBe(200)
      return answer.body.replaceAll('\r\n', '\n')
    }
    await waitFor('both lines', async () => (await log()).includes('started with hello'))
    expect((await log()).split('\n').filter(Boolean).toSorted()).toEqual([
      'greeting: hello $$ $(PATH)',
      'started with hello $$ $(PATH)',
    ])
    expect(await log('?search=GREETING')).toBe('greeting: hello $$ $(PATH)\n')
    expect(await log('?timestamps=true&search=greeting')).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z greeting: /)
    expect(await log('?until=2020-01-01T00:00:00Z')).toBe('')
    const control = new AbortController()
    const followed = await fetch(`${server.url}${rentals}/${first.id}/logs?follow=true&tail=0`, {
      headers: { Authorization: `Bearer ${ada.key}` },
      signal: control.signal,
    })
    let seen = ''
    const reading = (async () => {
      for await (const piece of followed.body?.pipeThrough(new TextDecoderStream()) ?? []) seen += piece
    })()
    await waitFor('a later line', async () => {
      await exec(first, 'sh', '-c', 'echo later >/proc/1/fd/1')
      return seen.includes('later')
    })
    control.abort()
    await expect(reading).rejects.toThrow('aborted')
  })

  test('a terminal has a size that follows its window', async () => {
    const where = `${rentals}/${await rentalIdOf(ada, first)}/terminal?columns=101&rows=31`
    const headers = { Authorization: `Bearer ${ada.key}` }
    const socket = new WebSocket(`${server.url.replace('http', 'ws')}${where}`, { headers })
    let bytes = ''
    socket.on('message', (data: Buffer, isBinary) => isBinary && (bytes += data.toString()))
    const closed = new Promise((resolve) => socket.once('close', resolve))
    await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
    socket.send(Buffer.from('stty size\n'))
    await waitFor('the size of the terminal', () => bytes.includes('31 101'))
    socket.send(JSON.stringify({ columns: 61, rows: 21 }))
    await waitFor('its new size', async () => {
      socket.send(Buffer.from('stty size\n'))
      await new Promise((resolve) => socket.once('message', resolve))
      return bytes.includes('21 61')
    })
    socket.send(Buffer.from('exit\n'))
    expect(await closed).toBe(1000)
  })

  test('its HTTP port has a name with access control, its TCP port a public port', async () => {
    const url = `http://${first.id}-${HTTP_PORT}.${APPS_DOMAIN}/`
    const page = await askWebApp(server.url, url, { Authorization: `Bearer ${ada.key}` })
    expect([page.status, page.body]).toEqual([200, 'page\n'])
    expect((await askWebApp(server.url, url)).status).toBe(404)
    const [mapping] = first.portMappings
    expect(mapping).toMatchObject({ protocol: 'tcp', port: expect.any(Number) })
    const text = await waitFor('the relay to listen', async () =>
      fetchRaw(mapping?.domain ?? '', mapping?.port ?? 0).catch(() => undefined),
    )
    expect(text).toBe('tcp-answer\n')
  })

  test('its namespace is closed, limited and has no token; its secret belongs to the pod', async () => {
    const { admin } = cluster
    const { namespace, name } = address
    expect(namespace).toBe(namespaceOf('berth', ada.id))
    const pod = await admin.get(podPath(address), podObject, { signal })
    const secret = await admin.get(`/api/v1/namespaces/${namespace}/secrets/${name}`, ownedObject, { signal })
    expect(secret.metadata.ownerReferences).toMatchObject([{ kind: 'Pod', uid: pod.metadata.uid }])
    expect(JSON.stringify(await admin.get(podPath(address), z.unknown(), { signal }))).not.toContain('hunter2')
    const policies = `/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies/berth`
    await admin.get(policies, anyObject, { signal })
    const quota = await admin.get(`/api/v1/namespaces/${namespace}/resourcequotas/berth`, quotaObject, { signal })
    expect(quota.status.used).toMatchObject({ pods: '1', 'requests.nvidia.com/gpu': '1' })
    const token = await exec(first, 'ls', '/var/run/secrets/kubernetes.io')
    expect(token.exit).toEqual({ exitCode: 1 })
    const links = await exec(first, 'sh', '-c', 'env | grep SERVICE_HOST | grep -vc ^KUBERNETES_')
    expect(links.out).toBe('0\n')
  })

  test('the operator sees the cluster and what it really enforces', async () => {
    const { clusters } = await succeed(server.operator, 'GET', '/v2/operator/clusters')
    expect(clusters).toMatchObject([
      {
        name: 'lab',
        reachable: true,
        version: expect.stringMatching(/^v1\./),
        nodes: [{ name: cluster.node.name, machineId: node.id, onSale: true, reason: null, gpusTotal: 4 }],
      },
    ])
    const check = async (): Promise<[boolean, Array<[string, string]>]> => {
      const body = { image: `${image.name}:${image.tag}` }
      const { ok, checks } = await succeed(server.operator, 'POST', '/v2/operator/clusters/lab/check', body)
      return [ok, checks.map((one: { check: string; result: string }) => [one.check, one.result])]
    }
    const results = (network: 'enforced' | 'not_enforced'): Array<[string, string]> => [
      ['pod_security', 'enforced'],
      ['quota', 'enforced'],
      ['network_policy', network],
      ['secrets', 'enforced'],
      ['storage', 'available'],
      ['weights_cache', 'available'],
      ['pod_metrics', 'not_available'],
      ['gpu_metrics', 'not_available'],
      ['virtual_machines', 'not_available'],
    ]
    expect(await check()).toEqual([false, results('not_enforced')])
    await cluster.enforcePolicies()
    expect(await check()).toEqual([true, results('enforced')])
  })

  test('GPUs that others use in the cluster are not sold', async () => {
    const requests = { 'nvidia.com/gpu': '2', cpu: '10m', memory: '16Mi' }
    const other = {
      metadata: { name: 'other', namespace: 'default' },
      spec: {
        terminationGracePeriodSeconds: 1,
        containers: [
          {
            name: 'main',
            image: `${image.name}:${image.tag}`,
            command: ['sleep', '1000'],
            resources: { requests, limits: { 'nvidia.com/gpu': '2' } },
          },
        ],
      },
    }
    await cluster.admin.create('/api/v1/namespaces/default/pods', other, anyObject, { signal })
    const unsold = async (): Promise<number[]> => {
      const { machines } = await succeed(server.operator, 'GET', '/v2/operator/machines?limit=10')
      return machines.find((one: { id: string }) => one.id === node.id).gpusSick
    }
    await waitFor('them to be off sale', async () => (await unsold()).join() === '2,3')
    await cluster.admin.delete('/api/v1/namespaces/default/pods/other', { signal })
    await waitFor('them to be back', async () => (await unsold()).length === 0)
    expect(await listingOf(server, node)).toMatchObject({ gpus_total: 4, gpus_reserved: 1 })
  })

  test('a lost node makes its rental unknown and is off sale; both come back, and the time is billed once', async () => {
    cluster.node.freeze()
    try {
      await untilStatus(ada, first.id, 'unknown')
      await waitFor('the node to be off sale', async () => (await listingOf(server, node))?.status !== 'node_ready')
    } finally {
      cluster.node.thaw()
    }
    await untilStatus(ada, first.id, 'online')
    await waitFor('the node to be on sale', async () => (await listingOf(server, node))?.status === 'node_ready')
    const { lastSeenAt } = await eventData(ada, first, 'rental.unknown')
    const unknownAt = (await eventsOf(ada, first)).find(({ type }) => type === 'rental.unknown')?.at
    // The kubelet's last report, not the moment at which the cluster gave up on it.
    expect(instantOf(unknownAt) - instantOf(lastSeenAt)).toBeGreaterThan(3_000)
    const pod = await cluster.admin.get(podPath(address), podObject, { signal })
    expect(pod.metadata.deletionTimestamp).toBeUndefined()
  })

  test('ending it removes pod and secret, keeps its log, and bills to the nano-dollar', async () => {
    await terminate(ada, first.id)
    await untilGone(ada, first.id)
    const { admin } = cluster
    expect(await admin.find(podPath(address), podObject, { signal })).toBeUndefined()
    const secret = `/api/v1/namespaces/${address.namespace}/secrets/${address.name}`
    expect(await admin.find(secret, anyObject, { signal })).toBeUndefined()
    const due = await dueForInstance(ada, first)
    expect(await charged(ada, first)).toBe(due)
    expect(due).toBeGreaterThan(0n)
    expect(due).toBeLessThan(LAB_PRICE)
    const log = await ada.call('GET', `${rentals}/${first.id}/logs`)
    expect([log.status, log.body]).toEqual([200, expect.stringContaining('greeting: hello')])
    expect(await listingOf(server, node)).toMatchObject({ gpus_reserved: 0 })
  })

  test('a program that ends fails the rental with its exit code, and an image that does not exist with that', async () => {
    const ends = await rentInstance(ada, node, image, { command: ['sh', '-c', 'sleep 1; exit 3'] })
    await waitFor('its failure', async () => (await detailOf(ends)).statusReason === 'process_exited')
    expect((await detailOf(ends)).statusMessage).toContain('code 3')
    const absent = { name: `${cluster.registry.address}/no/such-image`, tag: '1' }
    const unpulled = await rentInstance(ada, node, absent)
    await waitFor('its failure', async () => (await detailOf(unpulled)).statusReason === 'image_not_found')
    for (const id of [ends, unpulled]) await terminate(ada, id)
    for (const id of [ends, unpulled]) await untilGone(ada, id)
  })

  const journey = () => ({ server, ada, cluster, node, image, exec, addressOf })
  sessionJourney(journey)
  volumeJourney(journey)
  metricJourney(journey)
  servingJourney(journey)

  test('on a lost node nothing is removed by force: the GPU stays taken until the node is back', async () => {
    const name = await rentInstance(ada, node, image, { command: ['sleep', '1000'] })
    const instance = await untilStatus(ada, name, 'online')
    const where = await addressOf(instance)
    cluster.node.freeze()
    try {
      await untilStatus(ada, name, 'unknown')
      await terminate(ada, name)
      await waitFor('the pod to be told', async () => {
        const pod = await cluster.admin.find(podPath(where), podObject, { signal })
        return pod?.metadata.deletionTimestamp !== undefined
      })
      expect(await rentalStatusOf(ada, name)).toBe('Terminating')
      const { machines } = await succeed(server.operator, 'GET', '/v2/operator/machines?limit=10')
      expect(machines[0]).toMatchObject({ id: node.id, gpusInUse: 1 })
    } finally {
      cluster.node.thaw()
    }
    await untilGone(ada, name)
    expect(await charged(ada, instance)).toBeLessThan(LAB_PRICE)
    expect(await checkLedgerAndEngines(server)).toEqual([])
  })

  function detailOf(name: string) {
    return succeed(ada.call, 'GET', `/v2/rentals/${name}`)
  }
})

const ownedObject = z.object({
  metadata: z.object({ ownerReferences: z.array(z.object({ kind: z.string(), uid: z.string() })) }),
})
const quotaObject = z.object({ status: z.object({ used: z.record(z.string(), z.string()) }) })

/** What a TCP port says until it closes. */
async function fetchRaw(host: string, port: number): Promise<string> {
  const socket = net.connect({ host, port })
  let text = ''
  for await (const chunk of socket) text += String(chunk)
  return text
}
