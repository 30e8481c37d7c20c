/**
 * One session of an SSH connection: a shell, a command or SFTP, run inside the container as root. Output is passed on
 * with backpressure, so a client that stops reading costs no memory; the program gets SIGHUP when the client
 * disconnects.
 */
import type { Duplex } from 'node:stream'
import type { ServerChannel, Session } from 'ssh2'
import type { DockerClient } from './client.ts'
import { endInput, readOutput, shellCommand, startExecution, type Execution } from './execution.ts'
import { containerShell } from './container-shell.ts'
import { ShellFiles } from './shell-files.ts'
import { serveSftp } from './sftp-server.ts'
import { writeToChannel } from './ssh-channel.ts'

export interface SessionPlace {
  readonly client: DockerClient
  readonly container: string
  /** Carries the whole SSH connection. */
  readonly transport: Duplex
  readonly onError: (what: string, error: unknown) => void
}

const MAX_VARIABLES = 64
const MAX_VARIABLE_CHARS = 4_096
const MAX_WINDOW = 1_000
const variableForm = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/
const termForm = /^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$/
const signals = new Set(['ABRT', 'ALRM', 'HUP', 'INT', 'KILL', 'QUIT', 'TERM', 'USR1', 'USR2'])
const FAILED_EXIT_CODE = 255

/** SSH sessions start in the home folder; `docker exec` starts in the image's working folder. */
const HOME_SCRIPT = 'cd "${HOME:-/}" 2>/dev/null; exec "$@"'

const SFTP_SERVERS = [
  '/usr/lib/openssh/sftp-server',
  '/usr/libexec/openssh/sftp-server',
  '/usr/lib/ssh/sftp-server',
  '/usr/libexec/sftp-server',
  '/usr/lib/sftp-server',
]
/** Prints the one that the image has. */
const SFTP_SCRIPT = 'for file in "$@"; do if [ -x "$file" ]; then echo "$file"; exit; fi; done'

/** `closed` is called once, at the end of the session. */
export function serveSession(session: Session, place: SessionPlace, closed: () => void): void {
  const env = new Map([
    ['USER', 'root'],
    ['LOGNAME', 'root'],
  ])
  let terminal: { columns: number; rows: number } | undefined
  let execution: Execution | undefined

  /** Never rejects: nothing awaits it. */
  const run = async (channel: ServerChannel, command: readonly string[], withTerminal: boolean): Promise<void> => {
    // Errors of one channel must not affect the others.
    channel.on('error', () => channel.destroy())
    channel.stderr.on('error', () => channel.destroy())
    try {
      const variables = [...env].map(([name, value]) => `${name}=${value}`)
      const size = withTerminal && terminal !== undefined ? { terminal } : {}
      const atHome = ['/bin/sh', '-c', HOME_SCRIPT, 'sh', ...command]
      execution = await startExecution(place.client, place.container, { command: atHome, env: variables, ...size })
      await carry(channel, execution, place.transport)
    } catch (error) {
      place.onError('SSH session', error)
      giveUp(channel)
    }
  }
  /** There is no channel if the client is gone, or asks for a second program on the same one. */
  const begin = (accept: Accept, command: readonly string[], withTerminal: boolean): void => {
    const channel = accept?.()
    if (channel !== undefined) void run(channel, command, withTerminal)
  }

  session.on('pty', (accept, _, info) => {
    terminal = { columns: bounded(info.cols), rows: bounded(info.rows) }
    env.set('TERM', termForm.test(info.term ?? '') ? info.term : 'xterm')
    accept?.()
  })
  session.on('window-change', (accept, _, info) => {
    terminal = { columns: bounded(info.cols), rows: bounded(info.rows) }
    void execution?.resize(terminal.columns, terminal.rows)
    accept?.()
  })
  session.on('env', (accept, reject, info) => {
    const isGood = variableForm.test(info.key) && info.val.length <= MAX_VARIABLE_CHARS && env.size < MAX_VARIABLES
    if (!isGood) return reject?.()
    env.set(info.key, info.val)
    accept?.()
  })
  session.on('signal', (accept, reject, info) => {
    const name = info.name.replace(/^SIG/, '')
    if (execution === undefined || !signals.has(name)) return reject?.()
    execution.signal(name).catch((error: unknown) => place.onError('signal to an SSH session', error))
    accept?.()
  })
  session.on('shell', (accept) => begin(accept, shellCommand(), true))
  session.on('exec', (accept, _, info) => begin(accept, shellCommand('-c', info.command), true))
  session.on('subsystem', (accept, reject, info) => {
    if (info.name !== 'sftp') return (reject as Reject)?.()
    // Accepted at once, whatever the image has: ssh2 drops data sent earlier, and clients do not wait.
    const channel = (accept as Accept)?.()
    if (channel !== undefined) void serveFiles(channel, place, (server) => run(channel, [server], false))
  })
  session.once('close', closed)
}

/** SFTP: by the server of the image, else by ours. Never rejects: nothing awaits it. */
async function serveFiles(
  channel: ServerChannel,
  place: SessionPlace,
  runServer: (file: string) => Promise<void>,
): Promise<void> {
  channel.on('error', () => channel.destroy())
  channel.stderr.on('error', () => channel.destroy())
  const closed = new Promise<never>((_, reject) => channel.once('close', () => reject(new ChannelClosed())))
  closed.catch(() => {})
  try {
    const shell = containerShell(place.client, place.container)
    const { out } = await shell.run(SFTP_SCRIPT, SFTP_SERVERS)
    const server = out.toString().trim()
    if (server !== '') return await runServer(server)
    // A write to a closed channel never ends.
    const send = (packet: Buffer): Promise<void> =>
      Promise.race([writeToChannel(channel, channel, packet, place.transport), closed])
    await serveSftp(channel, send, new ShellFiles(shell))
    channel.exit(0)
    channel.end()
  } catch (error) {
    if (error instanceof ChannelClosed || channel.destroyed) return
    place.onError('SFTP', error)
    giveUp(channel)
  }
}

class ChannelClosed extends Error {}

/** Unlike its types say, ssh2 passes undefined when the client wants no reply. */
type Accept = (() => ServerChannel | undefined) | undefined
type Reject = (() => void) | undefined

function giveUp(channel: ServerChannel): void {
  try {
    channel.stderr.write('The session could not be started or was interrupted.\r\n')
    channel.exit(FAILED_EXIT_CODE)
    channel.end()
  } catch {
    // Closed meanwhile.
    channel.destroy()
  }
}

async function carry(channel: ServerChannel, execution: Execution, transport: Duplex): Promise<void> {
  const { socket } = execution
  let isOver = false
  const channelClose = new Promise<'gone'>((resolve) => {
    channel.once('close', () => {
      if (!isOver) socket.destroy()
      resolve('gone')
    })
  })
  channel.on('error', () => socket.destroy())
  channel.pipe(socket, { end: false })
  channel.once('end', () => endInput(execution))
  const output = passOn(channel, execution, transport)
  if ((await Promise.race([output, channelClose])) === 'gone') {
    await execution.signal('HUP')
    return
  }
  isOver = true
  channel.exit(await execution.exitCode())
  channel.end()
}

async function passOn(channel: ServerChannel, execution: Execution, transport: Duplex): Promise<'ended'> {
  try {
    for await (const { isError, data } of readOutput(execution)) {
      await writeToChannel(channel, isError ? channel.stderr : channel, data, transport)
    }
  } catch (error) {
    // The connection to the daemon broke: the exit code is still reported.
    if (!execution.socket.destroyed) throw error
  }
  return 'ended'
}

function bounded(size: number): number {
  return Math.min(Math.max(Math.floor(size), 1), MAX_WINDOW)
}
