/** `berth members sso`: the provider at which the members of an account sign in. */
import type { Reply } from '../../client/client.ts'
import { utcTime } from '../../view/time.ts'
import { act, show, withBody } from '../kit/row.ts'
import { CLIENT_SECRET, readClientSecret, testLines } from '../kit/sso.ts'
import type { Row } from '../kit/row-type.ts'
import type { Content } from '../kit/screen.ts'

type AccountSso = Reply<'getAccountSso'>

export const ssoRows: readonly Row[] = [
  show('members sso show', 'getAccountSso', 'show at which provider members sign in', { content: ssoLines }),
  act<'setAccountSso', { clientSecret?: string }>(
    'members sso set',
    'setAccountSso',
    'set a provider of the account itself (owners only)',
    {
      flags: {
        kind: 'oidc or github (default: oidc)',
        name: 'what people know it as',
        issuer: 'its issuer, as it writes it (github: default https://github.com)',
        clientId: '--client-id <text>  id of the application that you registered there',
        clientSecret: false,
        requiredDomain: 'only people of this domain may sign in; none: of any',
      },
      defaults: { kind: 'oidc' },
      options: CLIENT_SECRET,
      notes: `People who sign in through it get a code by email first, and act in this
account only. Its address must be public.`,
      examples: [
        'berth members sso set --name Example --client-id berth --client-secret FILE \\\n      --issuer https://id.example.com/realms/main',
      ],
      prepare: (call) => {
        const clientSecret = readClientSecret(call, call.options.clientSecret)
        return clientSecret === undefined ? call.input : withBody(call.input, { clientSecret })
      },
      done: (reply) => [...ssoLines(reply), '', 'To test it: berth members sso test'],
    },
  ),
  act('members sso test', 'testAccountSso', 'check the provider of the account (owners only)', {
    timeoutMs: 40_000,
    isWrong: ({ ok }) => !ok,
    done: testLines,
  }),
  act('members sso require', 'requireAccountSso', 'require members to sign in at a provider (owners only)', {
    args: { '<provider>': { help: 'id of the provider, as shown by berth members sso show', field: 'providerId' } },
    notes: 'An owner must have signed in through it before. API keys keep working.',
    examples: ['berth members sso require google'],
    done: ({ requiredProviderId }) => `Members must sign in with ${String(requiredProviderId)} now.`,
  }),
  act('members sso optional', 'requireAccountSso', 'let members sign in in any way (owners only)', {
    only: [],
    prepare: ({ input }) => withBody(input, { providerId: null }),
    done: () => 'Members may sign in in any way now.',
  }),
  act('members sso rm', 'removeAccountSso', 'remove the provider of the account (owners only); asks first', {
    confirm: () => 'Remove the provider of the account? Sessions that began there end.',
    done: ({ message }) => message,
  }),
]

function ssoLines({ provider, requiredProviderId, choices }: AccountSso): readonly Content[] {
  return [
    ['Required', requiredProviderId ?? 'no: members may sign in in any way'],
    ...(provider === null
      ? ['The account has no provider of its own.', 'To set one: berth members sso set --help']
      : ([
          ['Provider', `${provider.id} "${provider.name}"`],
          ['Issuer', provider.issuer],
          ['Redirect URI', provider.callbackUrl ?? 'none: the server has no public URL'],
          ['Sign-in', provider.signInUrl ?? ''],
          ['Last sign-in', utcTime(provider.succeededAt) || 'never'],
          ['Problem', provider.lastError ?? ''],
        ] as const)),
    ['Can be required', choices.flatMap(({ id, canRequire }) => (canRequire ? [id] : [])).join(', ') || 'none yet'],
  ]
}
