/**
 * A mixed load of well-behaved customers: each create has an idempotency key and is repeated with it until it is
 * answered, across server crashes. Their responses are kept for comparison with the database.
 */
import { randomBytes, randomInt } from 'node:crypto'
import type { Reply } from './exchange.ts'

export interface LoadTarget {
  /** The server's current address; changes with each restart. */
  url(): string
  readonly key: string
}

interface LoadResults {
  /** Successful creates: idempotency key → rental (id, or name of an instance). */
  readonly created: Map<string, string>
  /** The same for volumes. */
  readonly volumes: Map<string, number>
  refused: number
  /** Accepted stops. */
  stopped: number
  answered: number
  /** Responses that no correct server sends. */
  readonly wrong: string[]
}

/** Delay between retries while the server is down. */
const AWAY_MS = 100

const labels = [
  '',
  '',
  '',
  'fault-create-timeout',
  'fault-duplicate',
  'fault-boot-fails',
  'fault-destroy-timeout',
  'fault-create-refused',
]

export interface Load {
  readonly results: LoadResults
  stop(): Promise<void>
}

export function startLoad(target: LoadTarget, workers: number): Load {
  const results: LoadResults = {
    created: new Map(),
    volumes: new Map(),
    refused: 0,
    stopped: 0,
    answered: 0,
    wrong: [],
  }
  let stopping = false
  const worker = async (): Promise<void> => {
    while (!stopping) await oneAct(target, results, () => stopping)
  }
  const running = Array.from({ length: workers }, worker)
  return {
    results,
    stop: async () => {
      stopping = true
      await Promise.all(running)
    },
  }
}

async function oneAct(target: LoadTarget, results: LoadResults, stopping: () => boolean): Promise<void> {
  const label = labels[randomInt(labels.length)] ?? ''
  const act = randomInt(12)
  if (act < 3) {
    // Two in three are reserved: each holds a whole term and ends early.
    const term = act < 2 ? { termType: 'reserved', termPeriodDays: 30, discountPercentage: 10 } : {}
    const order = { gpuCount: 1, region: 'mock-region', label, ...term }
    return createRental(target, results, 'virtual-machine-rentals', order, stopping)
  }
  if (act < 4) {
    const storageVolume = { isNew: true, label: 'crash-volume', sizeInGb: 256 }
    return createRental(
      target,
      results,
      'bare-metal-rentals',
      { gpuCount: 8, networkType: 'infiniband', storageVolume, label },
      stopping,
    )
  }
  if (act < 6) return createInstance(target, results, stopping)
  if (act < 9) return endOne(target, results, stopping)
  if (act < 11) return powerOne(target, results, stopping)
  await until(target, results, 'GET', '/v2/customer/balance', undefined, {}, stopping)
}

async function createRental(
  target: LoadTarget,
  results: LoadResults,
  path: string,
  body: object,
  stopping: () => boolean,
): Promise<void> {
  const key = randomBytes(8).toString('hex')
  const reply = await until(
    target,
    results,
    'POST',
    `/v2/alpha/on-demand/${path}`,
    body,
    { 'Idempotency-Key': key },
    stopping,
  )
  if (reply?.status === 200) results.created.set(key, String(reply.body.id))
  else if (reply !== undefined) results.refused += 1
}

async function createInstance(target: LoadTarget, results: LoadResults, stopping: () => boolean): Promise<void> {
  const listed = await until(
    target,
    results,
    'POST',
    '/v1/marketplace',
    { filters: { available_only: true } },
    {},
    stopping,
  )
  const machines = (listed?.body.instances ?? []) as Array<{ id: string; cluster_name: string }>
  const machine = machines[machines.length === 0 ? 0 : randomInt(machines.length)]
  if (machine === undefined) return
  const key = randomBytes(8).toString('hex')
  const body = { cluster_name: machine.cluster_name, node_name: machine.id, gpu_count: 1 }
  const reply = await until(
    target,
    results,
    'POST',
    '/v1/marketplace/instances/create',
    body,
    { 'Idempotency-Key': key },
    stopping,
  )
  if (reply?.status === 200) results.created.set(key, reply.body.instance_id as string)
  else if (reply !== undefined) results.refused += 1
}

/** Starts, then stops or reboots one of the created rentals. Most refuse: they are starting, reserved or gone. */
async function powerOne(target: LoadTarget, results: LoadResults, stopping: () => boolean): Promise<void> {
  const ids = [...results.created.values()]
  const id = ids[ids.length === 0 ? 0 : randomInt(ids.length)]
  if (id === undefined) return
  for (const act of ['start', randomInt(3) === 0 ? 'reboot' : 'stop']) {
    const body = act === 'start' ? { ifNoGpu: 'wait' } : undefined
    const reply = await until(target, results, 'POST', `/v2/rentals/${id}/${act}`, body, {}, stopping)
    if (act === 'stop' && reply?.status === 200) results.stopped += 1
  }
}

/** Ends one of the created resources with the matching operation. */
async function endOne(target: LoadTarget, results: LoadResults, stopping: () => boolean): Promise<void> {
  const ids = [...results.created.values()]
  const id = ids[ids.length === 0 ? 0 : randomInt(ids.length)]
  if (id === undefined) return
  if (!/^\d+$/.test(id)) {
    await until(target, results, 'POST', '/v1/marketplace/instances/terminate', { id }, {}, stopping)
    return
  }
  for (const kind of ['virtual-machine-rentals', 'bare-metal-rentals']) {
    const path = `/v2/alpha/on-demand/${kind}/terminate`
    await until(target, results, 'POST', path, { rentalId: Number.parseInt(id, 10) }, {}, stopping)
  }
}

/** Repeats until the server answers; undefined when the load ends first. */
async function until(
  target: LoadTarget,
  results: LoadResults,
  method: string,
  path: string,
  body: unknown,
  headers: Record<string, string>,
  stopping: () => boolean,
): Promise<Reply | undefined> {
  for (;;) {
    const reply = await once(target, method, path, body, headers)
    if (reply !== undefined && reply.status !== 503) {
      results.answered += 1
      if (reply.status >= 500) results.wrong.push(`${method} ${path}: ${reply.status} ${JSON.stringify(reply.body)}`)
      return reply
    }
    if (stopping()) return undefined
    await new Promise((resolve) => setTimeout(resolve, AWAY_MS))
  }
}

async function once(
  target: LoadTarget,
  method: string,
  path: string,
  body: unknown,
  headers: Record<string, string>,
): Promise<Reply | undefined> {
  try {
    const response = await fetch(`${target.url()}${path}`, {
      method,
      headers: {
        Authorization: `Bearer ${target.key}`,
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(20_000),
    })
    return { status: response.status, headers: response.headers, body: await response.json() }
  } catch {
    // The server is down: the outcome of the request is unknown.
    return undefined
  }
}
