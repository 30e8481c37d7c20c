/** `berth ports`, `open` and `port-tokens`: ports of machines, in the browser and for programs. */
import { spawn } from 'node:child_process'
import type { Client, Reply } from '../../client/client.ts'
import type { PortRecord } from '../../contract/port.ts'
import type { WorkloadPortInput } from '../../contract/workload.ts'
import { portLabel, portState } from '../../view/port.ts'
import type { OwnMachine } from '../../view/own-machine.ts'
import { parseWhole } from '../kit/flag.ts'
import { ownMachine, readDetail, typedName } from './own-machine.ts'
import { tableOf } from '../kit/record.ts'
import { act, custom, list } from '../kit/row.ts'
import { bold, toned } from '../kit/screen.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import { watch } from '../kit/watch.ts'
import type { Row } from '../kit/row-type.ts'

type Token = Reply<'listPortTokens'>['tokens'][number]

const REFRESH_S = 5
const MAX_PORT = 65_535
const PORT = { '<port>': { help: 'HTTP port, as shown by berth ports', parse: parseWhole(1, MAX_PORT) } }
const TOKEN_EXAMPLE = 'berth port-tokens create web 8000 --name ci'

export const rows: readonly Row[] = [
  custom<unknown, OwnMachine>('ports', 'list the ports of a machine and their addresses', {
    target: ownMachine,
    who: 'customer',
    canWatch: REFRESH_S,
    examples: ['berth ports web', 'berth ports web --watch'],
    run: (call) =>
      watch(call, async () => {
        const { ports } = await readDetail(call.client, call.target)
        const columns = [
          { PORT: (one: PortRecord) => String(one.port) },
          'protocol',
          'access',
          { STATE: (one: PortRecord) => toned(portState(one).tone, portState(one).label) },
          'url',
        ] as const
        return {
          onWire: { ports },
          content:
            ports.length === 0
              ? ['It has no ports besides SSH.', 'Ports are part of the order: berth rent --port 8888/http']
              : [tableOf(ports, columns), '', ...(await openHint(call.client, call.target, ports))],
        }
      }),
  }),
  custom<{ path?: string; print?: true }, OwnMachine>('open', 'open an HTTP port of a machine in the browser', {
    target: ownMachine,
    who: 'customer',
    args: { '[port]': { help: 'HTTP port (default: the only one)', parse: parseWhole(1, MAX_PORT) } },
    options: { '--path <path>': 'page to open, such as /lab', '--print': 'print the link, and do not open it' },
    notes: 'The link to a private port works once, within 60 seconds.',
    examples: ['berth open web', 'berth open web 8888 --path /lab --print'],
    run: async ({ client, screen, shell, session, args, options, target }) => {
      const port = (args[1] as number | undefined) ?? (await onlyHttpPort(client, target))
      const body = options.path === undefined ? {} : { path: options.path }
      const link = await client.call('openRentalPort', { params: { id: target.id, port }, body })
      screen.show(link, () => [link.url])
      const isSeen = shell.person !== undefined && options.print !== true && !session.json
      if (isSeen) openBrowser(link.url)
    },
  }),
  list<'listPortTokens', undefined, unknown, OwnMachine>(
    'port-tokens ls',
    'listPortTokens',
    'list the tokens of an HTTP port',
    {
      target: ownMachine,
      args: PORT,
      noun: 'token',
      columns: ['id', 'name', { TOKEN: ({ last4 }) => `bpt_…${last4}` }, 'createdAt', 'expiresAt'],
      empty: `To create one: ${TOKEN_EXAMPLE}`,
      examples: ['berth port-tokens ls web 8000'],
    },
  ),
  act<'createPortToken', unknown, OwnMachine>(
    'port-tokens create',
    'createPortToken',
    'create a token for an HTTP port; it is shown once',
    {
      target: ownMachine,
      args: PORT,
      flags: { name: '--name <name>  its name, such as the program that uses it' },
      examples: [TOKEN_EXAMPLE],
      done: (created) => [
        ['Token', bold(created.token)],
        '',
        'Save it now: it is not shown again. Send it as "Authorization: Bearer <token>".',
      ],
    },
  ),
  act<'revokePortToken', unknown, OwnMachine>('port-tokens rm', 'revokePortToken', 'revoke a token of an HTTP port', {
    target: ownMachine,
    args: { ...PORT, '<token>': { help: 'its id or name, as shown by berth port-tokens ls', field: 'tokenId' } },
    examples: ['berth port-tokens rm web 8000 ci'],
    prepare: async ({ client, target, args, input }) => {
      const params = { id: target.id, port: args[1] as number }
      const token = pickToken((await client.call('listPortTokens', { params })).tokens, String(args[2]))
      return { ...input, parts: { ...input.parts, params: { ...params, tokenId: token.id } } }
    },
    done: (_, { args }) => `Revoked the token ${String(args[2])}.`,
  }),
]

/** `8080`, `8888/http` or `8000/http/public`. */
export function addPort(text: string, before: unknown): WorkloadPortInput[] {
  const [, port, protocol, access] = /^(\d{1,5})\/(http|tcp)(?:\/(private|public))?$/.exec(text) ?? []
  const number = parseWhole(1, MAX_PORT)(port ?? text)
  const one: WorkloadPortInput =
    protocol === undefined
      ? number
      : {
          port: number,
          protocol: protocol as 'http' | 'tcp',
          ...(access === undefined ? {} : { access: access as 'private' | 'public' }),
        }
  return [...((before as WorkloadPortInput[] | undefined) ?? []), one]
}

async function openHint(client: Client, machine: OwnMachine, ports: readonly PortRecord[]): Promise<string[]> {
  const http = ports.find(({ protocol, url }) => protocol === 'http' && url !== null)
  if (http === undefined) return []
  return [`To open one in the browser: berth open ${await typedName(client, machine)} ${http.port}`]
}

async function onlyHttpPort(client: Client, machine: OwnMachine): Promise<number> {
  const { ports } = await readDetail(client, machine)
  const [only, ...others] = ports.filter(({ protocol }) => protocol === 'http')
  if (only !== undefined && others.length === 0) return only.port
  const name = await typedName(client, machine)
  if (only === undefined) {
    throw new CliError(exitCodes.failed, `${name} has no HTTP port.`, [
      'HTTP ports are part of the order: berth rent --port 8888/http',
    ])
  }
  throw new CliError(
    exitCodes.usage,
    `${name} has several HTTP ports: ${[only, ...others].map(portLabel).join(', ')}.`,
    [`Name one: berth open ${name} ${only.port}`],
  )
}

function pickToken(tokens: readonly Token[], idOrName: string): Token {
  const [only, ...others] = tokens.filter(({ id, name }) => id === idOrName || name === idOrName)
  if (only === undefined) throw new CliError(exitCodes.failed, `There is no token ${idOrName}.`)
  if (others.length === 0) return only
  throw new CliError(exitCodes.usage, `Several tokens are named ${idOrName}.`, [
    `Use one of the ids: ${[only, ...others].map(({ id }) => id).join(', ')}`,
  ])
}

/** The link is printed too, so a machine without a browser loses nothing. */
function openBrowser(url: string): void {
  const program = process.platform === 'darwin' ? 'open' : process.platform === 'win32' ? 'explorer' : 'xdg-open'
  spawn(program, [url], { stdio: 'ignore', detached: true })
    .on('error', () => {})
    .unref()
}
