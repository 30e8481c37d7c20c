/** `berth events`: what happened, oldest first as in a log, and with -f what happens next. */
import { InvalidArgumentError, type Command } from 'commander'
import { limits } from '../base/limits.ts'
import { eventTypes, type AccountEvent, type EventRecord, type EventType } from '../contract/event.ts'
import { utcTime } from '../view/time.ts'
import { printable, type Screen, type Style } from './screen.ts'
import type { Run, Session } from './session.ts'

const SHOWN = 20

interface EventOptions {
  readonly follow?: true
  readonly limit: number
  readonly after?: string
  readonly type?: EventType
  readonly all?: true
}

export function addEventCommands(program: Command, run: Run): void {
  const command = program
    .command('events')
    .description('what happened; with -f, as it happens')
    .option('-f, --follow', 'keep printing events as they happen, until Ctrl-C')
    .option('-n, --limit <count>', 'how many to begin with', parseCount, SHOWN)
    .option('--after <id>', 'with -f: begin after this event, and leave none out', parseId)
    .option('--type <type>', 'only events of this type, such as rental.running', parseType)
    .option('--all', 'for operators: those of every account')
  const options = (): EventOptions => command.opts<EventOptions>()
  const show = async ({ client, screen }: Session): Promise<void> => {
    const { follow, limit, after, type, all } = options()
    const showOne = (event: EventRecord | AccountEvent): void => screen.showLine(event, () => eventLine(screen, event))
    let last = after
    if (after === undefined) {
      const query = { limit, ...(type === undefined ? {} : { type }) }
      const { events } = await (all ? client.call('listAllEvents', { query }) : client.call('listEvents', { query }))
      events.toReversed().forEach(showOne)
      if (events.length === 0 && follow !== true) screen.remark('No events yet.')
      // With a type, the newest of its kind is not the newest of all, and what is between need not be read again.
      last = type === undefined ? events[0]?.id : undefined
    }
    if (follow !== true) return
    for await (const event of all ? client.followAll({ after: last }) : client.follow({ after: last })) {
      if (type === undefined || event.type === type) showOne(event)
    }
  }
  // Which key is taken depends on whose events are asked for.
  command.action((...given: unknown[]) => run(options().all ? 'operator' : 'customer', show)(...given))
}

function eventLine(screen: Screen, event: EventRecord | AccountEvent): string {
  const { at, type, subject, data } = event
  const subjectText = `${subject.kind}:${subject.id}`
  const facts = Object.entries(data).map(
    ([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  )
  const line = [
    screen.paint('dim', utcTime(at)),
    screen.paint(styleOf(type), type.padEnd(TYPE_CHARS)),
    ...('accountId' in event ? [printable(event.accountId)] : []),
    printable(subjectText),
  ]
  return [...line, printable(facts.join(' '))].join('  ').trimEnd()
}

const TYPE_CHARS = Math.max(...Object.keys(eventTypes).map((type) => type.length))

function styleOf(type: EventType): Style {
  if (/\.(failed|stuck|empty|unknown|suspended)$/.test(type)) return 'red'
  return /\.(runway_low|terminating|deleting)$/.test(type) ? 'yellow' : 'cyan'
}

function parseCount(text: string): number {
  const n = /^\d{1,4}$/.test(text) ? Number.parseInt(text, 10) : 0
  if (n < 1 || n > limits.pageRows) throw new InvalidArgumentError(`From 1 to ${limits.pageRows}.`)
  return n
}

function parseId(text: string): string {
  if (!/^\d{1,18}$/.test(text)) throw new InvalidArgumentError('An id is a number, as --json shows it.')
  return text
}

function parseType(text: string): EventType {
  if (!Object.hasOwn(eventTypes, text)) {
    throw new InvalidArgumentError(`Types are: ${Object.keys(eventTypes).join(', ')}.`)
  }
  return text as EventType
}
