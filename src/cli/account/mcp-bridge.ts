/**
 * MCP on standard input and output, for the tools of a server's `/mcp`. The client may speak either era; the server is
 * always asked in that of 2026-07-28, whose requests need no session. There a question to the user is a result. A client
 * of 2025 that can ask its user gets it as a request of ours, which the package makes of the result.
 */
import {
  inputRequired,
  McpServer,
  ProtocolError,
  ProtocolErrorCode,
  type CallToolResult,
  type ListToolsResult,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { z } from 'zod'
import packageJson from '../../../package.json' with { type: 'json' }
import { signalWithin } from '../../base/signal-within.ts'
import type { Session } from '../rental/session.ts'

const REVISION = '2026-07-28'
/** Longer than the longest command that a tool runs. */
const CALL_MS = 11 * 60_000

const reply = z.union([
  z.object({ result: z.record(z.string(), z.unknown()) }),
  z.object({ error: z.object({ code: z.int(), message: z.string(), data: z.unknown().optional() }) }),
])
const refusal = z.object({ message: z.string() })
const question = z.object({
  resultType: z.literal('input_required'),
  inputRequests: z.record(z.string(), z.unknown()).optional(),
  requestState: z.string().optional(),
})

/** Resolves when the agent has closed its end. */
export async function serveBridge(session: Pick<Session, 'client' | 'key'>): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    process.stdin.once('end', resolve)
    process.stdin.once('close', resolve)
  })
  const bridge = serveStdio(() => makeServer(session), {
    onerror: (error) => void process.stderr.write(`berth mcp: ${error.message}\n`),
  })
  await closed
  await bridge.close()
}

function makeServer(session: Pick<Session, 'client' | 'key'>): McpServer {
  const server = new McpServer(
    { name: 'berth', title: 'Berth', version: packageJson.version },
    { capabilities: { tools: {} } },
  )
  const ask = (context: ServerContext, method: string, params: Record<string, unknown>): Promise<Answer> =>
    askServer(session, { context, method, params, client: clientOf(server, context) })
  server.server.setRequestHandler('tools/list', async (_request, context) => {
    const { tools } = await ask(context, 'tools/list', {})
    return { tools } as ListToolsResult
  })
  server.server.setRequestHandler('tools/call', async ({ params }, context) => {
    const { inputResponses } = context.mcpReq
    const requestState = context.mcpReq.requestState<string>()
    const answer = await ask(context, 'tools/call', {
      name: params.name,
      arguments: params.arguments ?? {},
      ...(inputResponses === undefined ? {} : { inputResponses }),
      ...(requestState === undefined ? {} : { requestState }),
    })
    const toUser = question.safeParse(answer)
    return toUser.success ? inputRequired(toUser.data as never) : toolResult(answer)
  })
  return server
}

type Answer = Readonly<Record<string, unknown>>

/** Without what the server adds for its own connection. */
function toolResult({ content, structuredContent, isError }: Answer): CallToolResult {
  return { content, structuredContent, isError } as CallToolResult
}

interface Client {
  readonly clientInfo: unknown
  readonly clientCapabilities: unknown
}

function clientOf({ server }: McpServer, { mcpReq }: ServerContext): Client {
  const envelope = (mcpReq.envelope ?? {}) as Record<string, unknown>
  return {
    clientInfo: envelope['io.modelcontextprotocol/clientInfo'] ?? server.getClientVersion() ?? unknownClient,
    clientCapabilities: envelope['io.modelcontextprotocol/clientCapabilities'] ?? server.getClientCapabilities() ?? {},
  }
}

const unknownClient = { name: 'berth mcp', version: packageJson.version }

async function askServer(
  { client, key }: Pick<Session, 'client' | 'key'>,
  call: { context: ServerContext; method: string; params: Record<string, unknown>; client: Client },
): Promise<Answer> {
  const { context, method, params } = call
  const envelope = {
    'io.modelcontextprotocol/protocolVersion': REVISION,
    'io.modelcontextprotocol/clientInfo': call.client.clientInfo,
    'io.modelcontextprotocol/clientCapabilities': call.client.clientCapabilities,
  }
  const name = params['name']
  const sent = await fetch(`${client.url}/mcp`, {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${key ?? ''}`,
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      'MCP-Protocol-Version': REVISION,
      'Mcp-Method': method,
      ...(typeof name === 'string' ? { 'Mcp-Name': name } : {}),
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: context.mcpReq.id, method, params: { ...params, _meta: envelope } }),
    signal: signalWithin(context.mcpReq.signal, CALL_MS),
  }).catch((error: unknown) => {
    if (context.mcpReq.signal.aborted) throw error
    throw failed(`The server ${client.url} cannot be reached.`)
  })
  const body: unknown = await sent.json().catch(() => undefined)
  const answer = reply.safeParse(body)
  if (!answer.success) throw failed(refusal.safeParse(body).data?.message ?? `The server answered ${sent.status}.`)
  if ('result' in answer.data) return answer.data.result
  const { code, message, data } = answer.data.error
  throw new ProtocolError(code, message, data)
}

function failed(message: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InternalError, message)
}
