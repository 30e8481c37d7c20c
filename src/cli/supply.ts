/**
 * `berth supply`: words that let machines join, and one's own hosts. The operator's are those of the house. What they
 * are sold for and what they earn is in supply-machine.ts and earnings.ts.
 */
import { randomUUID } from 'node:crypto'
import { InvalidArgumentError, type Command } from 'commander'
import type { Reply } from '../client/client.ts'
import { count } from '../view/number.ts'
import { utcTime } from '../view/time.ts'
import { fields, printable, table, type Cell, type Screen, type Style } from './screen.ts'
import { GROUP_USAGE, type Run } from './session.ts'

const USES = 1_000
const HOURS = 720

/** Gives the group, for what stands beside in it. */
export function addSupplyCommands(program: Command, run: Run): Command {
  const supply = program
    .command('supply')
    .description('machines that join, their price and what they earn')
    .usage(GROUP_USAGE)
    .commandsGroup('Suppliers:')
  addToken(supply, run)
  addTokens(supply, run)
  addHosts(supply, run)
  addMove(supply, run, 'drain', 'draining', 'take no more tenants on it')
  addMove(supply, run, 'resume', 'ready', 'put it back on sale')
  addMove(supply, run, 'leave', 'left', 'take it away for good, once it is empty')
  return supply
}

function addToken(supply: Command, run: Run): void {
  const token = supply
    .command('token')
    .description('a word that lets a machine join')
    .option('--uses <n>', 'how many machines may join with it', parseWhole(1, USES), 1)
    .option('--hours <n>', 'how long it is good', parseWhole(1, HOURS), 24)
  token.action(
    run('operator', async ({ client, screen }) => {
      const { uses, hours } = token.opts<{ uses: number; hours: number }>()
      const made = await client.call('createJoinToken', {
        body: { uses, expiresInHours: hours },
        idempotencyKey: randomUUID(),
      })
      // The server may be known by another name over there; this is the one that has just worked.
      const command = `npx berth agent join --server ${client.url} --token ${made.token}`
      screen.show({ ...made, command }, () => [
        ...fields(screen, [
          ['Token', { text: made.token, style: 'bold' }],
          ['Good for', `${count(made.usesLeft, 'machine')}, until ${utcTime(made.expiresAt)}`],
          ['Machines', made.supplierId === null ? 'become those of the house' : `become those of ${made.supplierId}`],
        ]),
        '',
        'It is not shown again. On the machine that joins:',
        `  ${command}`,
      ])
    }),
  )
}

function addTokens(supply: Command, run: Run): void {
  const tokens = supply
    .command('tokens')
    .description('words that are out; `tokens revoke ID` ends one')
    .usage('[options] [revoke]')
    .commandsGroup('Suppliers:')
    .option('--cursor <cursor>', 'go on where a long list was cut')
  tokens.action(
    run('operator', async ({ client, screen }) => {
      const { cursor } = tokens.opts<{ cursor?: string }>()
      const page = await client.call('listJoinTokens', { query: cursor === undefined ? {} : { cursor } })
      screen.show(page, () => [
        ...table(
          screen,
          [{ title: 'ID' }, { title: 'LEFT', right: true }, { title: 'CREATED' }, { title: 'EXPIRES' }],
          page.tokens.map((one) => [one.id, String(one.usesLeft), utcTime(one.createdAt), utcTime(one.expiresAt)]),
        ),
        '',
        moreOr(page.nextCursor, 'berth supply tokens', count(page.tokens.length, 'token')),
      ])
    }),
  )
  tokens
    .command('revoke')
    .description('let nobody else join with it')
    .argument('<id>', 'as berth supply tokens shows it', parseName)
    .action(
      run('operator', async ({ client, screen }, id = '') => {
        const revoked = await client.call('revokeJoinToken', { params: { id } })
        screen.show(revoked, () => [`Nobody joins with ${id} any more.`])
      }),
    )
}

function addHosts(supply: Command, run: Run): void {
  const hosts = supply
    .command('hosts')
    .description('your hosts, and how they are')
    .option('--cursor <cursor>', 'go on where a long list was cut')
  hosts.action(
    run('operator', async ({ client, screen }) => {
      const { cursor } = hosts.opts<{ cursor?: string }>()
      const page = await client.call('listSuppliedHosts', { query: cursor === undefined ? {} : { cursor } })
      screen.show(page, () => {
        if (page.hosts.length === 0) return ['There are no hosts.', 'A machine becomes one with: berth supply token']
        return [
          ...hostTable(screen, page.hosts),
          '',
          moreOr(page.nextCursor, 'berth supply hosts', count(page.hosts.length, 'host')),
        ]
      })
    }),
  )
}

function addMove(
  supply: Command,
  run: Run,
  verb: string,
  state: 'draining' | 'ready' | 'left',
  description: string,
): void {
  supply
    .command(verb)
    .description(description)
    .argument('<host>', 'as berth supply hosts shows it', parseName)
    .action(
      run('operator', async ({ client, screen }, id = '') => {
        const host = await client.call('changeSuppliedHost', { params: { id }, body: { state } })
        screen.show(host, () => [
          `${host.id} ${host.state === 'left' ? 'has left' : `is ${host.state}`}${tenantWords(host.tenants)}.`,
        ])
      }),
    )
}

export type HostRow = Reply<'listSuppliedHosts'>['hosts'][number]

const columns = [
  { title: 'HOST' },
  { title: 'STATE' },
  { title: 'OFFERING' },
  { title: 'REGION' },
  { title: 'CLUSTER' },
  { title: 'GPUS' },
  { title: 'TENANTS', right: true },
  { title: 'HEARD' },
  { title: 'AGENT' },
  { title: 'REMARKS' },
] as const

export function hostTable(screen: Screen, hosts: readonly HostRow[]): string[] {
  return table(
    screen,
    columns,
    hosts.map((host): Cell[] => [
      host.id,
      { text: stateWord(host), style: styleOf(host) },
      host.offering,
      host.region,
      host.clusterName,
      `${host.gpusTotal} ${host.gpuModel}`,
      String(host.tenants),
      host.seenAt === null ? 'never' : utcTime(host.seenAt),
      host.agentVersion ?? '',
      remarks(host),
    ]),
  )
}

function stateWord(host: HostRow): string {
  if (host.isSilent && host.state !== 'left') return `${host.state}, silent`
  return host.fault === null ? host.state : `${host.state}, fault`
}

function styleOf(host: HostRow): Style {
  if (host.state === 'quarantined' || host.fault !== null || (host.isSilent && host.state !== 'left')) return 'red'
  return host.state === 'ready' ? 'green' : 'yellow'
}

function remarks(host: HostRow): string {
  const said = [
    ...(host.stateReason === null ? [] : [host.stateReason]),
    ...(host.fault === null ? [] : [host.fault.message]),
    ...(host.simulated ? ['simulated GPUs'] : []),
    ...(host.gpusSick.length === 0 ? [] : [`sick GPUs: ${host.gpusSick.join(', ')}`]),
    ...host.notes,
  ]
  return said.map(printable).join('; ')
}

export function tenantWords(tenants: number): string {
  return tenants === 0 ? '' : `, with ${count(tenants, 'tenant')}`
}

export function moreOr(cursor: string | null, command: string, end: string): string {
  return cursor === null ? end : `There are more: ${command} --cursor ${cursor}`
}

export function parseWhole(least: number, most: number): (text: string) => number {
  return (text) => {
    const n = /^\d{1,9}$/.test(text) ? Number.parseInt(text, 10) : -1
    if (n < least || n > most) throw new InvalidArgumentError(`From ${least} to ${most}.`)
    return n
  }
}

export function parseName(text: string): string {
  if (!/^[\w.-]{1,100}$/.test(text)) throw new InvalidArgumentError('Letters, digits, dot, - and _ only.')
  return text
}
