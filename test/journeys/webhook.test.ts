/** A receiver gets every event of a rental as a signed message, from a server that runs its own loops. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Webhook } from 'standardwebhooks'
import { checkLedgerAndEngines, succeed } from '../harness/journey.ts'
import { startReceiver, status, type Received, type Receiver } from '../harness/receiver.ts'
import { testServer, type Call, type TestServer } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'

let server: TestServer
let receiver: Receiver
let ada: { id: string; key: string; call: Call }
beforeAll(async () => {
  server = await testServer()
  receiver = await startReceiver()
  ada = await server.account({ usd: '100' })
})
afterAll(async () => {
  await server.close()
  await receiver.close()
})

interface Message {
  readonly type: string
  readonly data: { readonly id: string; readonly rentalId?: number; readonly subject: { kind: string; id: string } }
}
const read = (one: Received): Message => JSON.parse(one.body) as Message
const toPath = (path: string): Received[] => receiver.received.filter((one) => one.path === path)
const make = (path: string, more: object = {}) =>
  succeed(ada.call, 'POST', '/v2/webhooks', { url: `${receiver.url}${path}`, ...more })
const rentAndEnd = async (): Promise<number> => {
  const path = '/v2/alpha/on-demand/virtual-machine-rentals'
  const { id } = await succeed(ada.call, 'POST', path, { gpuCount: 1, region: 'mock-region' })
  const isIn = (wanted: string) => async () =>
    (await succeed(ada.call, 'GET', `/v2/alpha/on-demand/rentals/${id}`)).status === wanted
  await waitFor('the rental to run', isIn('Running'))
  await succeed(ada.call, 'POST', `${path}/terminate`, { rentalId: id })
  await waitFor('the rental to end', isIn('Terminated'))
  return id
}

test('delivers every event of a rental once, signed with the webhook’s secret', async () => {
  const { secret, ...all } = await make('/all')
  expect(all).toMatchObject({ enabled: true, eventTypes: null, disabledReason: null })
  expect(secret).toMatch(/^whsec_/)
  const chosen = await make('/chosen', { eventTypes: ['rental.running'], description: 'only starts' })
  const rentalId = await rentAndEnd()
  const heard = await waitFor('four messages', () => toPath('/all').length === 4 && toPath('/all'))
  const messages = heard.map((one) => new Webhook(secret).verify(one.body, one.headers) as Message)
  expect(messages.map((message) => message.type).sort()).toEqual([
    'rental.created',
    'rental.running',
    'rental.terminated',
    'rental.terminating',
  ])
  expect(messages.map((message) => message.data.rentalId)).toEqual([rentalId, rentalId, rentalId, rentalId])
  expect(heard.map((one) => one.headers['webhook-id'])).toEqual(messages.map((message) => `evt_${message.data.id}`))
  expect(() => new Webhook(chosen.secret).verify(heard[0]?.body ?? '', heard[0]?.headers ?? {})).toThrow(/signature/)
  await waitFor('the chosen message', () => toPath('/chosen').length > 0)
  expect(toPath('/chosen').map((one) => read(one).type)).toEqual(['rental.running'])

  const delivered = await waitFor('the answers to be recorded', async () => {
    const { deliveries } = await succeed(ada.call, 'GET', `/v2/webhooks/${all.id}/deliveries`)
    return (deliveries as Array<{ state: string }>).every((one) => one.state === 'delivered') && deliveries
  })
  expect(delivered).toHaveLength(4)
  for (const delivery of delivered) expect(delivery).toMatchObject({ attempts: 1, lastStatus: 200, lastError: null })
})

test('retries a failing receiver with the same message', async () => {
  const { id, secret } = await make('/flaky', { eventTypes: ['rental.created'] })
  receiver.answer = (one, response) => status(one.path === '/flaky' ? 503 : 200)(one, response)
  await rentAndEnd()
  const answeredWith = (lastStatus: number) => async () => {
    const { deliveries } = await succeed(ada.call, 'GET', `/v2/webhooks/${id}/deliveries`)
    return deliveries[0]?.lastStatus === lastStatus && deliveries[0]
  }
  // A slow rental sends more than one.
  const delivery = await waitFor('a failed attempt', answeredWith(503))
  expect(delivery).toMatchObject({ state: 'pending', lastError: expect.stringContaining('503') })
  receiver.answer = status(204)
  // The next attempt is seconds away; a retry on request does not wait for it.
  await succeed(ada.call, 'POST', `/v2/webhooks/deliveries/${delivery.id}/redeliver`)
  expect(await waitFor('an attempt that succeeds', answeredWith(204))).toMatchObject({ state: 'delivered' })
  const sent = toPath('/flaky')
  expect(sent.length).toBeGreaterThan(1)
  expect(new Set(sent.map((one) => `${one.headers['webhook-id']} ${one.body}`)).size).toBe(1)
  const last = sent.at(-1)
  expect(new Webhook(secret).verify(last?.body ?? '', last?.headers ?? {})).toMatchObject({ type: 'rental.created' })
})

test('rotates a secret without a gap, marks test messages, and stops when switched off', async () => {
  const { id, secret: old } = await make('/rotated', { eventTypes: ['webhook.test'] })
  const { secret } = await succeed(ada.call, 'POST', `/v2/webhooks/${id}/rotate-secret`)
  expect(await succeed(ada.call, 'POST', `/v2/webhooks/${id}/test`)).toMatchObject({ eventType: 'webhook.test' })
  const [message] = await waitFor('the test', () => toPath('/rotated').length === 1 && toPath('/rotated'))
  for (const known of [old, secret]) {
    const said = new Webhook(known).verify(message?.body ?? '', message?.headers ?? {})
    expect(said).toMatchObject({ type: 'webhook.test', data: { subject: { kind: 'webhook', id } } })
  }
  for (const { id: each } of (await succeed(ada.call, 'GET', '/v2/webhooks')).webhooks) {
    await succeed(ada.call, 'PATCH', `/v2/webhooks/${each}`, { enabled: false })
  }
  const rentalId = await rentAndEnd()
  // Messages already under way may still arrive.
  expect(receiver.received.map((one) => read(one).data.rentalId)).not.toContain(rentalId)
  await succeed(ada.call, 'DELETE', `/v2/webhooks/${id}`)
  expect((await ada.call('POST', `/v2/webhooks/${id}/test`)).status).toBe(404)
})

test('events can be followed from the first one on instead', async () => {
  const leave = new AbortController()
  const stream = await fetch(`${server.url}/v2/events/stream?after=0`, {
    headers: { Authorization: `Bearer ${ada.key}` },
    signal: leave.signal,
  })
  const types: string[] = []
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of stream.body ?? []) {
    text += decoder.decode(chunk as Uint8Array, { stream: true })
    types.push(...[...text.matchAll(/^event: (\S+)\n/gm)].slice(types.length).map(([, type = '']) => type))
    if (types.filter((type) => type === 'rental.terminated').length === 3) break
  }
  leave.abort()
  // Without a response body there is nothing to follow.
  const head = await fetch(`${server.url}/v2/events/stream`, { method: 'HEAD' })
  expect(head.status).toBe(404)
  expect(types.slice(0, 2)).toEqual(['key.created', 'balance.credited'])
  expect(await checkLedgerAndEngines(server)).toEqual([])
})
