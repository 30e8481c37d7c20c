/** `berth webhooks`: events pushed to a URL. What was delivered is in webhook-delivery.ts. */
import { randomUUID } from 'node:crypto'
import { InvalidArgumentError, type Command } from 'commander'
import { eventTypes, type EventType } from '../contract/event.ts'
import type { Client, Reply } from '../client/client.ts'
import { count } from '../view/number.ts'
import { chooseOne } from './choice.ts'
import { fields, table, type Cell } from './screen.ts'
import { GROUP_USAGE, type Run } from './session.ts'
import { addDeliveryCommands } from './webhook-delivery.ts'

type Webhook = Reply<'listWebhooks'>['webhooks'][number]

const WHICH = 'its id or URL, as berth webhooks ls shows it'
const EXAMPLE = 'berth webhooks add https://example.com/berth'

export function addWebhookCommands(program: Command, run: Run): void {
  const webhooks = program
    .command('webhooks')
    .description('events pushed to a URL')
    .usage(GROUP_USAGE)
    .commandsGroup('Customers:')
  addList(webhooks, run)
  addAdd(webhooks, run)
  addSwitch(webhooks, run, 'enable', true)
  addSwitch(webhooks, run, 'disable', false)
  addRotate(webhooks, run)
  addRemove(webhooks, run)
  addDeliveryCommands(webhooks, run, { findWebhook, which: WHICH })
}

function addList(webhooks: Command, run: Run): void {
  webhooks
    .command('ls', { isDefault: true })
    .description('where events are pushed to')
    .addHelpText('after', '\nExample:\n  berth webhooks ls')
    .action(
      run('customer', async ({ client, screen }) => {
        const answer = await client.call('listWebhooks')
        screen.show(answer, () => {
          if (answer.webhooks.length === 0) return ['There are no webhooks.', `Add one: ${EXAMPLE}`]
          const rows = answer.webhooks.map((one): Cell[] => [
            one.id,
            one.url,
            one.enabled ? 'on' : { text: 'off', style: 'yellow' },
            one.eventTypes === null ? 'all' : count(one.eventTypes.length, 'type'),
          ])
          const columns = [
            { title: 'ID' },
            { title: 'URL', shrink: true },
            { title: 'IS' },
            { title: 'EVENTS' },
          ] as const
          const whyOff = answer.webhooks.flatMap(({ id, disabledReason }) =>
            disabledReason === null ? [] : [`${id} was turned off: ${disabledReason}`],
          )
          return [...table(screen, columns, rows), '', ...whyOff, count(rows.length, 'webhook')]
        })
      }),
    )
}

function addAdd(webhooks: Command, run: Run): void {
  const add = webhooks
    .command('add')
    .description('push events to a URL; the secret is shown once')
    .argument('<url>', 'https, and public')
    .option('-e, --event <type...>', 'only these types, such as rental.failed (all)', parseTypes)
    .option('-d, --description <text>', 'what it is for')
    .addHelpText('after', `\nExample:\n  ${EXAMPLE} --event rental.failed`)
  add.action(
    run('customer', async ({ client, screen }, url = '') => {
      const { event, description } = add.opts<{ event?: EventType[]; description?: string }>()
      const body = {
        url,
        ...(event === undefined ? {} : { eventTypes: [...new Set(event)] }),
        ...(description === undefined ? {} : { description }),
      }
      const made = await client.call('createWebhook', { body, idempotencyKey: randomUUID() })
      screen.show(made, () => [
        ...fields(screen, [
          ['Webhook', made.id],
          ['URL', made.url],
          ['Secret', { text: made.secret, style: 'bold' }],
        ]),
        '',
        'The secret signs what is sent. It is not shown again: keep it now. Try it with:',
        `  berth webhooks test ${made.id}`,
      ])
    }),
  )
}

function addSwitch(webhooks: Command, run: Run, verb: 'enable' | 'disable', enabled: boolean): void {
  webhooks
    .command(verb)
    .description(enabled ? 'push events again' : 'push no more, and drop what waits')
    .argument('<webhook>', WHICH)
    .addHelpText('after', `\nExample:\n  berth webhooks ${verb} whk_07MWBtf8EQDEaFSoUt4aN`)
    .action(
      run('customer', async ({ client, screen }, wanted = '') => {
        const { id } = await findWebhook(client, wanted)
        const changed = await client.call('changeWebhook', { params: { id }, body: { enabled } })
        screen.show(changed, () => [`${id} is ${enabled ? 'on' : 'off'}.`])
      }),
    )
}

function addRotate(webhooks: Command, run: Run): void {
  webhooks
    .command('rotate')
    .description('make a new secret; it is shown once')
    .argument('<webhook>', WHICH)
    .addHelpText('after', '\nExample:\n  berth webhooks rotate whk_07MWBtf8EQDEaFSoUt4aN')
    .action(
      run('customer', async ({ client, screen }, wanted = '') => {
        const { id } = await findWebhook(client, wanted)
        const made = await client.call('rotateWebhookSecret', { params: { id } })
        screen.show({ id, ...made }, () => [
          ...fields(screen, [['Secret', { text: made.secret, style: 'bold' }]]),
          '',
          'It is not shown again: keep it now. The old one signs beside it for 24 hours.',
        ])
      }),
    )
}

function addRemove(webhooks: Command, run: Run): void {
  webhooks
    .command('rm')
    .description('delete a webhook, with what waits for it')
    .argument('<webhook>', WHICH)
    .addHelpText('after', '\nExample:\n  berth webhooks rm whk_07MWBtf8EQDEaFSoUt4aN')
    .action(
      run('customer', async ({ client, screen }, wanted = '') => {
        const { id, url } = await findWebhook(client, wanted)
        await client.call('deleteWebhook', { params: { id } })
        screen.show({ id, url, deleted: true }, () => [`${id} is gone. Nothing more is pushed to ${url}`])
      }),
    )
}

async function findWebhook(client: Client, wanted: string): Promise<Webhook> {
  const { webhooks } = await client.call('listWebhooks')
  const by = { idOf: (one: Webhook) => one.id, nameOf: (one: Webhook) => one.url }
  return chooseOne(webhooks, wanted, by, { noun: 'webhook', list: 'berth webhooks ls' })
}

/** Given for each word, with those before it. */
function parseTypes(text: string, before: readonly EventType[] | undefined): readonly EventType[] {
  if (!Object.hasOwn(eventTypes, text)) {
    throw new InvalidArgumentError(`Types are: ${Object.keys(eventTypes).join(', ')}.`)
  }
  return [...(before ?? []), text as EventType]
}
