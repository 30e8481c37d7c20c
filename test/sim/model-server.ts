/**
 * A model server for tests and benches, on a real port or socket. It answers chat, completions, embeddings, images (also
 * in the form of our own engine) and speech like common servers, and fails on command. It records its requests and
 * whether clients disconnected early, so that a test can check facts at the engine that are not visible at the client.
 */
import { createHash } from 'node:crypto'
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import https from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import {
  chatAnswer,
  chatEvents,
  completionAnswer,
  countTokens,
  embeddingsAnswer,
  imagesAnswer,
  imageAnswer,
  imageEvents,
  parseBody,
  rerankAnswer,
  rerankTokens,
  ownSpeech,
  silentMp3,
  speechEvents,
  transcriptionAnswer,
  tokenizeAnswer,
  txt2imgAnswer,
  type ChatShape,
} from './model-server-answer.ts'
import { playFault, type Fault } from './model-server-fault.ts'

export interface ReceivedRequest {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** Number of its connection, counted from 1. */
  readonly connection: number
  /** When the client disconnected early, by performance.now(). undefined: it did not, or not yet. */
  abortedAt: number | undefined
  /** The answer was sent completely. */
  isAnswered: boolean
  eventsSent: number
}

export interface Behaviour {
  /** Words of an answer, unless `max_tokens` is lower. */
  words: number
  wordOf: (n: number) => string
  /** Between the events of a stream. 0: all at once. */
  intervalMs: number
  /** Before the head. */
  latencyMs: number
  usage: 'always' | 'continuous' | 'none'
  /** Notes about its images. */
  notes: readonly string[]
  /** For all requests except health checks. undefined: none. */
  fault: Fault | undefined
  /** For the next requests, one each, before `fault`. */
  faultsOnce: Fault[]
  /** The status of /health. */
  health: number
  /** The body of /metrics. undefined: requests in flight, in vLLM's form. */
  metrics: string | undefined
  /** Pages such as /props, as engines have them. Others are answered with 404. */
  pages: Readonly<Record<string, unknown>>
  /** The form in which it counts the tokens of a chat. */
  tokenizer: 'vllm' | 'llama' | 'none'
}

export interface ModelServer {
  readonly host: string
  /** 0 for a unix socket. */
  readonly port: number
  readonly behaviour: Behaviour
  /** The latest requests, without health checks. */
  readonly requests: readonly ReceivedRequest[]
  readonly received: number
  readonly inFlight: number
  readonly peakInFlight: number
  /** Currently open, and opened in total. */
  readonly connections: number
  readonly everConnected: number
  /** Prompt tokens that an earlier prompt started with. */
  readonly cachedTokens: number
  readonly promptTokens: number
  readonly probes: number
  readonly metricsReads: number
  /** Check requests of a gateway; they are not in `requests`. */
  readonly checks: number
  /** Closes all open connections. */
  cutConnections(): void
  close(): Promise<void>
}

export interface ModelServerOptions {
  /** A unix socket instead of a port. */
  readonly socketPath?: string
  readonly port?: number
  readonly tls?: { readonly key: string; readonly cert: string }
  readonly behaviour?: Partial<Behaviour>
  /** How many requests are kept. */
  readonly keepsRequests?: number
  readonly keepAliveMs?: number
}

const MAX_KEPT_REQUESTS = 10_000
const MAX_CACHED_PROMPTS = 100_000

const operations =
  /\/(chat\/completions|completions|embeddings|rerank|images\/generations|txt2img|image\/generation|audio\/(?:speech|generation|transcriptions)|tokenize|apply-template)$/

const usual: Behaviour = {
  words: 5,
  wordOf: (n) => `word${n} `,
  intervalMs: 0,
  latencyMs: 0,
  usage: 'always',
  notes: [],
  fault: undefined,
  faultsOnce: [],
  health: 200,
  metrics: undefined,
  pages: {},
  tokenizer: 'none',
}

export async function startModelServer(options: ModelServerOptions = {}): Promise<ModelServer> {
  const server = new SimulatedServer(options)
  await server.listen(options)
  return server
}

type Answer =
  | {
      readonly type: string
      readonly body: Buffer
      readonly headers?: Readonly<Record<string, string>>
    }
  | { readonly events: readonly string[] }

class SimulatedServer implements ModelServer {
  readonly host = '127.0.0.1'
  readonly behaviour: Behaviour
  readonly requests: ReceivedRequest[] = []
  port = 0
  received = 0
  inFlight = 0
  peakInFlight = 0
  everConnected = 0
  cachedTokens = 0
  promptTokens = 0
  probes = 0
  metricsReads = 0
  checks = 0
  readonly #server: http.Server | https.Server
  readonly #sockets = new Map<Socket, number>()
  readonly #prompts = new Set<string>()
  readonly #keeps: number

  constructor({ tls, behaviour, keepsRequests = MAX_KEPT_REQUESTS, keepAliveMs }: ModelServerOptions) {
    this.behaviour = { ...usual, faultsOnce: [], ...behaviour }
    this.#keeps = keepsRequests
    const listener = (request: IncomingMessage, response: ServerResponse): void => this.#receive(request, response)
    this.#server = tls === undefined ? http.createServer(listener) : https.createServer(tls, listener)
    if (keepAliveMs !== undefined) this.#server.keepAliveTimeout = keepAliveMs
    this.#server.on(tls === undefined ? 'connection' : 'secureConnection', (socket: Socket) => {
      this.everConnected += 1
      this.#sockets.set(socket, this.everConnected)
      socket.on('error', () => {}).on('close', () => this.#sockets.delete(socket))
    })
  }

  get connections(): number {
    return this.#sockets.size
  }

  async listen({ socketPath, port = 0 }: ModelServerOptions): Promise<void> {
    await new Promise<void>((done, reject) => {
      this.#server.once('error', reject)
      if (socketPath === undefined) this.#server.listen(port, this.host, done)
      else this.#server.listen(socketPath, done)
    })
    if (socketPath === undefined) this.port = (this.#server.address() as AddressInfo).port
  }

  cutConnections(): void {
    for (const socket of this.#sockets.keys()) socket.destroy()
  }

  close(): Promise<void> {
    const closed = new Promise<void>((done) => this.#server.close(() => done()))
    this.cutConnections()
    return closed
  }

  #receive(request: IncomingMessage, response: ServerResponse): void {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('error', () => {})
    request.on('end', () => {
      const path = request.url ?? ''
      if (/\/(health|metrics|v1\/models|props|info|(get_)?server_info)$/.test(path))
        return this.#answerCheck(path, response)
      const one: ReceivedRequest = {
        method: request.method ?? '',
        path,
        headers: request.headers as Record<string, string>,
        body: Buffer.concat(chunks),
        connection: this.#sockets.get(request.socket) ?? 0,
        abortedAt: undefined,
        isAnswered: false,
        eventsSent: 0,
      }
      const isCheck = request.headers['x-berth-check'] !== undefined
      if (isCheck) this.checks += 1
      else {
        this.received += 1
        this.requests.push(one)
        if (this.requests.length > this.#keeps) this.requests.shift()
      }
      this.#work(one, response, isCheck)
    })
  }

  #answerCheck(path: string, response: ServerResponse): void {
    const [, page = ''] = /(\/[a-z_]+)$/.exec(path) ?? []
    if (page !== '/health' && page !== '/metrics' && page !== '/models') {
      const answer = this.behaviour.pages[page]
      return void response.writeHead(answer === undefined ? 404 : 200).end(JSON.stringify(answer ?? null))
    }
    if (page === '/metrics') this.metricsReads += 1
    else this.probes += 1
    if (path.endsWith('/health')) return void response.writeHead(this.behaviour.health).end()
    if (path.endsWith('/v1/models')) return void response.end('{"object":"list","data":[]}')
    const labels = '{engine="0",model_name="sim"}'
    response.end(
      this.behaviour.metrics ??
        `# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running${labels} ${this.inFlight}.0\n` +
          `# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting${labels} 0.0\n`,
    )
  }

  #work(one: ReceivedRequest, response: ServerResponse, isCheck: boolean): void {
    this.inFlight += 1
    this.peakInFlight = Math.max(this.peakInFlight, this.inFlight)
    let isOurs = false
    response.on('close', () => {
      this.inFlight -= 1
      one.isAnswered = response.writableFinished
      if (!one.isAnswered && !isOurs) one.abortedAt = performance.now()
    })
    const fault = (isCheck ? undefined : this.behaviour.faultsOnce.shift()) ?? this.behaviour.fault
    const gone = (): void => {
      isOurs = true
    }
    const start = (): void => {
      const answer = this.#answer(one)
      const midway = fault !== undefined && 'afterEvents' in fault ? fault.afterEvents : undefined
      if (fault !== undefined && (midway === undefined || 'body' in answer)) {
        playFault(fault, response, 'body' in answer ? answer.body : Buffer.from(answer.events.join('')), gone)
      } else if ('body' in answer) {
        response.writeHead(200, {
          'content-type': answer.type,
          'content-length': answer.body.length,
          ...answer.headers,
        })
        response.end(answer.body)
      } else {
        response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
        const broken = (): void => {
          if (fault !== undefined) playFault(fault, response, Buffer.alloc(0), gone)
        }
        this.#stream(one, response, answer.events.slice(0, midway), midway === undefined ? undefined : broken)
      }
    }
    if (this.behaviour.latencyMs === 0) start()
    else setTimeout(start, this.behaviour.latencyMs)
  }

  #stream(
    one: ReceivedRequest,
    response: ServerResponse,
    events: readonly string[],
    atEnd: (() => void) | undefined,
  ): void {
    const end = atEnd ?? ((): void => void response.end())
    const { intervalMs } = this.behaviour
    if (intervalMs === 0) {
      for (const event of events) response.write(event)
      one.eventsSent = events.length
      // A fault after them must not overtake them.
      return void setImmediate(end)
    }
    const timer = setInterval(() => {
      const event = events[one.eventsSent]
      if (event !== undefined) {
        response.write(event)
        one.eventsSent += 1
        return
      }
      clearInterval(timer)
      end()
    }, intervalMs)
    response.on('close', () => clearInterval(timer))
  }

  #answer(one: ReceivedRequest): Answer {
    const body = parseBody(one.body)
    const operation = operations.exec(one.path)?.[1]
    const isChat = operation === 'chat/completions'
    switch (operation) {
      case 'chat/completions':
      case 'completions': {
        const shape = this.#shape(body, isChat)
        if (body['stream'] === true) return { events: chatEvents(shape, this.behaviour.usage, isChat) }
        const hasUsage = this.behaviour.usage !== 'none'
        return json(isChat ? chatAnswer(shape, hasUsage) : completionAnswer(shape, hasUsage))
      }
      case 'embeddings':
        return json(embeddingsAnswer(textOf(body['model']), [body['input']].flat().map(textOf)))
      case 'rerank': {
        const isTei = body['texts'] !== undefined
        const documents = [body['texts'] ?? body['documents']].flat().map(textOf)
        const query = textOf(body['query'])
        const answer = json(rerankAnswer(textOf(body['model']), query, documents, isTei))
        return isTei ? { ...answer, headers: { 'x-compute-tokens': String(rerankTokens(query, documents)) } } : answer
      }
      case 'images/generations': {
        const [width = 1, height = 1] = textOf(body['size'] ?? '64x64')
          .split('x')
          .map(Number)
        return json(imagesAnswer(width, height, numberOf(body['n'], 1)))
      }
      case 'txt2img': {
        const [width, height] = [numberOf(body['width'], 64), numberOf(body['height'], 64)]
        return json(txt2imgAnswer(width, height, numberOf(body['batch_size'], 1), numberOf(body['seed'], 7)))
      }
      case 'image/generation': {
        const shape = {
          width: numberOf(body['width'], 64),
          height: numberOf(body['height'], 64),
          steps: numberOf(body['steps'], 1),
          seed: numberOf(body['seed'], 7),
          notes: this.behaviour.notes,
        }
        return body['stream'] === true ? { events: imageEvents(shape) } : json(imageAnswer(shape))
      }
      case 'audio/speech':
        return speechAnswer(textOf(body['response_format'] ?? 'mp3'), textOf(body['input']))
      case 'audio/generation': {
        const text = textOf(body['text'])
        return body['stream'] === true ? { events: speechEvents(text) } : json(ownSpeech(text))
      }
      case 'audio/transcriptions':
        return json(transcriptionAnswer(one.body.includes('verbose_json')))
      case 'tokenize':
      case 'apply-template':
        return json(tokenizeAnswer(this.behaviour.tokenizer, operation, body))
      case undefined:
      default:
        return json('{"object":"unknown"}')
    }
  }

  #shape(body: Readonly<Record<string, unknown>>, isChat: boolean): ChatShape {
    const asked = isChat ? [body['messages']].flat() : [body['prompt']].flat()
    const most = numberOf(body['max_tokens'] ?? body['max_completion_tokens'], Infinity)
    const words = Array.from({ length: Math.min(this.behaviour.words, most) }, (_, n) => this.behaviour.wordOf(n))
    const { promptTokens, cachedTokens } = this.#remember(asked.map(textOf))
    return {
      id: `chatcmpl-sim-${this.received}`,
      model: textOf(body['model']),
      words,
      promptTokens,
      cachedTokens,
      finish: most < this.behaviour.words ? 'length' : 'stop',
    }
  }

  /** Like an engine's prefix cache: tokens that an earlier prompt started with are cached. */
  #remember(parts: readonly string[]): { promptTokens: number; cachedTokens: number } {
    let [digest, promptTokens, cachedTokens] = ['', 0, 0]
    for (const part of parts) {
      digest = createHash('sha1').update(digest).update(part).digest('base64')
      promptTokens += countTokens(part)
      if (this.#prompts.has(digest)) cachedTokens = promptTokens
      else if (this.#prompts.size < MAX_CACHED_PROMPTS) this.#prompts.add(digest)
    }
    this.promptTokens += promptTokens
    this.cachedTokens += cachedTokens
    return { promptTokens, cachedTokens }
  }
}

/** Silence as an MP3; in other formats the name of the format and the text. */
function speechAnswer(format: string, input: string): Answer {
  const body = format === 'mp3' ? silentMp3(input) : Buffer.from(`${format} ${input}`)
  return { type: format === 'mp3' ? 'audio/mpeg' : `audio/${format}`, body }
}

function json(text: string): Answer {
  return { type: 'application/json', body: Buffer.from(text) }
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value ?? '')
}

function numberOf(value: unknown, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise
}
