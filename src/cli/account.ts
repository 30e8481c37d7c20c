/** `berth account`, `members`, `keys` and `ssh-keys`. A private SSH key that is named by mistake is not sent anywhere. */
import { money } from '../view/money.ts'
import { utcDay, utcTime } from '../view/time.ts'
import path from 'node:path'
import { limits } from '../base/limits.ts'
import type { Reply } from '../client/client.ts'
import { readStandardInput } from './prompt.ts'
import { act, detail, list, show } from './row.ts'
import { fields, type Cell } from './screen.ts'
import { CliError, exitCodes, type Shell } from './shell.ts'
import { targetOf } from './target.ts'
import type { Row } from './row-type.ts'

type ApiKey = Reply<'listApiKeys'>['apiKeys'][number]

const apiKey = targetOf<ApiKey>({
  noun: 'API key',
  arg: 'key',
  named: 'name',
  list: 'berth keys ls',
  read: async (client, wanted) => {
    const { apiKeys } = await client.call('listApiKeys')
    // A name can be used again once its key is revoked.
    return apiKeys.filter((key) => key.revokedAt === null || key.publicId === wanted)
  },
  idOf: (key) => key.publicId,
  nameOf: (key) => key.name,
})

const member = targetOf<Reply<'listMembers'>['members'][number]>({
  noun: 'member',
  arg: 'member',
  named: 'email address',
  list: 'berth members ls',
  read: async (client) => (await client.call('listMembers')).members,
  idOf: (one) => one.id,
  nameOf: (one) => one.email,
})

const sshKey = targetOf<Reply<'listSshKeys'>['sshKeys'][number]>({
  noun: 'SSH key',
  arg: 'key',
  named: 'name',
  list: 'berth ssh-keys ls',
  read: async (client) => (await client.call('listSshKeys')).sshKeys,
  idOf: (key) => key.id,
  nameOf: (key) => key.name,
})

const accountRows: readonly Row[] = [
  show({
    command: 'account',
    operation: 'getMe',
    description: 'show the account: status, role, API key, settings',
    examples: ['berth account'],
    lines: ({ account, email, role, key }, { screen }) => [
      ...fields(screen, [
        ['Account', { text: account.name, style: 'bold' }],
        ['Id', `${account.id}; the operator needs it to add money`],
        ['Status', account.suspended ? { text: 'suspended; contact the operator', style: 'red' } : 'active'],
        ['Supplier', account.supplier ? 'yes: your machines can join' : undefined],
        ['Created', utcDay(account.createdAt)],
        ['You', `${email}, ${role}`],
        ['API key', `${key.publicId} "${key.name}"`],
        ['Bodies', account.keepsBodies ? 'inference requests and responses, stored for 7 days' : 'not stored'],
      ]),
      '',
      `To ${account.keepsBodies ? 'stop storing' : 'store'} bodies: berth account keep-bodies ${account.keepsBodies ? 'off' : 'on'}`,
    ],
  }),
  act({
    command: 'account keep-bodies',
    operation: 'changeAccountSettings',
    description: 'turn storage of request bodies on or off (owners only)',
    args: [{ name: '<on|off>', help: 'whether to store them from now on', choices: ['on', 'off'] }],
    flags: { keepsBodies: false },
    notes: `With on, requests and responses can be read for 7 days with
berth requests show. They are encrypted, and only keys of this account can read
them. With off, only counts, times and costs are recorded.`,
    examples: ['berth account keep-bodies on'],
    prepare: ({ args }) => ({ parts: { body: { keepsBodies: args[0] === 'on' } } }),
    done: ({ keepsBodies }) =>
      keepsBodies
        ? ['Request and response bodies are now stored for 7 days.', 'To read one: berth requests show ID']
        : ['Bodies are no longer stored.', 'Those stored so far are deleted when they are 7 days old.'],
  }),
]

const memberRows: readonly Row[] = [
  list({
    command: 'members ls',
    operation: 'listMembers',
    rows: 'members',
    description: 'list members and their roles',
    noun: 'member',
    empty: [],
    columns: [
      { title: 'ID', of: (one) => one.id },
      { title: 'EMAIL', shrink: true, of: (one) => one.email },
      { title: 'ROLE', of: (one) => one.role },
      { title: 'ADDED', of: (one) => utcDay(one.createdAt) },
    ],
    examples: ['berth members ls'],
  }),
  act({
    command: 'members add',
    operation: 'addMember',
    description: 'add a member (owners only)',
    args: [{ name: '<email>', help: 'email address of the person', field: 'email' }],
    flags: {
      role: { flag: '-r, --role <role>', help: 'role of the member' },
      name: { flag: '-n, --name <name>', help: 'name of the person' },
    },
    defaults: { role: 'member' },
    examples: ['berth members add second@example.com --role viewer'],
    done: (made) => `Added ${made.email} as ${roleNoun(made.role)} (${made.id}).`,
  }),
  act({
    command: 'members role',
    operation: 'changeMember',
    target: member,
    description: 'change the role of a member (owners only)',
    args: [{ name: '<role>', help: 'new role', field: 'role' }],
    examples: ['berth members role second@example.com owner'],
    done: (changed) => `${changed.email} is now ${roleNoun(changed.role)}.`,
  }),
  act({
    command: 'members rm',
    operation: 'removeMember',
    target: member,
    description: 'remove a member and revoke their keys (owners only)',
    examples: ['berth members rm second@example.com'],
    onWire: (_, { found: { id, email } }) => ({ id, email, removed: true }),
    done: (_, { found }) => `Removed ${found.email} and revoked their API keys.`,
  }),
]

function roleNoun(role: string): string {
  return `${role === 'owner' ? 'an' : 'a'} ${role}`
}

const keyRows: readonly Row[] = [
  list<'listApiKeys', 'apiKeys', undefined, { all?: true }>({
    command: 'keys ls',
    operation: 'listApiKeys',
    rows: 'apiKeys',
    description: 'list API keys, without their secrets',
    options: [{ flag: '-a, --all', help: 'include revoked keys' }],
    filter: ({ revokedAt }, { all }) => all === true || revokedAt === null,
    noun: 'key',
    empty: ['There are no API keys.'],
    columns: [
      { title: 'ID', of: (key) => key.publicId },
      { title: 'NAME', of: (key) => key.name },
      { title: 'SCOPES', shrink: true, of: (key) => key.scopes.join(' ') },
      { title: 'LAST USED', of: (key) => utcDay(key.lastUsedAt) || 'never' },
      { title: 'EXPIRES', of: expiryCell },
    ],
    hint: (_, { options }) => (options.all === true ? '' : 'To include revoked keys: berth keys ls --all'),
    examples: ['berth keys ls', 'berth keys ls --all'],
  }),
  detail({
    command: 'keys show',
    target: apiKey,
    description: 'show an API key and its limits',
    lines: (key, { screen }) =>
      fields(screen, [
        ['Key', `${key.publicId} "${key.name}", ends in ${key.last4}`],
        ['Scopes', key.scopes.join(', ')],
        ['Models', key.allowedModels?.join(', ')],
        ['Monthly limit', key.monthlyLimitUsd === null ? undefined : money(key.monthlyLimitUsd)],
        ['Total limit', key.totalLimitUsd === null ? undefined : money(key.totalLimitUsd)],
        ['Requests', key.requestsPerMinute === null ? undefined : `${key.requestsPerMinute} per minute`],
        ['Tokens', key.tokensPerMinute === null ? undefined : `${key.tokensPerMinute} per minute`],
        ['Created', utcTime(key.createdAt)],
        ['Last used', utcTime(key.lastUsedAt) || 'never'],
        ['Expires', utcTime(key.expiresAt) || 'never'],
        ['Revoked', key.revokedAt === null ? undefined : { text: utcTime(key.revokedAt), style: 'red' }],
      ]),
    examples: ['berth keys show laptop'],
  }),
  act<'createApiKey', { for?: string }>({
    command: 'keys create',
    operation: 'createApiKey',
    description: 'create an API key; it is shown once',
    args: [{ name: '<name>', help: 'name of the key, such as laptop', field: 'name' }],
    flags: {
      scopes: { flag: '-s, --scope <scope...>', help: 'permissions of the key' },
      memberId: false,
      expiresAt: { help: 'expiry: 30d, or a day such as 2027-01-01' },
      allowedModels: { flag: '--model <name...>', help: 'allow only these models' },
      monthlyLimitUsd: { help: 'monthly spending limit' },
      totalLimitUsd: { help: 'total spending limit' },
      requestsPerMinute: { help: 'maximum requests per minute' },
      tokensPerMinute: { help: 'maximum inference tokens per minute' },
    },
    options: [{ flag: '--for <member>', help: 'create it for this member, by email address (owners only)' }],
    prepare: async ({ client, input, options }) => {
      if (options.for === undefined) return input
      const { id } = await member.find(client, options.for)
      return { ...input, parts: { body: { ...input.parts.body, memberId: id } } }
    },
    done: (made, { screen }) => [
      ...fields(screen, [
        ['Key', { text: made.key, style: 'bold' }],
        ['Id', made.publicId],
        ['Scopes', made.scopes.join(', ')],
        ['Expires', utcTime(made.expiresAt) || 'never'],
      ]),
      '',
      'Save the key now: it is not shown again. To revoke it:',
      `  berth keys revoke ${made.publicId}`,
    ],
    examples: ['berth keys create laptop --scope inference billing:read --total-limit 25'],
  }),
  act<'revokeApiKey', { yes?: true }, ApiKey>({
    command: 'keys revoke',
    operation: 'revokeApiKey',
    target: apiKey,
    description: 'revoke an API key; takes effect within a second',
    options: [{ flag: '-y, --yes', help: 'revoke it even if this command uses it' }],
    prepare: async ({ client, found, input, options }) => {
      const { key: own } = await client.call('getMe')
      if (own.publicId !== found.publicId || options.yes === true) return input
      throw new CliError(exitCodes.usage, `${found.publicId} "${found.name}" is the key that this command uses.`, [
        `To revoke it anyway: berth keys revoke ${found.publicId} --yes`,
      ])
    },
    done: (_, { found }) => `Revoked ${found.publicId} "${found.name}".`,
    examples: ['berth keys revoke laptop'],
  }),
]

function expiryCell({ revokedAt, expiresAt }: ApiKey): Cell {
  return revokedAt === null ? utcDay(expiresAt) || 'never' : { text: 'revoked', style: 'red' }
}

const ADD_EXAMPLE = 'berth ssh-keys add ~/.ssh/id_ed25519.pub'

const sshKeyRows: readonly Row[] = [
  list({
    command: 'ssh-keys ls',
    operation: 'listSshKeys',
    rows: 'sshKeys',
    description: 'list SSH keys',
    noun: 'SSH key',
    empty: ['There are no SSH keys.', `To add one: ${ADD_EXAMPLE}`],
    columns: [
      { title: 'ID', of: (key) => key.id },
      { title: 'NAME', shrink: true, of: (key) => key.name },
      { title: 'FINGERPRINT', shrink: true, of: (key) => key.fingerprint },
    ],
    examples: ['berth ssh-keys ls'],
  }),
  act<'addSshKey', { name?: string }>({
    command: 'ssh-keys add',
    operation: 'addSshKey',
    description: 'add an SSH key to machines you rent from now on',
    args: [{ name: '<file>', help: 'public key, such as ~/.ssh/id_ed25519.pub; - reads standard input' }],
    flags: { publicKey: false, name: false },
    options: [{ flag: '-n, --name <name>', help: 'name (default: the comment in the key, or the file name)' }],
    prepare: async ({ args, shell, input, options }) => {
      const file = String(args[0])
      const publicKey = await readPublicKey(shell, file)
      return { ...input, parts: { body: { name: options.name ?? nameIn(publicKey, file), publicKey } } }
    },
    done: (made, { screen }) => [
      ...fields(screen, [
        ['SSH key', `${made.id} "${made.name}"`],
        ['Fingerprint', made.fingerprint],
      ]),
      '',
      'Machines you rent from now on accept it. Running machines do not.',
    ],
    examples: [`${ADD_EXAMPLE} --name laptop`],
  }),
  act({
    command: 'ssh-keys rm',
    operation: 'deleteSshKey',
    target: sshKey,
    description: 'delete an SSH key; running machines keep it',
    onWire: (_, { found: { id, name } }) => ({ id, name, deleted: true }),
    done: (_, { found }) => `Deleted ${found.id} "${found.name}". Running machines keep it.`,
    examples: ['berth ssh-keys rm laptop'],
  }),
]

async function readPublicKey(shell: Shell, file: string): Promise<string> {
  const text = (file === '-' ? await readStandardInput() : shell.readFile(file))?.trim()
  if (text === undefined || text === '') {
    throw new CliError(exitCodes.usage, `There is no key in ${file === '-' ? 'the standard input' : file}.`, [
      `Example: ${ADD_EXAMPLE}`,
      'To create a key: ssh-keygen -t ed25519',
    ])
  }
  if (text.includes('PRIVATE KEY')) {
    throw new CliError(exitCodes.usage, `${file} is a private key. It was not sent.`, [
      `Add the public key instead: ${file === '-' ? ADD_EXAMPLE : `berth ssh-keys add ${file}.pub`}`,
    ])
  }
  return text
}

/** A key's comment usually says who created it and where. */
function nameIn(publicKey: string, file: string): string {
  const comment = /^\S+ +\S+ +(\S.*)$/m.exec(publicKey)?.[1]?.trim()
  return (comment ?? (file === '-' ? 'key' : path.basename(file, '.pub'))).slice(0, limits.nameChars)
}

export const rows: readonly Row[] = [...accountRows, ...memberRows, ...keyRows, ...sshKeyRows]
