/** `berth forward`: ports of this machine that lead to ports of a rented one, through its SSH server. */
import { InvalidArgumentError } from 'commander'
import { displayName, type OwnMachine } from '../../view/own-machine.ts'
import { parseWhole } from '../kit/flag.ts'
import { custom } from '../kit/row.ts'
import type { Row } from '../kit/row-type.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import { ownMachine, typedName } from './own-machine.ts'
import { IDENTITY, rejectSimulated } from './remote.ts'
import { demoIdentity, quote, runProgram, sshWords } from './ssh-command.ts'

const MAX_PORT = 65_535
/** Only programs on this machine reach a forwarded port. */
const LOOPBACK = '127.0.0.1'

interface Forwarded {
  readonly local: number
  readonly remote: number
}

export const rows: readonly Row[] = [
  custom<{ identity?: string; print?: true }, OwnMachine>('forward', 'reach ports of a machine from this one', {
    target: ownMachine,
    who: 'customer',
    args: { '<port...>': { help: 'port of the machine, or HERE:THERE, such as 8080:80', parse: parseForwarded } },
    options: {
      [IDENTITY]: 'private key to log in with',
      '--print': 'print the ssh command instead of running it',
    },
    notes: `Goes on until Ctrl-C. The ports need not be part of the order, and programs
there may listen on localhost alone. To open an HTTP port in the browser
without SSH: berth open.`,
    examples: ['berth forward web 8888', 'berth forward web 8080:80 5432'],
    run: async ({ session, shell, client, options, args, target: machine }) => {
      await rejectSimulated(session, machine)
      const ports = (args[1] ?? []) as readonly Forwarded[]
      if (machine.ssh === undefined && machine.status === 'Running') throw withoutSsh(await typedName(client, machine))
      const flags = ['-N', '-T', '-o', 'ExitOnForwardFailure=yes', ...ports.flatMap(flagsOf)]
      const words = sshWords(machine, options.identity ?? demoIdentity(session, shell), [], flags)
      if (options.print !== true && !session.json) {
        for (const { local, remote } of ports)
          session.screen.remark(`${LOOPBACK}:${local} leads to port ${remote} of ${displayName(machine)}.`)
        session.screen.remark('To end it: Ctrl-C')
        return runProgram(words)
      }
      session.screen.show({ command: words, ports }, () => [words.map(quote).join(' ')])
      return exitCodes.ok
    },
  }),
]

function flagsOf({ local, remote }: Forwarded): string[] {
  return ['-L', `${LOOPBACK}:${local}:${LOOPBACK}:${remote}`]
}

/** `8888`, or `8080:80`: the local port comes first, as for ssh and kubectl. */
function parseForwarded(text: string): Forwarded {
  const [, local, remote] = /^(\d{1,5})(?::(\d{1,5}))?$/.exec(text) ?? []
  if (local === undefined) throw new InvalidArgumentError('Must be a port such as 8888, or HERE:THERE such as 8080:80.')
  const read = parseWhole(1, MAX_PORT)
  return { local: read(local), remote: read(remote ?? local) }
}

function withoutSsh(name: string): CliError {
  return new CliError(exitCodes.failed, `${name} has no SSH server, which forwarding needs.`, [
    `To open an HTTP port of the order in the browser: berth open ${name}`,
    `To list its ports and their addresses: berth ports ${name}`,
  ])
}
