/** `berth account`, `members`, `keys` and `ssh-keys`. A private SSH key that is named by mistake is not sent anywhere. */
import path from 'node:path'
import { limits } from '../../base/limits.ts'
import type { Reply } from '../../client/client.ts'
import { utcDay, utcTime } from '../../view/time.ts'
import { readStandardInput } from '../kit/prompt.ts'
import { act, detail, list, show, withBody } from '../kit/row.ts'
import { bold, red } from '../kit/screen.ts'
import { CliError, exitCodes, type Shell } from '../kit/shell.ts'
import { ssoRows } from './account-sso.ts'
import { targetOf } from '../kit/target.ts'
import type { Row } from '../kit/row-type.ts'

type ApiKey = Reply<'listApiKeys'>['apiKeys'][number]

const apiKey = targetOf<ApiKey>('API key', 'berth keys ls', {
  read: async (client, idOrName) => {
    const { apiKeys } = await client.call('listApiKeys')
    // A name can be used again once its key is revoked.
    return apiKeys.filter((key) => key.revokedAt === null || key.publicId === idOrName)
  },
  id: 'publicId',
  name: 'name',
})

const member = targetOf('member', 'berth members ls', {
  read: async (client) => (await client.call('listMembers')).members,
  id: 'id',
  name: 'email',
  named: 'email address',
})

const invitation = targetOf('invitation', 'berth members invitations', {
  read: async (client) => (await client.call('listInvitations')).invitations,
  id: 'id',
  name: 'email',
  named: 'email address',
})

const sshKey = targetOf('SSH key', 'berth ssh-keys ls', {
  read: async (client) => (await client.call('listSshKeys')).sshKeys,
  id: 'id',
  name: 'name',
})

const accountRows: readonly Row[] = [
  show('account', 'getMe', 'show the account: status, role, API key, settings', {
    showsAccount: true,
    facts: [
      {
        Account: ({ account }) => bold(account.name),
        Id: ({ account }) => `${account.id}; the operator needs it to add money`,
        Status: ({ account }) => (account.suspended ? red('suspended; contact the operator') : 'active'),
        Supplier: ({ account }) => (account.supplier ? 'yes: your machines can join' : undefined),
        Created: ({ account }) => utcDay(account.createdAt),
        You: ({ email, role }) => `${email}, ${role}`,
        'API key': ({ key }) => `${key.publicId} "${key.name}"`,
        Responses: ({ account }) =>
          account.storesResponses ? 'of /v1/responses are stored unless a request says no' : 'not stored',
        Bodies: ({ account }) =>
          account.keepsBodies ? 'inference requests and responses, stored for 7 days' : 'not stored',
      },
    ],
    content: ({ account: { keepsBodies } }) => [
      '',
      `To ${keepsBodies ? 'stop storing' : 'store'} bodies: berth account keep-bodies ${keepsBodies ? 'off' : 'on'}`,
    ],
  }),
  act('account keep-bodies', 'changeAccountSettings', 'turn storage of request bodies on or off (owners only)', {
    args: { '<on|off>': { help: 'whether to store them from now on', choices: ['on', 'off'] } },
    only: [],
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
  act('account require-passkey', 'changeAccountSettings', 'require passkeys of members (owners only)', {
    args: { '<on|off>': { help: 'whether the console requires them from now on', choices: ['on', 'off'] } },
    only: [],
    notes: `With on, members sign in to the account in the console with a passkey, or
confirm with one after another sign-in. Who has none can add one. API keys and
berth login go on as before; new logins of berth login need a passkey.`,
    examples: ['berth account require-passkey on'],
    prepare: ({ args }) => ({ parts: { body: { requiresFactor: args[0] === 'on' } } }),
    done: ({ requiresFactor }) =>
      requiresFactor
        ? ['The console now requires a passkey of members of this account.', 'API keys work as before.']
        : ['The console no longer requires a passkey of members of this account.'],
  }),
  act('account store-responses', 'changeAccountSettings', 'turn storage of responses on or off (owners only)', {
    args: { '<on|off>': { help: 'whether to store them from now on', choices: ['on', 'off'] } },
    only: [],
    notes: `With on, responses of /v1/responses are stored, encrypted, so that later
requests can continue them by id; "store": false in a request turns it off for
one. With off, none are stored, and clients have to send whole conversations.`,
    examples: ['berth account store-responses off'],
    prepare: ({ args }) => ({ parts: { body: { storesResponses: args[0] === 'on' } } }),
    done: ({ storesResponses }) =>
      storesResponses
        ? ['Responses are now stored.']
        : ['Responses are no longer stored.', 'Those stored so far can be deleted by their ids.'],
  }),
]

const memberRows: readonly Row[] = [
  list('members ls', 'listMembers', 'list members and their roles', {
    columns: ['id', 'email', 'role', 'state', { ADDED: (one) => utcDay(one.createdAt) }],
  }),
  act('members add', 'addMember', 'add a member (owners only)', {
    args: { '<email>': 'email address of the person' },
    flags: { role: '-r, --role <role>  role of the member', name: '-n, --name <name>  name of the person' },
    defaults: { role: 'member' },
    examples: ['berth members add second@example.com --role viewer'],
    done: ({ email, role, id }) => `Added ${email} as ${roleNoun(role)} (${id}).`,
  }),
  act('members invite', 'createInvitation', 'invite a person by email (owners only)', {
    args: { '<email>': 'email address of the person' },
    flags: { role: '-r, --role <role>  role of the member' },
    defaults: { role: 'member' },
    notes: 'Inviting an address again ends the link of the invitation before.',
    examples: ['berth members invite second@example.com --role viewer'],
    done: ({ email, expiresAt }) => `Invited ${email}, until ${utcTime(expiresAt)}.`,
  }),
  list('members invitations', 'listInvitations', 'list open invitations', {
    columns: ['id', 'email', 'role', 'sender', { EXPIRES: (one) => utcTime(one.expiresAt) }],
  }),
  act('members revoke', 'revokeInvitation', 'revoke an invitation (owners only)', {
    target: invitation,
    examples: ['berth members revoke second@example.com'],
    onWire: (_, { target: { id, email } }) => ({ id, email, revoked: true }),
    done: (_, { target }) => `Revoked the invitation of ${target.email}.`,
  }),
  act('members set', 'changeMember', 'change the role of a member (owners only)', {
    target: member,
    args: { '<role>': 'new role' },
    examples: ['berth members set second@example.com owner'],
    done: ({ email, role }) => `${email} is now ${roleNoun(role)}.`,
  }),
  act('members rm', 'removeMember', 'remove a member and revoke their keys (owners only); asks first', {
    target: member,
    confirm: ({ target }) => `Remove ${target.email} and revoke their API keys?`,
    examples: ['berth members rm second@example.com'],
    onWire: (_, { target: { id, email } }) => ({ id, email, removed: true }),
    done: (_, { target }) => `Removed ${target.email} and revoked their API keys.`,
  }),
]

function roleNoun(role: string): string {
  return `${role === 'owner' ? 'an' : 'a'} ${role}`
}

const keyRows: readonly Row[] = [
  list<'listApiKeys', undefined, { all?: true }>('keys ls', 'listApiKeys', 'list API keys, without their secrets', {
    options: { '-a, --all': 'include revoked keys' },
    filter: ({ revokedAt }, { all }) => all === true || revokedAt === null,
    columns: [
      'publicId:ID',
      'name',
      {
        SCOPES: ({ scopes }) => scopes.join(' '),
        'LAST USED': ({ lastUsedAt }) => utcDay(lastUsedAt) || 'never',
        EXPIRES: ({ revokedAt, expiresAt }) => (revokedAt === null ? utcDay(expiresAt) || 'never' : red('revoked')),
      },
    ],
    hint: (_, { options }) => (options.all === true ? '' : 'To include revoked keys: berth keys ls --all'),
    examples: ['berth keys ls', 'berth keys ls --all'],
  }),
  detail('keys show', apiKey, 'show an API key and its limits', {
    facts: [
      { Key: (key) => `${key.publicId} "${key.name}", ends in ${key.last4}` },
      'scopes',
      'allowedModels:Models',
      { Origins: ({ allowedOrigins: origins }) => (origins.length === 0 ? undefined : origins.join(', ')) },
      'monthlyLimitUsd',
      'totalLimitUsd',
      { Class: ({ class: keyClass }) => (keyClass === 'batch' ? 'batch' : undefined) },
      'requestsPerMinute',
      'tokensPerMinute',
      'createdAt',
      {
        'Last used': ({ lastUsedAt }) => utcTime(lastUsedAt) || 'never',
        Expires: ({ expiresAt }) => utcTime(expiresAt) || 'never',
        Revoked: ({ revokedAt }) => (revokedAt === null ? undefined : red(utcTime(revokedAt))),
        'Old secret': ({ graceEndsAt }) => (graceEndsAt === null ? undefined : `until ${utcTime(graceEndsAt)}`),
      },
    ],
    examples: ['berth keys show laptop'],
  }),
  act<'createApiKey', { for?: string }>('keys create', 'createApiKey', 'create an API key; it is shown once', {
    args: { '<name>': 'name of the key, such as laptop' },
    flags: {
      scopes: '-s, --scope <scope...>  permissions of the key',
      memberId: false,
      expiresAt: 'expiry: 30d, or a day such as 2027-01-01',
      allowedModels: '--model <name...>  allow only these models',
      allowedOrigins: '--allow-origin <origin...>  allow web pages of these origins (default: none)',
      monthlyLimitUsd: 'monthly spending limit',
      totalLimitUsd: 'total spending limit',
      class: 'batch: its requests wait while others do (default: interactive)',
      requestsPerMinute: 'maximum requests per minute',
      tokensPerMinute: 'maximum inference tokens per minute',
    },
    options: { '--for <member>': 'create it for this member, by email address (owners only)' },
    examples: ['berth keys create laptop --scope inference billing:read --total-limit 25'],
    prepare: async ({ client, input, options }) =>
      options.for === undefined ? input : withBody(input, { memberId: (await member.find(client, options.for)).id }),
    done: (reply) => [
      ['Key', bold(reply.key)],
      ['Id', reply.publicId],
      ['Scopes', reply.scopes.join(', ')],
      ['Expires', utcTime(reply.expiresAt) || 'never'],
      '',
      'Save the key now: it is not shown again. To revoke it:',
      `  berth keys rm ${reply.publicId}`,
    ],
  }),
  act<'rotateApiKey', unknown, ApiKey>(
    'keys rotate',
    'rotateApiKey',
    'replace the secret of an API key; it is shown once',
    {
      target: apiKey,
      flags: { graceHours: '--grace-hours <n>  hours that the old secret stays valid; 0 ends it at once' },
      notes: 'Its id, scopes, limits and spending stay. Console sessions opened with it end.',
      examples: ['berth keys rotate laptop', 'berth keys rotate laptop --grace-hours 0'],
      done: (reply) => [
        ['Key', bold(reply.key)],
        ['Id', reply.publicId],
        ['Old secret', `valid until ${utcTime(reply.graceEndsAt)}`],
        '',
        'Save the key now: it is not shown again.',
      ],
    },
  ),
  act<'revokeApiKey', { yes?: true }, ApiKey>(
    'keys rm',
    'revokeApiKey',
    'revoke an API key; takes effect within a second',
    {
      target: apiKey,
      options: { '-y, --yes': 'revoke it even if this command uses it' },
      examples: ['berth keys rm laptop'],
      prepare: async ({ client, target, input, options }) => {
        const { key: usedKey } = await client.call('getMe')
        if (usedKey.publicId !== target.publicId || options.yes === true) return input
        throw new CliError(exitCodes.usage, `${target.publicId} "${target.name}" is the key that this command uses.`, [
          `To revoke it anyway: berth keys rm ${target.publicId} --yes`,
        ])
      },
      done: (_, { target }) => `Revoked ${target.publicId} "${target.name}".`,
    },
  ),
]

const ADD_EXAMPLE = 'berth ssh-keys add ~/.ssh/id_ed25519.pub'

const sshKeyRows: readonly Row[] = [
  list('ssh-keys ls', 'listSshKeys', 'list SSH keys', {
    columns: ['id', 'name', 'fingerprint'],
    empty: `To add one: ${ADD_EXAMPLE}`,
  }),
  act<'addSshKey', { name?: string }>('ssh-keys add', 'addSshKey', 'add an SSH key to machines you rent from now on', {
    args: { '<file>': 'public key, such as ~/.ssh/id_ed25519.pub; - reads standard input' },
    only: [],
    options: { '-n, --name <name>': 'name (default: the comment in the key, or the file name)' },
    examples: [`${ADD_EXAMPLE} --name laptop`],
    prepare: async ({ args, shell, input, options }) => {
      const file = String(args[0])
      const publicKey = await readPublicKey(shell, file)
      return withBody(input, { name: options.name ?? nameIn(publicKey, file), publicKey })
    },
    done: (reply) => [
      ['SSH key', `${reply.id} "${reply.name}"`],
      ['Fingerprint', reply.fingerprint],
      '',
      'Machines you rent from now on accept it. Running machines do not.',
    ],
  }),
  act('ssh-keys rm', 'deleteSshKey', 'delete an SSH key; running machines keep it', {
    target: sshKey,
    examples: ['berth ssh-keys rm laptop'],
    onWire: (_, { target: { id, name } }) => ({ id, name, deleted: true }),
    done: (_, { target }) => `Deleted ${target.id} "${target.name}". Running machines keep it.`,
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

export const rows: readonly Row[] = [...accountRows, ...memberRows, ...ssoRows, ...keyRows, ...sshKeyRows]
