/** Our own engine on a real host: its image and the weights of a model come from the server, once, over signed requests. */
import { createHash } from 'node:crypto'
import { readdir, readFile, rename } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { systemClock } from '../src/base/instant.ts'
import { createInstance } from '../src/app/marketplace.ts'
import { ENGINE_IMAGE_PATH } from '../src/contract/agent.ts'
import type { Weights } from '../src/contract/weights.ts'
import { isProven, type ReadinessJob } from '../src/domain/readiness.ts'
import { replicaOf } from '../src/domain/recipe.ts'
import { writeTinyGguf } from '../src/sim/tiny-gguf.ts'
import { transact } from '../src/store/database.ts'
import { whyNoDockerLab } from './harness/docker-lab.ts'
import { findInstance, terminate, untilGone, untilStatus } from './harness/instance.ts'
import { succeed } from './harness/journey.ts'
import { startMachines, type ContainerHost, type Customer, type Machines } from './harness/machines.ts'
import { waitFor } from './harness/wait.ts'

interface Ordered {
  readonly id: string
  readonly readiness: ReadinessJob
}

const why = whyNoDockerLab()
const KEY = 'the key of a replica'
/** Room for one of the two models, each of 114 KB. */
const WEIGHTS_GB = '0.0002'

describe.skipIf(why !== undefined)(`berth/engine${why === undefined ? '' : ` (skipped: ${why})`}`, () => {
  let machines: Machines
  let ada: Customer
  let host: ContainerHost
  const models = new Map<string, { weights: Weights; file: string }>()

  beforeAll(async () => {
    machines = await startMachines({
      hosts: 0,
      env: { BERTH_ENGINE_DIR: path.dirname(inject('serverBundle')), BERTH_LOCAL_ENGINES: 'true' },
    })
    host = await machines.addHost({ args: ['--weights-gb', WEIGHTS_GB], gpus: 'rtx4090:3' })
    ada = await machines.customer()
    for (const [seed, name] of ['house/one', 'house/two'].entries()) models.set(name, await addModel(name, seed))
  }, 120_000)
  afterAll(() => machines.close())

  /** A model in the store of the server, which does not run it itself. */
  async function addModel(name: string, seed: number): Promise<{ weights: Weights; file: string }> {
    const file = path.join(machines.server.dataDir, `${seed}.gguf`)
    await writeTinyGguf(file, { seed })
    const content = await readFile(file)
    const [bytes, sha256] = [content.length, createHash('sha256').update(content).digest('hex')]
    const files = [{ source: `file:${file}`, file: 'model.gguf', bytes, sha256 }]
    const body = { name, kind: 'chat', engine: 'llama', files, enabled: false }
    await succeed(machines.server.operator, 'POST', '/v2/operator/models', body)
    const source = { kind: 'server', model: name, file: 'model.gguf' } as const
    return { file, weights: { mountPath: '/models', files: [{ path: 'model.gguf', bytes, sha256, source }] } }
  }

  /** As a managed deployment orders a replica. */
  async function order(name: string): Promise<Ordered> {
    const model = models.get(name)
    if (model === undefined) throw new Error(`there is no ${name}`)
    const { weights } = model
    const made = replicaOf({ name: 'berth-engine', weights }, { name, kind: 'chat', gpuCount: 1, apiKey: KEY })
    if (!made.ok) throw new Error(made.message)
    const { image, args, env, port, readiness } = made.value
    const { app } = machines.server
    const key = await app.database.db
      .selectFrom('api_key')
      .select(['public_id', 'person_id'])
      .where('account_id', '=', ada.id)
      .executeTakeFirstOrThrow()
    const actor = {
      accountId: ada.id,
      personId: key.person_id,
      keyId: key.public_id,
      role: 'owner',
      scopes: [],
    } as const
    const placed = await transact(app.database, (tx) =>
      createInstance(app, tx, actor, {
        clusterName: 'lab',
        nodeName: host.id,
        gpuCount: 1,
        image: { name: image.name },
        args: [...(args ?? [])],
        env: { ...env },
        ports: [port],
        weights,
      }),
    )
    if (!placed.ok) throw new Error(placed.message)
    return { id: placed.value.name, readiness }
  }

  async function ask({ id, readiness }: Ordered, key: string) {
    const [mapped] = (await findInstance(ada, id))?.portMappings ?? []
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const url = `http://${mapped?.domain}:${mapped?.port}${readiness.path}`
    const reply = await fetch(url, { method: 'POST', headers, body: JSON.stringify(readiness.body) })
    return { status: reply.status, body: new Uint8Array(await reply.arrayBuffer()) }
  }

  const untilAnswers = async (ordered: Ordered): Promise<void> => {
    await untilStatus(ada, ordered.id, 'online', 120_000)
    await waitFor(
      `${ordered.id} to answer a chat`,
      async () => {
        const { status, body } = await ask(ordered, KEY).catch(() => ({ status: 0, body: new Uint8Array() }))
        return isProven(ordered.readiness, status, body)
      },
      60_000,
    )
  }
  const sets = (): Promise<string[]> => readdir(path.join(host.dir, 'weights', 'sets'))

  test('hands nothing out without the signature of a host', async () => {
    expect((await machines.server.anonymous('GET', ENGINE_IMAGE_PATH)).status).toBe(401)
    const forged = { authorization: `Berth-Agent ${host.id}:${systemClock.now()}:${'A'.repeat(86)}` }
    expect((await machines.server.anonymous('GET', ENGINE_IMAGE_PATH, undefined, forged)).status).toBe(401)
  })

  test('answers chats on a host from one download, keeps weights in use and evicts others by budget', async () => {
    const first = await order('house/one')
    await untilAnswers(first)
    expect((await ask(first, 'another key')).status).toBe(401)
    const images = await host.docker.docker('images', 'berth/engine', '--format', '{{.Tag}}')
    expect(images.trim().split('\n')).toHaveLength(1)

    // The server no longer has the file: a second download would fail.
    const { file } = models.get('house/one') ?? { file: '' }
    await rename(file, `${file}.away`)
    const second = await order('house/one')
    await untilAnswers(second)
    expect(await sets()).toHaveLength(1)
    const users = await host.docker.docker('ps', '--filter', 'label=berth.weights', '--format', '{{.Names}}')
    expect(users.trim().split('\n')).toHaveLength(2)

    const refused = await order('house/two')
    await untilStatus(ada, refused.id, 'failed', 60_000)
    expect(await sets()).toHaveLength(1)
    for (const { id } of [first, second, refused]) {
      await terminate(ada, id)
      await untilGone(ada, id)
    }
    const [before] = await sets()
    await untilAnswers(await order('house/two'))
    expect(await sets()).not.toContain(before)
  }, 240_000)
})
