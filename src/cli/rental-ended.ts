/** `berth ls --ended`: machines that have ended, of every kind, by their last events. What each cost is asked one by one. */
import { parseInstant } from '../base/instant.ts'
import type { Client, Reply } from '../client/client.ts'
import type { EventRecord } from '../contract/event.ts'
import { gpuLabel } from '../view/gpu.ts'
import { count } from '../view/number.ts'
import { money } from '../view/money.ts'
import { span, utcTime } from '../view/time.ts'
import type { OfferKind } from './offer.ts'
import { table, type Cell } from './screen.ts'
import type { Session } from './session.ts'
import { CliError, exitCodes } from './shell.ts'
import { moreOr } from './supply.ts'

const SHOWN = 20
/** Each is a call of its own. */
const MAX_WIDE_ROWS = 100
const CALLS_AT_ONCE = 8

export interface EndedOptions {
  readonly limit?: number
  readonly cursor?: string
  readonly wide?: true
}

interface EndedMachine {
  readonly rentalId: string
  readonly kind: OfferKind
  readonly name: string
  readonly endedAt: string
  readonly why: string
}

/** As the server tells it, whatever its kind. */
type Detail = Reply<'getRental'> | Reply<'getInstance'>

export async function showEnded({ client, screen }: Session, options: EndedOptions): Promise<void> {
  const { limit = SHOWN, cursor, wide } = options
  if (wide === true && limit > MAX_WIDE_ROWS) {
    throw new CliError(exitCodes.usage, `With --wide, ${MAX_WIDE_ROWS} machines at a time are the most.`, [
      `Add --limit ${MAX_WIDE_ROWS}, and go on with --cursor.`,
    ])
  }
  const query = { type: 'rental.terminated' as const, limit, ...(cursor === undefined ? {} : { cursor }) }
  const page = await client.call('listEvents', { query })
  const machines = page.events.map(endedOf)
  const details = wide === true ? await readDetails(client, machines) : undefined
  screen.show(details === undefined ? page : { ...page, rentals: details }, () => {
    if (machines.length === 0) return ['Nothing has ended yet.', 'berth ls shows what is rented.']
    const rows = machines.map((machine, i) => [...cells(machine), ...wideCells(details?.[i])])
    const again = [
      'berth ls --ended',
      ...(wide === true ? ['--wide'] : []),
      ...(limit === SHOWN ? [] : [`--limit ${limit}`]),
    ]
    const sum = count(machines.length, 'ended machine')
    return [
      ...table(screen, wide === true ? [...columns, ...wideColumns] : columns, rows),
      '',
      moreOr(page.nextCursor, again.join(' '), wide === true ? sum : `${sum}. With costs: berth ls --ended --wide`),
    ]
  })
}

function endedOf({ subject, at, data }: EventRecord): EndedMachine {
  const { kind, name, label, reason } = data
  const called = typeof label === 'string' && label !== '' ? label : name
  return {
    rentalId: subject.id,
    kind: kind === 'container' ? 'container' : kind === 'bare-metal' ? 'metal' : 'vm',
    name: typeof called === 'string' ? called : subject.id,
    endedAt: at,
    why: typeof reason === 'string' ? (whys[reason] ?? reason.replaceAll('_', ' ')) : '',
  }
}

const whys: Readonly<Record<string, string>> = {
  customer_request: 'asked for',
  auto_terminate: 'its time was over',
  term_expired: 'its term was over',
  balance_empty: 'balance used up',
  spending_limit: 'spending limit',
}

const columns = [
  { title: 'RENTAL', right: true },
  { title: 'NAME', shrink: true },
  { title: 'KIND' },
  { title: 'ENDED' },
  { title: 'WHY' },
] as const

function cells({ rentalId, name, kind, endedAt, why }: EndedMachine): Cell[] {
  return [rentalId, name, kind, utcTime(endedAt), why]
}

async function readDetails(client: Client, machines: readonly EndedMachine[]): Promise<Detail[]> {
  const details: Detail[] = []
  while (details.length < machines.length) {
    const some = machines.slice(details.length, details.length + CALLS_AT_ONCE)
    details.push(...(await Promise.all(some.map(async (one) => readDetail(client, one)))))
  }
  return details
}

async function readDetail(client: Client, { kind, rentalId }: EndedMachine): Promise<Detail> {
  return kind === 'container'
    ? client.call('getInstance', { params: { id: rentalId } })
    : client.call('getRental', { params: { id: Number.parseInt(rentalId, 10) } })
}

const wideColumns = [{ title: 'GPUS' }, { title: 'RAN', right: true }, { title: 'COST', right: true }] as const

function wideCells(detail: Detail | undefined): Cell[] {
  if (detail === undefined) return []
  const gpu = 'machine' in detail ? gpuLabel(detail.machine.gpuModel) : detail.gpuType.toUpperCase()
  return [`${detail.gpuCount} ${gpu}`, ranWords(detail), money(detail.costSoFarUsd)]
}

/** What was paid for: from its start to when its end was asked for. */
function ranWords({ startedAt, terminateRequestedAt }: Detail): string {
  const start = startedAt === null ? undefined : parseInstant(startedAt)
  const end = terminateRequestedAt === null ? undefined : parseInstant(terminateRequestedAt)
  return start === undefined || end === undefined ? 'never' : span(Math.max(0, end - start))
}
