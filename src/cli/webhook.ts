/** `berth webhooks`: URLs that receive events, and what was delivered to them. */
import { count } from '../view/number.ts'
import { age, utcTime } from '../view/time.ts'
import { systemClock } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import type { Client, Reply } from '../client/client.ts'
import { pause } from '../client/pause.ts'
import { act, custom, list } from './row.ts'
import { fields, printable, type Screen, type Style } from './screen.ts'
import { exitCodes, type ExitCode } from './shell.ts'
import { targetOf } from './target.ts'
import type { Row } from './row-type.ts'

type Webhook = Reply<'listWebhooks'>['webhooks'][number]
type Delivery = Reply<'redeliver'>

/** A receiver has ten seconds to answer; after that the next attempt is minutes away. */
const WAIT_MS = limits.webhookTimeoutMs + 2_000
const POLL_MS = 100
const ADD_EXAMPLE = 'berth webhooks add https://example.com/berth'
const ID = 'whk_07MWBtf8EQDEaFSoUt4aN'

const webhook = targetOf<Webhook>({
  noun: 'webhook',
  arg: 'webhook',
  named: 'URL',
  list: 'berth webhooks ls',
  read: async (client) => (await client.call('listWebhooks')).webhooks,
  idOf: (one) => one.id,
  nameOf: (one) => one.url,
})

const eventFlags = {
  eventTypes: { flag: '-e, --event <type...>', help: 'send only these event types, such as rental.failed' },
  description: { flag: '-d, --description <text>', help: 'description' },
} as const

export const rows: readonly Row[] = [
  list({
    command: 'webhooks ls',
    operation: 'listWebhooks',
    rows: 'webhooks',
    description: 'list webhooks',
    noun: 'webhook',
    empty: ['There are no webhooks.', `To add one: ${ADD_EXAMPLE}`],
    columns: [
      { title: 'ID', of: (one) => one.id },
      { title: 'URL', shrink: true, of: (one) => one.url },
      { title: 'STATE', of: (one) => (one.enabled ? 'on' : { text: 'off', style: 'yellow' }) },
      { title: 'EVENTS', of: (one) => (one.eventTypes === null ? 'all' : count(one.eventTypes.length, 'type')) },
    ],
    below: (webhooks) =>
      webhooks.flatMap(({ id, disabledReason }) =>
        disabledReason === null ? [] : [`${id} was turned off: ${printable(disabledReason)}`],
      ),
    examples: ['berth webhooks ls'],
  }),
  act({
    command: 'webhooks add',
    operation: 'createWebhook',
    description: 'send events to a URL; the signing secret is shown once',
    args: [{ name: '<url>', help: 'public https URL', field: 'url' }],
    flags: eventFlags,
    done: (made, { screen }) => [
      ...fields(screen, [
        ['Webhook', made.id],
        ['URL', made.url],
        ['Secret', { text: made.secret, style: 'bold' }],
      ]),
      '',
      'The secret signs each delivery. Save it now: it is not shown again. To test it:',
      `  berth webhooks test ${made.id}`,
    ],
    examples: [`${ADD_EXAMPLE} --event rental.failed`],
  }),
  act({
    command: 'webhooks change',
    operation: 'changeWebhook',
    target: webhook,
    description: 'change the URL, event types or description',
    flags: {
      eventTypes: { ...eventFlags.eventTypes, help: 'send only these event types; none: all' },
      description: eventFlags.description,
      url: { flag: '--to <url>', help: 'new URL' },
      enabled: false,
    },
    done: ({ id }) => `Changed ${id}.`,
    examples: [`berth webhooks change ${ID} --event rental.failed`],
  }),
  switchRow('enable', true),
  switchRow('disable', false),
  act({
    command: 'webhooks rotate',
    operation: 'rotateWebhookSecret',
    target: webhook,
    description: 'create a new signing secret; it is shown once',
    onWire: (made, { found }) => ({ id: found.id, ...made }),
    done: ({ secret }, { screen }) => [
      ...fields(screen, [['Secret', { text: secret, style: 'bold' }]]),
      '',
      'Save it now: it is not shown again. The old secret also signs for another 24 hours.',
    ],
    examples: [`berth webhooks rotate ${ID}`],
  }),
  act({
    command: 'webhooks rm',
    operation: 'deleteWebhook',
    target: webhook,
    description: 'delete a webhook and its pending deliveries',
    onWire: (_, { found: { id, url } }) => ({ id, url, deleted: true }),
    done: (_, { found }) => `Deleted ${found.id}. Nothing more is sent to ${found.url}`,
    examples: [`berth webhooks rm ${ID}`],
  }),
  custom<unknown, Webhook>({
    command: 'webhooks test',
    operation: 'testWebhook',
    target: webhook,
    description: 'send a test event and wait for the result',
    run: async ({ client, screen, found: { id } }) => {
      const sent = await client.call('testWebhook', { params: { id } })
      return showAttempt(screen, await waitForAttempt(client, id, sent))
    },
    examples: [`berth webhooks test ${ID}`],
  }),
  list({
    command: 'webhooks deliveries',
    operation: 'listWebhookDeliveries',
    rows: 'deliveries',
    rowsShown: 20,
    target: webhook as never,
    description: 'list deliveries, newest first',
    noun: 'delivery',
    empty: ['Nothing was delivered yet.', 'To send a test event: berth webhooks test WEBHOOK'],
    columns: [
      { title: 'ID', of: (one) => one.id },
      { title: 'STATE', of: (one) => ({ text: one.state, style: styles[one.state] }) },
      { title: 'AGE', right: true, of: (one) => age(one.lastAttemptAt ?? one.createdAt, systemClock.now()) },
      { title: 'RESULT', shrink: true, of: (one) => (one.lastAttemptAt === null ? '' : resultOf(one)) },
      { title: 'EVENT', shrink: true, of: (one) => one.eventType },
    ],
    examples: [`berth webhooks deliveries ${ID}`],
  }),
  act({
    command: 'webhooks redeliver',
    operation: 'redeliver',
    description: 'send a delivery again',
    args: [{ name: '<delivery>', help: 'id, as shown by berth webhooks deliveries', field: 'id' }],
    done: ({ eventType }) => `Sending ${eventType} again.`,
    examples: ['berth webhooks redeliver 17'],
  }),
]

function switchRow(verb: 'enable' | 'disable', enabled: boolean): Row {
  return act({
    command: `webhooks ${verb}`,
    operation: 'changeWebhook',
    target: webhook,
    only: [],
    fixed: { enabled },
    description: enabled ? 'turn a webhook on' : 'turn a webhook off and drop pending deliveries',
    done: ({ id }) => `${id} is ${enabled ? 'on' : 'off'}.`,
    examples: [`berth webhooks ${verb} ${ID}`],
  })
}

/** The first attempt comes at once; its result is in the list of deliveries. */
async function waitForAttempt(client: Client, webhookId: string, sent: Delivery): Promise<Delivery> {
  const never = new AbortController().signal
  const until = performance.now() + WAIT_MS
  let delivery = sent
  // An attempt is counted when it begins, and has a time only once it has ended.
  while (delivery.lastAttemptAt === null && performance.now() < until) {
    await pause(POLL_MS, never)
    const { deliveries } = await client.call('listWebhookDeliveries', { params: { id: webhookId } })
    delivery = deliveries.find(({ id }) => id === sent.id) ?? delivery
  }
  return delivery
}

function showAttempt(screen: Screen, delivery: Delivery): ExitCode {
  const { id, state, lastAttemptAt } = delivery
  screen.show(delivery, () => {
    if (state === 'delivered') return [`Delivered: ${printable(resultOf(delivery))}.`]
    if (lastAttemptAt === null) {
      return [`Delivery ${id} has not been attempted yet. To see it later: berth webhooks deliveries WEBHOOK`]
    }
    return [
      `Not delivered: ${printable(resultOf(delivery))}.`,
      ...(delivery.nextAttemptAt === null ? [] : [`Next attempt at ${utcTime(delivery.nextAttemptAt)}.`]),
    ]
  })
  return state === 'delivered' || lastAttemptAt === null ? exitCodes.ok : exitCodes.failed
}

const styles = {
  delivered: 'green',
  failed: 'red',
  pending: 'yellow',
} as const satisfies Record<Delivery['state'], Style>

function resultOf({ lastStatus, lastError, attempts }: Delivery): string {
  const result = lastError ?? `status ${lastStatus ?? 'unknown'}`
  return attempts > 1 ? `${result}, ${attempts} attempts` : result
}
