/** `berth operator sso`: providers at which people sign in. */
import type { Reply } from '../../client/client.ts'
import { utcTime } from '../../view/time.ts'
import { act, list, withBody } from '../kit/row.ts'
import { red, toned } from '../kit/screen.ts'
import { CLIENT_SECRET, readClientSecret, testLines } from '../kit/sso.ts'
import { targetOf } from '../kit/target.ts'
import type { Row } from '../kit/row-type.ts'

type Provider = Reply<'listSsoProviders'>['providers'][number]

const provider = targetOf<Provider>('sign-in provider', 'berth operator sso ls', {
  read: async (client) => (await client.call('listSsoProviders')).providers,
  id: 'id',
  name: 'name',
})

const flags = {
  name: 'what the button of the sign-in page says',
  issuer: 'its issuer, as it writes it (github: default https://github.com)',
  clientId: '--client-id <text>  id of the application that you registered there',
  domains: '--domain <domain...>  email domains that it decides: links known people at once',
  requiredDomain: 'only people of this domain may sign in; none: of any',
}

export const rows: readonly Row[] = [
  list('operator sso ls', 'listSsoProviders', 'list providers at which people sign in', {
    columns: [
      'id',
      'name',
      'issuer',
      {
        STATUS: (one) => statusOf(one),
        PEOPLE: ({ people }) => String(people),
        ACCOUNT: ({ accountId }) => accountId ?? 'everybody',
        'LAST SIGN-IN': ({ succeededAt }) => utcTime(succeededAt) || 'never',
      },
    ],
    empty: 'To add one: berth operator sso add google --name Google --issuer https://accounts.google.com …',
    examples: ['berth operator sso ls'],
  }),
  act<'addSsoProvider', { clientSecret?: string }>('operator sso add', 'addSsoProvider', 'add a provider', {
    args: { '<id>': 'your own name for it, such as google; a part of its callback URL' },
    flags: { ...flags, kind: 'oidc or github (default: oidc)', clientSecret: false },
    defaults: { kind: 'oidc' },
    isOptional: ['name'],
    options: CLIENT_SECRET,
    notes: `Register <public URL>/console/sign-in/<id>/callback at the provider first; it
gives the id and secret of the client. The secret is read from a file, since
other users of this machine can see arguments. See docs/operator/people.md.`,
    examples: [
      'berth operator sso add google --client-id ID --client-secret FILE \\\n      --issuer https://accounts.google.com --required-domain example.com',
      'berth operator sso add entra --client-id ID --client-secret FILE \\\n      --issuer https://login.microsoftonline.com/TENANT/v2.0',
      'berth operator sso add github --kind github --client-id ID \\\n      --client-secret FILE',
      'berth operator sso add keycloak --client-id berth --client-secret FILE \\\n      --issuer https://id.example.com/realms/main',
      'berth operator sso add acme --name Acme --client-id ID --domain acme.example \\\n      --issuer https://login.acme.example',
    ],
    prepare: (call) => {
      const { input, options, args } = call
      const name = input.parts.body?.name ?? titleOf(String(args[0]))
      const secret = readClientSecret(call, options.clientSecret)
      return withBody(input, { name, ...(secret === undefined ? {} : { clientSecret: secret }) })
    },
    done: ({ id, callbackUrl }) => [
      `Added ${id}.`,
      callbackUrl === null
        ? 'The server has no public URL: set BERTH_PUBLIC_URL before people can sign in.'
        : `Register this redirect URI there: ${callbackUrl}`,
      `To test it: berth operator sso test ${id}`,
    ],
  }),
  act<'changeSsoProvider', { clientSecret?: string }, Provider>(
    'operator sso set',
    'changeSsoProvider',
    'change a provider',
    {
      target: provider,
      flags: { ...flags, clientSecret: false, disabled: false },
      options: CLIENT_SECRET,
      notes: 'Another issuer ends the connections of people. Another client needs another\ntest.',
      examples: ['berth operator sso set entra --domain example.com', 'berth operator sso set entra --client-secret F'],
      prepare: (call) => {
        const secret = readClientSecret(call, call.options.clientSecret)
        return secret === undefined ? call.input : withBody(call.input, { clientSecret: secret })
      },
      done: ({ id }) => [`Changed ${id}.`, `To test it: berth operator sso test ${id}`],
    },
  ),
  act('operator sso disable', 'changeSsoProvider', 'let nobody sign in through a provider', {
    target: provider,
    only: [],
    fixed: { disabled: true },
    done: ({ id }) => `Disabled ${id}. Sessions that began there go on; to end them, remove it.`,
  }),
  act('operator sso enable', 'changeSsoProvider', 'let people sign in through a provider again', {
    target: provider,
    only: [],
    fixed: { disabled: false },
    done: ({ id }) => `Enabled ${id}.`,
  }),
  act('operator sso test', 'testSsoProvider', 'check a provider, and show the link for a test in a browser', {
    target: provider,
    timeoutMs: 40_000,
    isWrong: ({ ok }) => !ok,
    examples: ['berth operator sso test google'],
    done: testLines,
  }),
  act('operator sso rm', 'removeSsoProvider', 'remove a provider; asks first', {
    target: provider,
    confirm: ({ target }) =>
      `Remove ${target.id}? ${target.people} people cannot sign in with it any more, and accounts stop requiring it.`,
    examples: ['berth operator sso rm google'],
    onWire: (_, { target: { id } }) => ({ id, removed: true }),
    done: (_, { target }) => `Removed ${target.id}.`,
  }),
]

function statusOf({ disabledAt, isDown, succeededAt }: Provider) {
  if (disabledAt !== null) return red('disabled')
  if (isDown) return red('down')
  return succeededAt === null ? 'not tested' : toned('good', 'working')
}

/** Names that are not written as a sentence begins. */
const usualNames = new Map([
  ['github', 'GitHub'],
  ['gitlab', 'GitLab'],
])

function titleOf(id: string): string {
  return usualNames.get(id) ?? id.charAt(0).toUpperCase() + id.slice(1)
}
