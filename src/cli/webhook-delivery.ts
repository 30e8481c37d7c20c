/** What was pushed to a webhook and what came of it; to send one again, and to try a webhook out. */
import type { Command } from 'commander'
import { systemClock } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import type { Client, Reply } from '../client/client.ts'
import { pause } from '../client/pause.ts'
import { age, utcTime } from '../view/time.ts'
import { printable, table, type Cell, type Screen, type Style } from './screen.ts'
import type { Run } from './session.ts'
import { exitCodes, type ExitCode } from './shell.ts'
import { moreOr, parseWhole } from './supply.ts'

type Delivery = Reply<'redeliver'>

const SHOWN = 20
/** A receiver has ten seconds to answer; after that the next attempt is minutes away. */
const WAIT_MS = limits.webhookTimeoutMs + 2_000
const EVERY_MS = 100

interface Finding {
  readonly findWebhook: (client: Client, wanted: string) => Promise<{ readonly id: string }>
  readonly which: string
}

export function addDeliveryCommands(webhooks: Command, run: Run, finding: Finding): void {
  addTest(webhooks, run, finding)
  addDeliveries(webhooks, run, finding)
  addRedeliver(webhooks, run)
}

function addTest(webhooks: Command, run: Run, { findWebhook, which }: Finding): void {
  webhooks
    .command('test')
    .description('push a test event, and wait for what comes of it')
    .argument('<webhook>', which)
    .addHelpText('after', '\nExample:\n  berth webhooks test whk_07MWBtf8EQDEaFSoUt4aN')
    .action(
      run('customer', async ({ client, screen }, wanted = '') => {
        const { id } = await findWebhook(client, wanted)
        const sent = await client.call('testWebhook', { params: { id } })
        return showAttempt(screen, await waitForAttempt(client, id, sent))
      }),
    )
}

/** The first attempt comes at once; the delivery is found in the list of its webhook. */
async function waitForAttempt(client: Client, webhookId: string, sent: Delivery): Promise<Delivery> {
  const never = new AbortController().signal
  const until = performance.now() + WAIT_MS
  let delivery = sent
  // An attempt is counted when it begins; when it has ended, it has a time.
  while (delivery.lastAttemptAt === null && performance.now() < until) {
    await pause(EVERY_MS, never)
    const { deliveries } = await client.call('listWebhookDeliveries', { params: { id: webhookId } })
    delivery = deliveries.find(({ id }) => id === sent.id) ?? delivery
  }
  return delivery
}

function showAttempt(screen: Screen, delivery: Delivery): ExitCode {
  const { id, state, lastAttemptAt } = delivery
  screen.show(delivery, () => {
    if (state === 'delivered') return [`Delivered: ${printable(lastWords(delivery))}.`]
    if (lastAttemptAt === null)
      return [`Delivery ${id} has not been tried yet; berth webhooks deliveries shows it later.`]
    return [
      `Not delivered: ${printable(lastWords(delivery))}.`,
      ...(delivery.nextAttemptAt === null ? [] : [`It is tried again at ${utcTime(delivery.nextAttemptAt)}.`]),
    ]
  })
  return state === 'delivered' || lastAttemptAt === null ? exitCodes.ok : exitCodes.failed
}

function addDeliveries(webhooks: Command, run: Run, { findWebhook, which }: Finding): void {
  const deliveries = webhooks
    .command('deliveries')
    .description('what was pushed, newest first')
    .argument('<webhook>', which)
    .option('-n, --limit <count>', 'how many', parseWhole(1, limits.pageRows), SHOWN)
    .option('--cursor <cursor>', 'go on where a long list was cut')
    .addHelpText('after', '\nExample:\n  berth webhooks deliveries whk_07MWBtf8EQDEaFSoUt4aN')
  deliveries.action(
    run('customer', async ({ client, screen }, wanted = '') => {
      const { limit, cursor } = deliveries.opts<{ limit: number; cursor?: string }>()
      const { id } = await findWebhook(client, wanted)
      const query = { limit, ...(cursor === undefined ? {} : { cursor }) }
      const page = await client.call('listWebhookDeliveries', { params: { id }, query })
      screen.show(page, () => {
        if (page.deliveries.length === 0) return ['Nothing was pushed yet.', `Try it: berth webhooks test ${id}`]
        return [
          ...table(screen, columns, page.deliveries.map(cellsOf)),
          '',
          moreOr(page.nextCursor, `berth webhooks deliveries ${id}`, countWords(page.deliveries.length)),
        ]
      })
    }),
  )
}

const columns = [
  { title: 'ID' },
  { title: 'STATE' },
  { title: 'AGO', right: true },
  { title: 'ANSWER', shrink: true },
  { title: 'EVENT', shrink: true },
] as const

function cellsOf(delivery: Delivery): Cell[] {
  return [
    delivery.id,
    { text: delivery.state, style: styleOf(delivery.state) },
    age(delivery.lastAttemptAt ?? delivery.createdAt, systemClock.now()),
    delivery.lastAttemptAt === null ? '' : lastWords(delivery),
    delivery.eventType,
  ]
}

function countWords(n: number): string {
  return n === 1 ? '1 delivery' : `${n} deliveries`
}

function styleOf(state: Delivery['state']): Style {
  if (state === 'delivered') return 'green'
  return state === 'failed' ? 'red' : 'yellow'
}

function lastWords({ lastStatus, lastError, attempts }: Delivery): string {
  const tries = attempts > 1 ? `, ${attempts} tries` : ''
  return `${lastError ?? `status ${lastStatus ?? 'unknown'}`}${tries}`
}

function addRedeliver(webhooks: Command, run: Run): void {
  webhooks
    .command('redeliver')
    .description('push one again')
    .argument('<delivery>', 'its id, as berth webhooks deliveries shows it')
    .addHelpText('after', '\nExample:\n  berth webhooks redeliver 17')
    .action(
      run('customer', async ({ client, screen }, id = '') => {
        const delivery = await client.call('redeliver', { params: { id } })
        screen.show(delivery, () => [`${delivery.eventType} is pushed again.`])
      }),
    )
}
