/** `berth webhooks`: URLs that receive events, and what was delivered to them. */
import { systemClock } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { Client, Reply } from '../../client/client.ts'
import { pause } from '../../client/pause.ts'
import { count } from '../../view/number.ts'
import { age, utcTime } from '../../view/time.ts'
import { act, custom, list } from '../kit/row.ts'
import { bold, toned, type Screen } from '../kit/screen.ts'
import { exitCodes, type ExitCode } from '../kit/shell.ts'
import { targetOf } from '../kit/target.ts'
import type { Row } from '../kit/row-type.ts'

type Webhook = Reply<'listWebhooks'>['webhooks'][number]
type Delivery = Reply<'redeliver'>

/** A receiver has ten seconds to answer; after that the next attempt is minutes away. */
const WAIT_MS = limits.webhookTimeoutMs + 2_000
const POLL_MS = 100
const ADD_EXAMPLE = 'berth webhooks create https://example.com/berth'
const ID = 'whk_07MWBtf8EQDEaFSoUt4aN'

const webhook = targetOf('webhook', 'berth webhooks ls', {
  read: async (client) => (await client.call('listWebhooks')).webhooks,
  id: 'id',
  name: 'url',
  named: 'URL',
})

const DESCRIPTION = '-d, --description <text>  description'
const EVENTS = '-e, --event <type...>  send only these event types'

export const rows: readonly Row[] = [
  list('webhooks ls', 'listWebhooks', 'list webhooks', {
    columns: [
      'id',
      'url',
      {
        STATE: ({ enabled }) => (enabled ? 'on' : toned('warn', 'off')),
        EVENTS: ({ eventTypes }) => (eventTypes === null ? 'all' : count(eventTypes.length, 'type')),
      },
    ],
    empty: `To add one: ${ADD_EXAMPLE}`,
    below: (webhooks) =>
      webhooks.map(({ id, disabledReason }) =>
        disabledReason === null ? undefined : `${id} was turned off: ${disabledReason}`,
      ),
  }),
  act('webhooks create', 'createWebhook', 'send events to a URL; the signing secret is shown once', {
    args: { '<url>': 'public https URL' },
    flags: { eventTypes: `${EVENTS}, such as rental.failed`, description: DESCRIPTION },
    examples: [`${ADD_EXAMPLE} --event rental.failed`],
    done: (reply) => [
      ['Webhook', reply.id],
      ['URL', reply.url],
      ['Secret', bold(reply.secret)],
      '',
      'The secret signs each delivery. Save it now: it is not shown again. To test it:',
      `  berth webhooks test ${reply.id}`,
    ],
  }),
  act('webhooks set', 'changeWebhook', 'change the URL, event types or description', {
    target: webhook,
    flags: { eventTypes: `${EVENTS}; none: all`, description: DESCRIPTION, url: '--to <url>  new URL', enabled: false },
    examples: [`berth webhooks set ${ID} --event rental.failed`],
    done: ({ id }) => `Changed ${id}.`,
  }),
  switchRow('enable', true, 'turn a webhook on'),
  switchRow('disable', false, 'turn a webhook off and drop pending deliveries'),
  act('webhooks rotate', 'rotateWebhookSecret', 'create a new signing secret; it is shown once', {
    target: webhook,
    examples: [`berth webhooks rotate ${ID}`],
    onWire: (reply, { target }) => ({ id: target.id, ...reply }),
    done: ({ secret }) => [
      ['Secret', bold(secret)],
      '',
      'Save it now: it is not shown again. The old secret also signs for another 24 hours.',
    ],
  }),
  act('webhooks rm', 'deleteWebhook', 'delete a webhook and its pending deliveries; asks first', {
    target: webhook,
    confirm: ({ target }) => `Delete the webhook ${target.id}? Nothing more is sent to ${target.url}.`,
    examples: [`berth webhooks rm ${ID}`],
    onWire: (_, { target: { id, url } }) => ({ id, url, deleted: true }),
    done: (_, { target }) => `Deleted ${target.id}. Nothing more is sent to ${target.url}`,
  }),
  custom<unknown, Webhook>('webhooks test', 'send a test event and wait for the result', {
    operation: 'testWebhook',
    target: webhook,
    examples: [`berth webhooks test ${ID}`],
    run: async ({ client, screen, target: { id } }) => {
      const sent = await client.call('testWebhook', { params: { id } })
      return showAttempt(screen, await waitForAttempt(client, id, sent))
    },
  }),
  list('webhooks deliveries', 'listWebhookDeliveries', 'list deliveries, newest first', {
    target: webhook,
    rowsShown: 20,
    columns: [
      'id',
      'state',
      {
        AGE: (one) => age(one.lastAttemptAt ?? one.createdAt, systemClock.now()),
        RESULT: (one) => (one.lastAttemptAt === null ? '' : resultOf(one)),
      },
      'eventType:EVENT',
    ],
    empty: ['Nothing was delivered yet.', 'To send a test event: berth webhooks test WEBHOOK'],
    examples: [`berth webhooks deliveries ${ID}`],
  }),
  act('webhooks redeliver', 'redeliver', 'send a delivery again', {
    args: { '<delivery>': 'id, as shown by berth webhooks deliveries' },
    examples: ['berth webhooks redeliver 17'],
    done: ({ eventType }) => `Sending ${eventType} again.`,
  }),
]

function switchRow(verb: 'enable' | 'disable', enabled: boolean, description: string): Row {
  return act(`webhooks ${verb}`, 'changeWebhook', description, {
    target: webhook,
    only: [],
    fixed: { enabled },
    examples: [`berth webhooks ${verb} ${ID}`],
    done: ({ id }) => `${id} is ${enabled ? 'on' : 'off'}.`,
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
  const { id, state, lastAttemptAt, nextAttemptAt } = delivery
  screen.show(delivery, () => {
    if (state === 'delivered') return [`Delivered: ${resultOf(delivery)}.`]
    if (lastAttemptAt === null) {
      return [`Delivery ${id} has not been attempted yet. To see it later: berth webhooks deliveries WEBHOOK`]
    }
    return [
      `Not delivered: ${resultOf(delivery)}.`,
      nextAttemptAt === null ? undefined : `Next attempt at ${utcTime(nextAttemptAt)}.`,
    ]
  })
  return state === 'delivered' || lastAttemptAt === null ? exitCodes.ok : exitCodes.failed
}

function resultOf({ lastStatus, lastError, attempts }: Delivery): string {
  const result = lastError ?? `status ${lastStatus ?? 'unknown'}`
  return attempts > 1 ? `${result}, ${attempts} attempts` : result
}
