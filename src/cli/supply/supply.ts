/** `berth supply`: join tokens, hosts and machines of a supplier. With an operator's key, those of the house. */
import { installCommand } from '../../base/install-command.ts'
import { systemClock } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { Client, Reply } from '../../client/client.ts'
import { gpuLabel } from '../../view/gpu.ts'
import { money } from '../../view/money.ts'
import { count } from '../../view/number.ts'
import { ON_SALE, standingOf } from '../../view/supply.ts'
import { utcTime } from '../../view/time.ts'
import { earningsRow } from './earnings.ts'
import { payoutRows } from './payout.ts'
import { hostColumns, tenants, type Host } from './host.ts'
import { act, list } from '../kit/row.ts'
import { bold, toned } from '../kit/screen.ts'
import type { Call, Row } from '../kit/row-type.ts'

type Machine = Reply<'changeSuppliedMachine'>

const HOST = { '<host>': 'name, as shown by berth supply hosts ls' }
const MACHINE = { '<machine>': 'name, as shown by berth supply machines ls' }
const MAX_HOST_PAGES = 50

const tokenRows: readonly Row[] = [
  act('supply tokens create', 'createJoinToken', 'create a join token', {
    flags: { uses: 'how many machines can join with it', expiresInHours: '--hours <n>  hours until it expires' },
    examples: ['berth supply tokens create --uses 4 --hours 2'],
    // The server may have another name over there; this is the one that has just worked.
    onWire: (reply, { client }) => ({ ...reply, command: installCommand(client.url, reply) }),
    done: (reply, { client }) => [
      ['Token', bold(reply.token)],
      ['Valid for', `${count(reply.usesLeft, 'machine')}, until ${utcTime(reply.expiresAt)}`],
      ['Owner', reply.supplierId ?? 'the operator'],
      '',
      'Save it now: it is not shown again. On the machine that joins, run as root:',
      `  ${installCommand(client.url, reply)}`,
      'Add --price USD, per GPU-hour, and other options of berth agent join.',
    ],
  }),
  list('supply tokens ls', 'listJoinTokens', 'list active join tokens', {
    noun: 'active join token',
    columns: ['id', 'usesLeft', 'createdAt', 'expiresAt'],
    empty: 'To create one: berth supply tokens create',
    hint: 'To revoke one: berth supply tokens rm ID',
  }),
  act('supply tokens rm', 'revokeJoinToken', 'revoke a join token; machines that have joined stay', {
    args: { '<id>': 'id, as shown by berth supply tokens ls' },
    done: (_, { args }) => `Revoked ${String(args[0])}. No more machines can join with it.`,
  }),
]

const hostRows: readonly Row[] = [
  list('supply hosts ls', 'listSuppliedHosts', 'list your hosts and their health', {
    columns: hostColumns,
    empty: 'To add one, create a join token: berth supply tokens create',
  }),
  moveRow('drain', 'draining', 'stop accepting new tenants on a host'),
  moveRow('resume', 'ready', 'accept tenants on a host again'),
  moveRow('leave', 'left', 'permanently remove an empty host; asks first'),
]

function moveRow(verb: string, state: Host['state'], description: string): Row {
  return act(`supply ${verb}`, 'changeSuppliedHost', description, {
    args: HOST,
    fixed: { state },
    ...(state === 'left' ? { confirm: ({ args }: Call) => `Permanently remove ${String(args[0])}?` } : {}),
    examples: [`berth supply ${verb} calm-ivory-horse`],
    done: (host) => `${host.id} ${host.state === 'left' ? 'has left' : `is ${host.state}`}${tenants(host)}.`,
  })
}

type Hosts = ReadonlyMap<string, Host>

const machineRows: readonly Row[] = [
  list<'listSuppliedMachines', Hosts, { includeLeft?: true }>(
    'supply machines ls',
    'listSuppliedMachines',
    'list your machines: state, price and use',
    {
      empty: [
        'You have no machines here.',
        'To add one, create a join token: berth supply tokens create.',
        'Machines that have just joined are in berth supply hosts ls,',
        'those of clouds in berth operator fleet ls.',
      ],
      options: { '--include-left': 'include machines that have left' },
      read: ({ client }) => readHosts(client),
      isShown: ({ id }, { includeLeft }, hosts) => includeLeft === true || hosts.get(id)?.state !== 'left',
      columns: [
        'id:MACHINE',
        {
          STATE: (machine, hosts) => {
            const { label, tone } = standingOf({ machine, host: hosts.get(machine.id) }, systemClock.now())
            return toned(tone, label.toLowerCase())
          },
        },
        'region',
        {
          GPUS: ({ gpusTotal, gpuModel, gpusSick }) =>
            `${gpusTotal} ${gpuLabel(gpuModel)}${gpusSick.length === 0 ? '' : `, ${gpusSick.length} faulty`}`,
          RENTED: ({ gpusInUse, gpusTotal }) => `${gpusInUse} of ${gpusTotal}`,
          '$/GPU': priceOf,
          KIND: ({ offering }) => kinds[offering],
          AGENT: (machine, hosts) => hosts.get(machine.id)?.agentVersion,
        },
      ],
      hint: (machines, _, hosts) => {
        const now = systemClock.now()
        const isOnSale = (machine: Machine): boolean =>
          standingOf({ machine, host: hosts.get(machine.id) }, now) === ON_SALE
        const sum = (of: (one: Machine) => number): number => machines.reduce((total, one) => total + of(one), 0)
        const gpus = count(
          sum((one) => one.gpusTotal),
          'GPU',
        )
        const rented = `${sum((one) => one.gpusInUse)} of ${gpus} rented`
        return `${machines.filter(isOnSale).length} on sale; ${rented}. Prices are per GPU-hour.`
      },
      below: (machines, { options }, hosts) => {
        const removedCount = machines.filter(({ id }) => hosts.get(id)?.state === 'left').length
        return removedCount === 0 || options.includeLeft === true
          ? []
          : [`${count(removedCount, 'removed machine')} not shown: berth supply machines ls --include-left`]
      },
      examples: ['berth supply machines ls', 'berth supply machines ls --include-left'],
    },
  ),
  act('supply price', 'changeSuppliedMachine', 'set the price per GPU-hour for new rentals', {
    args: { ...MACHINE, '<usd>': { help: 'price from 0 to 1000, such as 1.20', field: 'pricePerGpuHourUsd' } },
    only: [],
    examples: ['berth supply price calm-ivory-horse 1.99'],
    done: (machine) => [
      `${machine.id} costs ${priceOf(machine)} per GPU-hour. Running rentals keep their price.`,
      machine.listed ? undefined : `It is off sale. To put it on sale: berth supply list ${machine.id}`,
    ],
  }),
  act('supply interruptible', 'changeSuppliedMachine', 'set a lower price for rentals that may be interrupted', {
    args: {
      ...MACHINE,
      '<usd>': { help: 'price below that of other rentals', field: 'interruptiblePricePerGpuHourUsd' },
    },
    only: ['interruptionNoticeSeconds'],
    flags: { interruptionNoticeSeconds: '--notice <seconds>  time from the announcement to the end, 60 to 600' },
    examples: ['berth supply interruptible calm-ivory-horse 0.80 --notice 300'],
    done: ({ id, interruptiblePricePerGpuHourUsd: price, interruptionNoticeSeconds: seconds }) =>
      `Interruptible rentals of ${id} cost ${price === null ? 'nothing' : money(price)} per GPU-hour and get ${count(seconds, 'second')} of notice.`,
  }),
  act(
    'supply uninterruptible',
    'changeSuppliedMachine',
    'accept no more interruptible rentals; running ones continue',
    {
      args: MACHINE,
      only: [],
      fixed: { interruptiblePricePerGpuHourUsd: null },
      examples: ['berth supply uninterruptible calm-ivory-horse'],
      done: ({ id }) => `${id} accepts no more interruptible rentals. Running ones continue.`,
    },
  ),
  listingRow('list', true, 'put a machine on sale'),
  listingRow('unlist', false, 'take a machine off sale; running rentals continue'),
]

function listingRow(verb: string, listed: boolean, description: string): Row {
  return act(`supply ${verb}`, 'changeSuppliedMachine', description, {
    args: MACHINE,
    only: [],
    fixed: { listed },
    examples: [`berth supply ${verb} calm-ivory-horse`],
    done: (machine) => (listed ? onSaleText(machine) : offSaleText(machine)),
  })
}

const kinds = { marketplace: 'container', 'virtual-machine': 'vm', 'bare-metal': 'metal' } as const

function priceOf({ offering, pricePerGpuHourUsd: price }: Machine): string {
  if (offering !== 'marketplace') return 'book'
  return price === null ? 'none' : money(price)
}

function onSaleText(machine: Machine): string {
  const { id } = machine
  const standing = standingOf({ machine, host: undefined }, systemClock.now())
  const price = priceOf(machine)
  if (price === 'none') return `${id} has no price yet. To put it on sale: berth supply price ${id} USD`
  if (standing !== ON_SALE) return `${id} goes on sale when it is no longer ${standing.label.toLowerCase()}.`
  return `${id} is on sale at ${machine.offering === 'marketplace' ? `${price} per GPU-hour` : 'the price in the price book'}.`
}

function offSaleText({ id, gpusInUse }: Machine): string {
  const consequence = gpusInUse === 0 ? 'Nothing runs on it.' : `Running rentals (${count(gpusInUse, 'GPU')}) continue.`
  return `${id} is off sale. ${consequence}`
}

/** Reads the hosts by name, which is also the name of their machine. The host says whether it is offline or has left. */
async function readHosts(client: Client): Promise<Hosts> {
  const hosts = new Map<string, Host>()
  let cursor: string | undefined
  for (let n = 0; n < MAX_HOST_PAGES; n += 1) {
    const query = { limit: limits.pageRows, ...(cursor === undefined ? {} : { cursor }) }
    const page = await client.call('listSuppliedHosts', { query })
    for (const host of page.hosts) hosts.set(host.id, host)
    if (page.nextCursor === null) break
    cursor = page.nextCursor
  }
  return hosts
}

export const rows: readonly Row[] = [...tokenRows, ...hostRows, ...machineRows, earningsRow, ...payoutRows]
