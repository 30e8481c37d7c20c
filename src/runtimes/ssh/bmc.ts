/**
 * Power control of a host: a Redfish controller or a command of the operator. Used when a host does not come back from a
 * reboot. A self-signed certificate is accepted only with a pinned fingerprint or `insecure`.
 */
import { spawn } from 'node:child_process'
import { isIP } from 'node:net'
import { TLSSocket } from 'node:tls'
import { Agent, buildConnector, request } from 'undici'
import { z } from 'zod'
import { signalWithin } from '../../base/signal-within.ts'
import type { MetalBmc } from './access.ts'

export interface PowerSwitch {
  /** Resets the host, or powers it on. Throws unless the controller confirms. */
  reset(signal: AbortSignal): Promise<void>
}

const CALL_MS = 30_000
const COMMAND_MS = 60_000
const MAX_BODY_BYTES = 1_048_576
const MAX_ERROR_CHARS = 300

export function powerSwitch(bmc: MetalBmc): PowerSwitch {
  return bmc.kind === 'redfish' ? redfishSwitch(bmc) : commandSwitch(bmc)
}

type Redfish = Extract<MetalBmc, { kind: 'redfish' }>
type Command = Extract<MetalBmc, { kind: 'command' }>

const collection = z.object({ Members: z.array(z.object({ '@odata.id': z.string() })) })
const computerSystem = z.object({
  PowerState: z.string().optional(),
  Actions: z.object({ '#ComputerSystem.Reset': z.object({ target: z.string() }) }),
})

function redfishSwitch(bmc: Redfish): PowerSwitch {
  return {
    async reset(signal) {
      const base = new URL(bmc.url)
      if (base.protocol !== 'https:' && !bmc.insecure) throw new Error('Redfish over plain HTTP requires "insecure".')
      const agent = new Agent({ connect: connectorFor(bmc), connections: 1 })
      const call = (method: 'GET' | 'POST', path: string, body?: object): Promise<unknown> =>
        callRedfish(bmc, base, agent, { method, path, body }, signalWithin(signal, CALL_MS))
      try {
        const path = bmc.system ?? (await findSystem(call))
        const system = computerSystem.parse(await call('GET', path))
        const type = system.PowerState === 'Off' ? 'On' : 'ForceRestart'
        await call('POST', system.Actions['#ComputerSystem.Reset'].target, { ResetType: type })
      } finally {
        await agent.destroy()
      }
    },
  }
}

type Call = (method: 'GET' | 'POST', path: string, body?: object) => Promise<unknown>

async function findSystem(call: Call): Promise<string> {
  const { Members: members } = collection.parse(await call('GET', '/redfish/v1/Systems'))
  const only = members[0]
  if (only === undefined || members.length > 1) {
    throw new Error(`The controller has ${members.length} systems: set "system" to the one of this host.`)
  }
  return only['@odata.id']
}

async function callRedfish(
  bmc: Redfish,
  base: URL,
  agent: Agent,
  { method, path, body }: { method: 'GET' | 'POST'; path: string; body: object | undefined },
  signal: AbortSignal,
): Promise<unknown> {
  // Only paths at the same origin: the password goes nowhere else.
  const url = new URL(path, base)
  if (!path.startsWith('/') || url.origin !== base.origin)
    throw new Error('The controller redirects to another address.')
  const answer = await request(url, {
    method,
    dispatcher: agent,
    signal,
    headersTimeout: CALL_MS,
    bodyTimeout: CALL_MS,
    headers: {
      authorization: `Basic ${Buffer.from(`${bmc.username}:${bmc.password}`).toString('base64')}`,
      accept: 'application/json',
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    body: body === undefined ? null : JSON.stringify(body),
  })
  const text = await readLimited(answer.body)
  if (answer.statusCode < 200 || answer.statusCode > 299) {
    throw new Error(`Redfish ${method} ${url.pathname}: ${answer.statusCode} ${text.slice(0, MAX_ERROR_CHARS)}`)
  }
  return text === '' ? null : JSON.parse(text)
}

async function readLimited(body: AsyncIterable<Buffer>): Promise<string> {
  const parts: Buffer[] = []
  let bytes = 0
  for await (const part of body) {
    bytes += part.length
    if (bytes > MAX_BODY_BYTES) throw new Error('The response of the controller is too large.')
    parts.push(part)
  }
  return Buffer.concat(parts).toString('utf8')
}

function connectorFor(bmc: Redfish): buildConnector.connector {
  const isChecked = !bmc.insecure && bmc.fingerprint === undefined
  const connect = buildConnector({ timeout: CALL_MS, rejectUnauthorized: isChecked })
  return (options, callback) => {
    // Server name indication takes host names only, not addresses.
    const named = isIP(options.hostname) === 0 ? options : { ...options, servername: '' }
    connect(named, (error, socket) => {
      if (error !== null) return callback(error, null)
      if (bmc.fingerprint !== undefined && !hasFingerprint(socket, bmc.fingerprint)) {
        socket.destroy()
        return callback(new Error('The certificate of the controller does not match the pinned one.'), null)
      }
      callback(null, socket)
    })
  }
}

function hasFingerprint(socket: object, fingerprint: string): boolean {
  return socket instanceof TLSSocket && socket.getPeerCertificate().fingerprint256 === fingerprint.toUpperCase()
}

function commandSwitch(bmc: Command): PowerSwitch {
  return {
    async reset(signal) {
      try {
        await runCommand(bmc.reset, signal)
      } catch (error) {
        // Many controllers cannot reset a host that is off.
        if (bmc.on === undefined || signal.aborted) throw error
        if (bmc.off !== undefined) await runCommand(bmc.off, signal)
        await runCommand(bmc.on, signal)
      }
    },
  }
}

function runCommand([program = '', ...args]: readonly string[], signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const limit = signalWithin(signal, COMMAND_MS)
    const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'], signal: limit, killSignal: 'SIGKILL' })
    let output = ''
    child.stderr.on('data', (data: Buffer) => {
      output = (output + data.toString('utf8')).slice(-MAX_ERROR_CHARS)
    })
    child.on('error', reject)
    child.on('close', (code) => {
      if (code === 0) resolve()
      else reject(new Error(`the power command failed with status ${code}: ${output.trim()}`))
    })
  })
}
