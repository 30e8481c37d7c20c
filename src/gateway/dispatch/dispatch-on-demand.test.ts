/** Models that start on demand: calls wait for a replica, which is reached through the link of its host. */
import net from 'node:net'
import { Duplex } from 'node:stream'
import { expect, test } from 'vitest'
import { ask, catalogOf, send, startDispatcher, startEngine } from '../../../test/harness/dispatcher.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { MuxClosed } from '../../base/net/mux-closed.ts'
import { callOn, deploymentOn, modelOn, type SimulatedModel } from '../../../test/sim/model-server-caller.ts'
import type { ModelServer } from '../../../test/sim/model-server.ts'
import type { LinkAddress, ServedModel } from '../catalog.ts'
import { chatAnswer } from '../dialect/chat.ts'
import { buildChatCall } from '../dialect/chat-call.ts'
import { chatForm } from '../dialect/engine-request.ts'
import type { Caller } from '../call.ts'

const link: LinkAddress = { kind: 'link', hostId: 'host-1', workloadId: 'w-1', port: 8_000 }
const BODY = { model: 'm', messages: [] }

function onDemand(model: SimulatedModel, waitMs = 60_000): SimulatedModel & Pick<ServedModel, 'startsOnDemand'> {
  return { ...model, startsOnDemand: { waitMs } }
}

const replica = (engine: ModelServer) => deploymentOn(engine, { id: 'rep', address: link })

/** The engine stands for the machine at the end of the link. */
function dialTo(engine: ModelServer, dialled: LinkAddress[]) {
  const { address } = deploymentOn(engine)
  if (address.kind !== 'tcp') throw new Error('the engine has no TCP address')
  return (to: LinkAddress) => {
    dialled.push(to)
    return net.connect(address.port, address.host)
  }
}

test('calls at zero wait, are reported at once, and are answered through the link when a replica is ready', async () => {
  const engine = await startEngine()
  const dialled: LinkAddress[] = []
  const waiting: string[] = []
  const empty = onDemand(modelOn([]))
  const dispatcher = startDispatcher(empty, {
    dial: dialTo(engine, dialled),
    onWaiting: (model) => waiting.push(model),
  })
  const calls = [1, 2, 3].map(() => send(dispatcher, callOn(empty, {}, BODY)))
  expect(waiting).toEqual([empty.name, empty.name, empty.name])
  expect(dispatcher.stats().models).toMatchObject([{ queued: 3 }])
  expect(calls.map(({ handle }) => handle.ahead())).toEqual([0, 1, 2])
  dispatcher.setCatalog(catalogOf(onDemand(modelOn([replica(engine)]))))
  for (const { sink } of calls) expect((await sink.done).failure).toBeUndefined()
  expect(dialled[0]).toEqual(link)
})

test('a call gets 503 with Retry-After if no replica is ready by its deadline, and not before', async () => {
  const empty = onDemand(modelOn([]), 300)
  const dispatcher = startDispatcher(empty)
  const from = performance.now()
  const { failure } = await ask(dispatcher, callOn(empty, {}, BODY))
  expect(failure).toMatchObject({ kind: 'overloaded', retryAfterMs: expect.any(Number) as number })
  expect(performance.now() - from).toBeGreaterThanOrEqual(300)
})

test('a lost host makes calls wait for another replica instead of failing', async () => {
  const engine = await startEngine()
  const model = onDemand(modelOn([replica(engine)]))
  const dialled: LinkAddress[] = []
  let isConnected = false
  const dial = dialTo(engine, dialled)
  const dispatcher = startDispatcher(model, {
    dial: (to) => {
      if (!isConnected) throw new Error('the host is not connected')
      return dial(to)
    },
  })
  const { sink } = send(dispatcher, callOn(model, {}, BODY))
  await waitFor('the call to wait', () => dispatcher.stats().models[0]?.queued === 1)
  isConnected = true
  dispatcher.setCatalog(catalogOf(onDemand(modelOn([{ ...replica(engine), id: 'another' }]))))
  expect((await sink.done).failure).toBeUndefined()
})

test('a host that comes back gets the calls that waited for it, however its connection was lost', async () => {
  const engine = await startEngine()
  const model = onDemand(modelOn([replica(engine)]))
  const dialled: LinkAddress[] = []
  const dial = dialTo(engine, dialled)
  let tries = 0
  const dispatcher = startDispatcher(model, {
    dial: (to) => {
      tries += 1
      if (tries <= 4) throw new Error('the host is not connected')
      // The connection to the server of the host, or of that server to the host, is lost.
      if (tries <= 8) return new Duplex({ read: () => {}, write: () => {} }).destroy(new MuxClosed('lost'))
      return dial(to)
    },
  })
  const calls = [1, 2, 3].map(() => send(dispatcher, callOn(model, {}, BODY)))
  for (const { sink } of calls) expect((await sink.done).failure).toBeUndefined()
  expect(engine.requests).toHaveLength(3)
})

test('a call for a host that stays away ends at its time limit', async () => {
  const engine = await startEngine()
  const model = onDemand(modelOn([replica(engine)]), 600)
  const dispatcher = startDispatcher(model, {
    dial: () => {
      throw new Error('the host is not connected')
    },
  })
  const from = performance.now()
  const { failure } = await ask(dispatcher, callOn(model, {}, BODY))
  expect(failure).toMatchObject({ kind: 'overloaded', retryAfterMs: expect.any(Number) as number })
  expect(performance.now() - from).toBeGreaterThanOrEqual(600)
})

test('a call that its only replica answers with an error does not wait for another', async () => {
  const engine = await startEngine({ behaviour: { fault: { kind: 'status', status: 500 } } })
  const model = onDemand(modelOn([replica(engine)]))
  const dispatcher = startDispatcher(model, { dial: dialTo(engine, []) })
  expect((await ask(dispatcher, callOn(model, {}, BODY))).failure?.kind).toBe('status')
  expect(engine.requests).toHaveLength(2)
})

test('a model without replicas that start is refused at once', async () => {
  const empty = modelOn([])
  const dispatcher = startDispatcher(empty)
  expect((await ask(dispatcher, callOn(empty, {}, BODY))).failure?.kind).toBe('no_deployment')
})

test('a cancelled call leaves the queue', () => {
  const empty = onDemand(modelOn([]))
  const dispatcher = startDispatcher(empty)
  const { handle } = send(dispatcher, callOn(empty, {}, BODY))
  handle.cancel()
  expect(dispatcher.stats().models).toMatchObject([{ queued: 0 }])
})

test('a private model is unknown to other accounts, as if it did not exist', () => {
  const model = { ...modelOn([]), visibleTo: ['acc_owner', 'acc_friend'] }
  const catalog = catalogOf(model)
  const reasonFor = (accountId: string, name: string): string | undefined => {
    const request = {
      operation: 'chat',
      form: chatForm,
      answer: chatAnswer,
      body: { model: name, messages: [] },
      bodyBytes: 2,
      bodyText: () => '',
      messages: undefined,
    } as const
    const caller = { accountId, allowedModels: null, account: { keepsBodies: false } } as unknown as Caller
    const built = buildChatCall(catalog, caller, request, { requestId: 'req_1' } as never)
    return 'kind' in built ? `${built.reason}: ${built.message.replace(name, 'X')}` : undefined
  }
  expect(reasonFor('acc_owner', model.name)).toBeUndefined()
  expect(reasonFor('acc_friend', model.name)).toBeUndefined()
  expect(reasonFor('acc_other', model.name)).toMatch(/^model_not_found/)
  expect(reasonFor('acc_other', model.name)).toBe(reasonFor('acc_other', 'never-was'))
})
