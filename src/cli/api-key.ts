/** `berth keys`: API keys of the account. A new one is shown once, and the one that is in use is not revoked by accident. */
import { randomUUID } from 'node:crypto'
import { InvalidArgumentError, Option, type Command } from 'commander'
import { addMs, DAY_MS, formatInstant, parseInstant, systemClock } from '../base/instant.ts'
import { parseUsd } from '../base/money.ts'
import { scopes, type Scope } from '../contract/endpoint.ts'
import type { Client, Reply } from '../client/client.ts'
import { count } from '../view/number.ts'
import { money } from '../view/money.ts'
import { utcTime } from '../view/time.ts'
import { chooseOne } from './choice.ts'
import { fields, table, type Cell, type Screen } from './screen.ts'
import { GROUP_USAGE, type Run } from './session.ts'
import { CliError, exitCodes } from './shell.ts'
import { parseWhole } from './supply.ts'
import { findMember } from './member.ts'

type ApiKey = Reply<'listApiKeys'>['apiKeys'][number]

const DATE_CHARS = 10
const MAX_PER_MINUTE = 1_000_000
const MAX_TOKENS_PER_MINUTE = 999_999_999

export function addApiKeyCommands(program: Command, run: Run): void {
  const keys = program
    .command('keys')
    .description('API keys of the account')
    .usage(GROUP_USAGE)
    .commandsGroup('Customers:')
  addList(keys, run)
  addShow(keys, run)
  addCreate(keys, run)
  addRevoke(keys, run)
}

function addList(keys: Command, run: Run): void {
  const ls = keys
    .command('ls', { isDefault: true })
    .description('the keys, never their secrets')
    .option('-a, --all', 'revoked ones too')
    .addHelpText('after', '\nExample:\n  berth keys ls --all')
  ls.action(
    run('customer', async ({ client, screen }) => {
      const { apiKeys } = await client.call('listApiKeys')
      const { all } = ls.opts<{ all?: true }>()
      const shown = all === true ? apiKeys : apiKeys.filter(({ revokedAt }) => revokedAt === null)
      screen.show({ apiKeys: shown }, () => listLines(screen, shown, apiKeys.length - shown.length))
    }),
  )
}

function listLines(screen: Screen, keys: readonly ApiKey[], revoked: number): string[] {
  const columns = [
    { title: 'ID' },
    { title: 'NAME' },
    { title: 'SCOPES', shrink: true },
    { title: 'LAST USED' },
    { title: 'EXPIRES' },
  ] as const
  return [
    ...table(
      screen,
      columns,
      keys.map((key): Cell[] => [
        key.publicId,
        key.name,
        key.scopes.join(' '),
        key.lastUsedAt === null ? 'never' : utcTime(key.lastUsedAt).slice(0, DATE_CHARS),
        expiryCell(key),
      ]),
    ),
    '',
    revoked === 0
      ? count(keys.length, 'key')
      : `${count(keys.length, 'key')}, and ${revoked} revoked: berth keys ls --all`,
  ]
}

function expiryCell({ revokedAt, expiresAt }: ApiKey): Cell {
  if (revokedAt !== null) return { text: 'revoked', style: 'red' }
  return expiresAt === null ? 'never' : utcTime(expiresAt).slice(0, DATE_CHARS)
}

function addShow(keys: Command, run: Run): void {
  keys
    .command('show')
    .description('one key with its limits')
    .argument('<key>', 'its id or name, as berth keys ls shows it')
    .addHelpText('after', '\nExample:\n  berth keys show laptop')
    .action(
      run('customer', async ({ client, screen }, wanted = '') => {
        const key = await findKey(client, wanted)
        screen.show(key, () => keyLines(screen, key))
      }),
    )
}

function keyLines(screen: Screen, key: ApiKey): string[] {
  const limit = (usd: string | null, per: string): string | undefined =>
    usd === null ? undefined : `${money(usd)} ${per}`
  return fields(screen, [
    ['Key', `${key.publicId} "${key.name}", ends in ${key.last4}`],
    ['Scopes', key.scopes.join(', ')],
    ['Models', key.allowedModels?.join(', ')],
    ['Spends', limit(key.monthlyLimitUsd, 'a month at most')],
    ['Spends', limit(key.totalLimitUsd, 'in all at most')],
    ['Requests', key.requestsPerMinute === null ? undefined : `${key.requestsPerMinute} a minute at most`],
    ['Tokens', key.tokensPerMinute === null ? undefined : `${key.tokensPerMinute} a minute at most`],
    ['Created', utcTime(key.createdAt)],
    ['Last used', key.lastUsedAt === null ? 'never' : utcTime(key.lastUsedAt)],
    ['Expires', key.expiresAt === null ? 'never' : utcTime(key.expiresAt)],
    ['Revoked', key.revokedAt === null ? undefined : { text: utcTime(key.revokedAt), style: 'red' }],
  ])
}

interface CreateOptions {
  readonly for?: string
  readonly scope: Scope[]
  readonly expires?: string
  readonly model?: string[]
  readonly monthlyLimit?: string
  readonly totalLimit?: string
  readonly requestsPerMinute?: number
  readonly tokensPerMinute?: number
}

function addCreate(keys: Command, run: Run): void {
  const create = keys
    .command('create')
    .description('make a key; it is shown once')
    .argument('<name>', 'what it is for, such as laptop')
    .addOption(new Option('-s, --scope <scope...>', 'what it may do').choices(scopes).makeOptionMandatory())
    .option('--for <person>', 'for a member, by e-mail; owners only')
    .option('--expires <when>', '30d, or a day such as 2027-01-01', parseExpiry)
    .option('--model <name...>', 'it may call these models only')
    .option('--monthly-limit <usd>', 'what it may spend in a month', parseLimit)
    .option('--total-limit <usd>', 'what it may spend in all', parseLimit)
    .option('--requests-per-minute <n>', 'how often it may call', parseWhole(1, MAX_PER_MINUTE))
    .option('--tokens-per-minute <n>', 'how much it may infer', parseWhole(1, MAX_TOKENS_PER_MINUTE))
    .addHelpText('after', '\nExample:\n  berth keys create laptop --scope inference billing:read --total-limit 25')
  create.action(
    run('customer', async ({ client, screen }, name = '') => {
      const options = create.opts<CreateOptions>()
      const memberId = options.for === undefined ? undefined : (await findMember(client, options.for)).id
      const body = { name, ...(memberId === undefined ? {} : { memberId }), ...bodyOf(options) }
      const made = await client.call('createApiKey', { body, idempotencyKey: randomUUID() })
      screen.show(made, () => [
        ...fields(screen, [
          ['Key', { text: made.key, style: 'bold' }],
          ['Id', made.publicId],
          ['Scopes', made.scopes.join(', ')],
          ['Expires', made.expiresAt === null ? 'never' : utcTime(made.expiresAt)],
        ]),
        '',
        'The key is not shown again: keep it now. Take it back with:',
        `  berth keys revoke ${made.publicId}`,
      ])
    }),
  )
}

function bodyOf(options: CreateOptions) {
  const { scope, expires, model, monthlyLimit, totalLimit, requestsPerMinute, tokensPerMinute } = options
  return {
    scopes: [...new Set(scope)],
    ...(expires === undefined ? {} : { expiresAt: expires }),
    ...(model === undefined ? {} : { allowedModels: model }),
    ...(monthlyLimit === undefined ? {} : { monthlyLimitUsd: monthlyLimit }),
    ...(totalLimit === undefined ? {} : { totalLimitUsd: totalLimit }),
    ...(requestsPerMinute === undefined ? {} : { requestsPerMinute }),
    ...(tokensPerMinute === undefined ? {} : { tokensPerMinute }),
  }
}

function addRevoke(keys: Command, run: Run): void {
  const revoke = keys
    .command('revoke')
    .description('end a key, on every server within a second')
    .argument('<key>', 'its id or name, as berth keys ls shows it')
    .option('-y, --yes', 'even if it is the key that is in use')
    .addHelpText('after', '\nExample:\n  berth keys revoke laptop')
  revoke.action(
    run('customer', async ({ client, screen }, wanted = '') => {
      const key = await findKey(client, wanted)
      const { key: own } = await client.call('getMe')
      if (own.publicId === key.publicId && revoke.opts<{ yes?: true }>().yes === undefined) {
        throw new CliError(exitCodes.usage, `${key.publicId} "${key.name}" is the key that this command uses.`, [
          `To revoke it all the same: berth keys revoke ${key.publicId} --yes`,
        ])
      }
      const revoked = await client.call('revokeApiKey', { params: { id: key.publicId } })
      screen.show(revoked, () => [`${key.publicId} "${key.name}" is revoked.`])
    }),
  )
}

async function findKey(client: Client, wanted: string): Promise<ApiKey> {
  const { apiKeys } = await client.call('listApiKeys')
  // A name may be given again once its key is revoked.
  const rows = apiKeys.filter((key) => key.revokedAt === null || key.publicId === wanted)
  const by = { idOf: (key: ApiKey) => key.publicId, nameOf: (key: ApiKey) => key.name }
  return chooseOne(rows, wanted, by, { noun: 'API key', list: 'berth keys ls' })
}

function parseExpiry(text: string): string {
  const days = /^(\d{1,4})d$/.exec(text)?.[1]
  const at =
    days === undefined
      ? /^\d{4}-\d\d-\d\d/.test(text)
        ? parseInstant(text)
        : undefined
      : addMs(systemClock.now(), Number.parseInt(days, 10) * DAY_MS)
  if (at === undefined) throw new InvalidArgumentError('Such as 30d, 2027-01-01 or 2027-01-01T12:00:00Z.')
  return formatInstant(at)
}

function parseLimit(text: string): string {
  const amount = parseUsd(text)
  if (amount === undefined || amount < 0n) throw new InvalidArgumentError('An amount in USD, such as 25 or 12.50.')
  return text
}
