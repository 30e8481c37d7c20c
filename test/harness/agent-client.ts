/** Clients of agents, of both eras of the protocol, over any transport; and a host whose commands really run. */
import { spawn } from 'node:child_process'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport as OldStdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport as OldHttpTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { frameOutput } from '../../src/base/net/output-frame.ts'
import type { MuxStream } from '../../src/base/net/mux.ts'
import type { StreamRequest } from '../../src/contract/agent.ts'

export const eras = ['2026-07-28', '2025-11-25'] as const
export type Era = (typeof eras)[number]

export interface ToolAnswer {
  readonly isError: boolean
  readonly text: string
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly value: any
  /** `error` of a refused call. */
  readonly reason: string | undefined
}

export interface AgentClient {
  tools(): Promise<ReadonlyArray<{ readonly name: string; readonly annotations?: object | undefined }>>
  call(name: string, args?: object, signal?: AbortSignal): Promise<ToolAnswer>
  /** Texts of all questions to its user. */
  readonly questions: string[]
  close(): Promise<void>
}

export type Reach =
  | { readonly url: string; readonly key: string | null; readonly headers?: Readonly<Record<string, string>> }
  | { readonly command: string; readonly args: readonly string[]; readonly env: Readonly<Record<string, string>> }

/** `answer`: what its user says to questions. Absent: it cannot ask. */
export async function openAgent(era: Era, reach: Reach, answer?: 'accept' | 'decline'): Promise<AgentClient> {
  const questions: string[] = []
  const elicit = (message: string) => {
    questions.push(message)
    return answer === 'accept'
      ? { action: 'accept' as const, content: { confirm: true } }
      : { action: 'decline' as const }
  }
  const capabilities = answer === undefined ? {} : { elicitation: {} }
  const info = { name: `test of ${era}`, version: '1.0' }
  if (era === '2025-11-25') {
    const client = new OldClient(info, { capabilities })
    if (answer !== undefined) client.setRequestHandler(ElicitRequestSchema, ({ params }) => elicit(params.message))
    await client.connect(oldTransport(reach))
    return {
      tools: async () => (await client.listTools()).tools,
      call: async (name, args, signal) =>
        readAnswer(
          await client.callTool({ name, arguments: { ...args } }, undefined, signal === undefined ? {} : { signal }),
        ),
      questions,
      close: () => client.close(),
    }
  }
  const client = new Client(info, { capabilities, versionNegotiation: { mode: { pin: era } } })
  if (answer !== undefined) client.setRequestHandler('elicitation/create', ({ params }) => elicit(params.message))
  await client.connect(newTransport(reach))
  return {
    tools: async () => (await client.listTools()).tools,
    call: async (name, args, signal) =>
      readAnswer(await client.callTool({ name, arguments: { ...args } }, signal === undefined ? {} : { signal })),
    questions,
    close: () => client.close(),
  }
}

function headersOf(reach: Extract<Reach, { url: string }>): Record<string, string> {
  return { ...(reach.key === null ? {} : { Authorization: `Bearer ${reach.key}` }), ...reach.headers }
}

function oldTransport(reach: Reach) {
  if ('command' in reach) return new OldStdioClientTransport({ ...reach, args: [...reach.args], env: { ...reach.env } })
  return new OldHttpTransport(new URL(reach.url), { requestInit: { headers: headersOf(reach) } }) as never
}

function newTransport(reach: Reach) {
  if ('command' in reach) return new StdioClientTransport({ ...reach, args: [...reach.args], env: { ...reach.env } })
  return new StreamableHTTPClientTransport(new URL(reach.url), { requestInit: { headers: headersOf(reach) } })
}

function readAnswer(result: object): ToolAnswer {
  const { content, structuredContent, isError } = result as {
    content: Array<{ type: string; text?: string }>
    structuredContent?: unknown
    isError?: boolean
  }
  const text = content.map((one) => one.text ?? '').join('')
  const reason = isError === true ? (JSON.parse(text) as { error: string }).error : undefined
  return { isError: isError === true, text, value: structuredContent, reason }
}

/** One call of 2026-07-28 without a client, which would answer questions itself. Returns its result. */
export async function callTool(url: string, key: string, name: string, args: object, more: object = {}) {
  const envelope = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': { elicitation: {} },
  }
  const response = await fetch(`${url}/mcp`, {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${key}`,
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      'MCP-Protocol-Version': '2026-07-28',
      'Mcp-Method': 'tools/call',
      'Mcp-Name': name,
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name, arguments: args, ...more, _meta: envelope },
    }),
  })
  // oxlint-disable-next-line typescript/no-explicit-any
  return ((await response.json()) as { result: any }).result
}

export interface RunningCommand {
  readonly pid: number | undefined
  readonly command: readonly string[]
  isOver: boolean
}

/** Runs the commands of streams on this machine, and has a log. */
export function runCommands(log: string) {
  const commands: RunningCommand[] = []
  const answer = (request: StreamRequest, stream: MuxStream): void => {
    // The server may hang up at any moment.
    stream.on('error', () => {})
    if (request.kind === 'logs') return void stream.end(log)
    if (request.kind !== 'command') return void stream.destroy()
    const [file = '', ...args] = request.command
    const child = spawn(file, args, { stdio: ['pipe', 'pipe', 'pipe'], detached: true })
    const one: RunningCommand = { pid: child.pid, command: request.command, isOver: false }
    commands.push(one)
    stream.pipe(child.stdin)
    child.stdin.on('error', () => {})
    child.stdout.on('data', (data: Buffer) => void stream.write(frameOutput('out', data)))
    child.stderr.on('data', (data: Buffer) => void stream.write(frameOutput('error', data)))
    child.once('close', (exitCode) => {
      one.isOver = true
      if (stream.destroyed) return
      stream.sendSignal({ exitCode })
      stream.end()
    })
    stream.once('close', () => {
      if (!one.isOver && child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
    })
  }
  return { commands, answer }
}
