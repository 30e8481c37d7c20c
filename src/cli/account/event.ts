/** `berth events`: oldest first as in a log, and with -f as they happen. */
import { utcTime } from '../../view/time.ts'
import type { AccountEvent, EventRecord } from '../../contract/event.ts'
import type { EventType } from '../../contract/event-type.ts'
import { fieldOf } from '../kit/operation-field.ts'
import { custom } from '../kit/row.ts'
import { eventTone } from '../../view/event.ts'
import { printable, toneStyles, type Screen } from '../kit/screen.ts'
import { parseWhole } from '../kit/flag.ts'
import { limits } from '../../base/limits.ts'
import { InvalidArgumentError } from 'commander'
import type { Call, Row } from '../kit/row-type.ts'

const EVENTS_SHOWN = 20

interface EventOptions {
  readonly follow?: true
  readonly limit?: number
  readonly after?: string
  readonly type?: EventType
  readonly allAccounts?: true
}

const eventTypes = fieldOf('listEvents', 'type').choices ?? []
const TYPE_CHARS = Math.max(...eventTypes.map((type) => type.length))

export const rows: readonly Row[] = [
  custom<EventOptions>('events', 'list events; with -f, follow them', {
    operation: 'listEvents',
    only: ['type', 'subject'],
    flags: { type: 'only this type, such as rental.running', subject: 'only this subject, such as rental:17' },
    options: {
      '-f, --follow': 'keep printing events until Ctrl-C',
      '-n, --limit <n>': {
        help: `events to start with (default: ${EVENTS_SHOWN})`,
        parse: parseWhole(1, limits.pageRows),
      },
      '--after <id>': { help: 'with -f: start after this event id', parse: parseId },
      '--all-accounts': 'events of all accounts (operators only)',
    },
    whoOf: ({ allAccounts }) => (allAccounts === true ? 'operator' : 'customer'),
    run: showEvents,
    examples: ['berth events -f', 'berth events --type rental.failed', 'berth events -f --all-accounts'],
  }),
]

async function showEvents({ client, screen, options, input }: Call<EventOptions>): Promise<void> {
  const { follow, limit = EVENTS_SHOWN, after, type, allAccounts } = options
  const { subject } = (input.parts.query ?? {}) as { subject?: string }
  const showOne = (event: EventRecord | AccountEvent): void => screen.showLine(event, () => eventLine(screen, event))
  let last = after
  if (after === undefined) {
    const query = { limit, ...(type === undefined ? {} : { type }) }
    const { events } = await (allAccounts
      ? client.call('listAllEvents', { query })
      : client.call('listEvents', { query: { ...query, ...(subject === undefined ? {} : { subject }) } }))
    events.toReversed().forEach(showOne)
    if (events.length === 0 && follow !== true) screen.remark('No events yet.')
    // With a filter, the newest match is not the newest event, and those between need not be read again.
    last = type === undefined && subject === undefined ? events[0]?.id : undefined
  }
  if (follow !== true) return
  for await (const event of allAccounts ? client.followAll({ after: last }) : client.follow({ after: last })) {
    const isSubject = subject === undefined || subject === `${event.subject.kind}:${event.subject.id}`
    if ((type === undefined || event.type === type) && isSubject) showOne(event)
  }
}

function eventLine(screen: Screen, event: EventRecord | AccountEvent): string {
  const { at, type, subject, data } = event
  const values = Object.entries(data).map(
    ([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  )
  return [
    screen.paint('dim', utcTime(at)),
    screen.paint(toneStyles[eventTone(type)], type.padEnd(TYPE_CHARS)),
    ...('accountId' in event ? [printable(event.accountId)] : []),
    printable(`${subject.kind}:${subject.id}`),
    printable(values.join(' ')),
  ]
    .join('  ')
    .trimEnd()
}

function parseId(text: string): string {
  if (!/^\d{1,18}$/.test(text)) throw new InvalidArgumentError('Must be an event id, as shown by --json.')
  return text
}
