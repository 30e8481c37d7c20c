/**
 * A small client for the Docker Engine API on a unix socket (Docker 20.10 and newer; Podman). Each call opens a new
 * connection: a kept one could still reach a daemon that is shutting down, and a successful call must mean that the
 * daemon is up. For endless answers (logs, events, a pull) only the wait for the head has a timeout.
 */
import http, { type IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { Agent, request } from 'undici'
import type { z } from 'zod'
import { contained } from '../../base/net/contained.ts'
import { within } from '../../base/within.ts'
import {
  containerListReply,
  containerReply,
  createReply,
  execReply,
  faultReply,
  imageListReply,
  imageReply,
  infoReply,
  networkListReply,
  sizeReply,
  statsReply,
  usageReply,
  versionReply,
  type Container,
  type Info,
  type ListedContainer,
  type Stats,
} from './reply.ts'

/** The daemon answered with an error. */
export class DockerRefused extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

interface ExecOrder {
  readonly command: readonly string[]
  readonly tty: boolean
  readonly env: readonly string[]
  /** Absent: the image's user. */
  readonly user?: string
}

interface CallOptions {
  readonly query?: Readonly<Record<string, string>>
  readonly body?: unknown
  /** Instead of `body`. */
  readonly archive?: Buffer | Readable
  readonly headers?: Readonly<Record<string, string>>
  readonly timeoutMs?: number
  readonly signal?: AbortSignal | undefined
}

const CALL_TIMEOUT_MS = 30_000
/** The daemon walks through the files of a container to measure it. */
const SIZE_TIMEOUT_MS = 120_000
/** Images and containers may have many files. */
const REMOVE_TIMEOUT_MS = 120_000
/** The daemon copies all files that were written. */
const COMMIT_TIMEOUT_MS = 30 * 60_000
const MAX_REPLY_BYTES = 32 * 1_048_576
/** The API version of this client. For a daemon that no longer supports it, the daemon's oldest is used. */
const API_VERSION = '1.41'

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'

export class DockerClient {
  readonly #socketPath: string
  readonly #agent: Agent
  #version: Promise<string> | undefined

  constructor(socketPath: string) {
    this.#socketPath = socketPath
    this.#agent = new Agent({ connect: { socketPath, timeout: CALL_TIMEOUT_MS }, pipelining: 0 })
  }

  async close(): Promise<void> {
    await this.#agent.destroy()
  }

  async info(signal?: AbortSignal): Promise<Info> {
    return this.call('GET', '/info', infoReply, { signal })
  }

  /** All containers with the label (`name` or `name=value`), including stopped ones. */
  async containers(label: string, signal?: AbortSignal): Promise<ListedContainer[]> {
    return this.call('GET', '/containers/json', containerListReply, {
      query: { all: 'true', filters: filterOf({ label: [label] }) },
      signal,
    })
  }

  /** undefined: not found. */
  async container(name: string, signal?: AbortSignal): Promise<Container | undefined> {
    return unlessMissing(this.call('GET', `/containers/${encodeURIComponent(name)}/json`, containerReply, { signal }))
  }

  /** The current usage. The daemon's own rates would take a second to compute. undefined: no such container. */
  async stats(name: string, signal?: AbortSignal): Promise<Stats | undefined> {
    const query = { stream: 'false', 'one-shot': 'true' }
    const path = `/containers/${encodeURIComponent(name)}/stats`
    return unlessMissing(this.call('GET', path, statsReply, { query, signal }))
  }

  /** The total length of the files in its writable layer, as measured by the daemon. */
  async layerBytes(name: string, signal?: AbortSignal): Promise<number> {
    const path = `/containers/${encodeURIComponent(name)}/json`
    const options = { query: { size: 'true' }, timeoutMs: SIZE_TIMEOUT_MS, signal }
    return (await this.call('GET', path, sizeReply, options)).SizeRw
  }

  async createContainer(name: string, body: unknown, signal?: AbortSignal): Promise<string> {
    const reply = await this.call('POST', '/containers/create', createReply, { query: { name }, body, signal })
    return reply.Id
  }

  /** Unpacks a tar at the root of a container. Missing folders are created; a folder is never replaced by a file. */
  async putFiles(name: string, archive: Buffer, signal?: AbortSignal): Promise<void> {
    const query = { path: '/', noOverwriteDirNonDir: 'true' }
    await this.act('PUT', `/containers/${encodeURIComponent(name)}/archive`, { query, archive, signal })
  }

  async startContainer(name: string, signal?: AbortSignal): Promise<void> {
    await this.act('POST', `/containers/${encodeURIComponent(name)}/start`, { signal })
  }

  async killContainer(name: string, signal?: AbortSignal): Promise<void> {
    await this.act('POST', `/containers/${encodeURIComponent(name)}/kill`, { signal })
  }

  /** Asks it to end, kills it after `graceS`, and with `restart` starts it again. */
  async stopContainer(name: string, act: 'stop' | 'restart', graceS: number, signal?: AbortSignal): Promise<void> {
    const timeoutMs = graceS * 1_000 + CALL_TIMEOUT_MS
    const path = `/containers/${encodeURIComponent(name)}/${act}`
    await this.act('POST', path, { query: { t: String(graceS) }, timeoutMs, signal })
  }

  /** Stores the container's files as an image. Returns the image's id. */
  async commitContainer(
    name: string,
    image: { readonly repo: string; readonly tag: string },
    signal?: AbortSignal,
  ): Promise<string> {
    const options = { query: { container: name, pause: 'false', ...image }, timeoutMs: COMMIT_TIMEOUT_MS, signal }
    return (await this.call('POST', '/commit', createReply, options)).Id
  }

  /** Kills it first if it is running. Succeeds if it is already gone or being removed. */
  async removeContainer(name: string, signal?: AbortSignal, keepsVolumes = false): Promise<void> {
    const path = `/containers/${encodeURIComponent(name)}`
    try {
      const query = { force: 'true', v: String(!keepsVolumes) }
      await this.act('DELETE', path, { query, timeoutMs: REMOVE_TIMEOUT_MS, signal })
    } catch (error) {
      const isUnderWay = error instanceof DockerRefused && error.status === 409
      if (!isUnderWay && !isMissing(error)) throw error
    }
  }

  async networks(label: string, signal?: AbortSignal): Promise<z.output<typeof networkListReply>> {
    return this.call('GET', '/networks', networkListReply, { query: { filters: filterOf({ label: [label] }) }, signal })
  }

  async createNetwork(body: unknown, signal?: AbortSignal): Promise<string> {
    return (await this.call('POST', '/networks/create', createReply, { body, signal })).Id
  }

  async removeNetwork(id: string, signal?: AbortSignal): Promise<void> {
    await unlessMissing(this.act('DELETE', `/networks/${encodeURIComponent(id)}`, { signal }))
  }

  /** Takes a name or an id. undefined: not found. */
  async image(name: string, signal?: AbortSignal): Promise<z.output<typeof imageReply> | undefined> {
    return unlessMissing(this.call('GET', `/images/${name}/json`, imageReply, { signal }))
  }

  /** The image names of one repository, with tags. */
  async imageNames(repository: string, signal?: AbortSignal): Promise<string[]> {
    const query = { filters: filterOf({ reference: [repository] }) }
    const listed = await this.call('GET', '/images/json', imageListReply, { query, signal })
    return listed.flatMap(({ RepoTags }) => RepoTags ?? [])
  }

  /** Removes this name, and the image with its last name. Refused while a container uses it. */
  async removeImage(name: string, signal?: AbortSignal): Promise<void> {
    await unlessMissing(this.act('DELETE', `/images/${name}`, { timeoutMs: REMOVE_TIMEOUT_MS, signal }))
  }

  /** Does nothing if it is gone or in use. */
  async removeVolume(name: string, signal?: AbortSignal): Promise<void> {
    try {
      await this.act('DELETE', `/volumes/${encodeURIComponent(name)}`, { signal })
    } catch (error) {
      if (!isMissing(error) && !(error instanceof DockerRefused && error.status === 409)) throw error
    }
  }

  /** Sizes by volume name. */
  async volumeBytes(signal?: AbortSignal): Promise<Map<string, number>> {
    // Older daemons ignore the type and measure everything.
    const query = { type: 'volume' }
    const usage = await this.call('GET', '/system/df', usageReply, { query, timeoutMs: SIZE_TIMEOUT_MS, signal })
    return new Map(usage.Volumes.map((volume) => [volume.Name, Math.max(volume.UsageData?.Size ?? 0, 0)]))
  }

  async createExec(container: string, order: ExecOrder, signal?: AbortSignal): Promise<string> {
    const body = {
      AttachStdin: true,
      AttachStdout: true,
      AttachStderr: true,
      Tty: order.tty,
      Cmd: order.command,
      Env: order.env,
      ...(order.user === undefined ? {} : { User: order.user }),
    }
    const path = `/containers/${encodeURIComponent(container)}/exec`
    return (await this.call('POST', path, createReply, { body, signal })).Id
  }

  /** Starts it and returns the raw connection: its input and output. */
  async startExec(id: string, tty: boolean): Promise<Socket> {
    return this.#upgrade(`/exec/${id}/start`, JSON.stringify({ Detach: false, Tty: tty }))
  }

  async resizeExec(id: string, columns: number, rows: number): Promise<void> {
    await this.act('POST', `/exec/${id}/resize`, { query: { h: String(rows), w: String(columns) } })
  }

  async exec(id: string): Promise<z.output<typeof execReply>> {
    return this.call('GET', `/exec/${id}/json`, execReply)
  }

  /** Expects JSON of this form. */
  async call<T>(method: Method, path: string, form: z.ZodType<T>, options: CallOptions = {}): Promise<T> {
    const parsed = form.safeParse(JSON.parse(await this.#text(method, path, options)))
    if (!parsed.success) throw new Error(`The container engine sent an unexpected answer to ${path}`)
    return parsed.data
  }

  /** Ignores the answer. */
  async act(method: Method, path: string, options: CallOptions = {}): Promise<void> {
    await this.#text(method, path, options)
  }

  /** For an endless answer. The caller ends it with the signal or by destroying it. */
  async stream(method: Method, path: string, options: CallOptions = {}): Promise<Readable> {
    const { statusCode, body } = await this.#send(method, path, options)
    if (statusCode >= 300) throw refusal(statusCode, await readText(body))
    return body
  }

  async #text(method: Method, path: string, options: CallOptions): Promise<string> {
    const { statusCode, body } = await this.#send(method, path, options)
    const text = await readText(body)
    if (statusCode >= 400) throw refusal(statusCode, text)
    return text
  }

  async #send(method: Method, path: string, options: CallOptions) {
    const { query = {}, timeoutMs = CALL_TIMEOUT_MS } = options
    const url = new URL(`http://engine/v${await this.#apiVersion()}${path}`)
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
    const answer = request(url, {
      method,
      dispatcher: this.#agent,
      headers: { ...options.headers, ...contentType(options) },
      body: options.archive ?? (options.body === undefined ? null : JSON.stringify(options.body)),
      headersTimeout: timeoutMs,
      // A silent stream is fine; its readers have timeouts of their own.
      bodyTimeout: 0,
      signal: options.signal ?? null,
    })
    return this.#orForgetVersion(answer)
  }

  /** Forgets the API version after an error, since the daemon may come back as a newer version. */
  async #orForgetVersion<T>(work: Promise<T>): Promise<T> {
    try {
      return await work
    } catch (error) {
      this.#version = undefined
      throw error
    }
  }

  #apiVersion(): Promise<string> {
    this.#version ??= this.#orForgetVersion(this.#askVersion())
    return this.#version
  }

  async #askVersion(): Promise<string> {
    const { body } = await request('http://engine/version', {
      dispatcher: this.#agent,
      headersTimeout: CALL_TIMEOUT_MS,
      bodyTimeout: CALL_TIMEOUT_MS,
    })
    const { MinAPIVersion } = versionReply.parse(JSON.parse(await readText(body)))
    return MinAPIVersion !== undefined && minor(MinAPIVersion) > minor(API_VERSION) ? MinAPIVersion : API_VERSION
  }

  /** With node:http, since undici drops the daemon's message when an upgrade is refused. */
  async #upgrade(path: string, body: string): Promise<Socket> {
    const version = await this.#apiVersion()
    const request = http.request({
      socketPath: this.#socketPath,
      method: 'POST',
      path: `/v${version}${path}`,
      agent: false,
      headers: {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        connection: 'Upgrade',
        upgrade: 'tcp',
      },
    })
    const answer = new Promise<Socket>((resolve, reject) => {
      request.once('error', reject)
      const switched = (socket: Socket, head: Buffer): void => {
        if (head.length > 0) socket.unshift(head)
        resolve(socket)
      }
      const refused = (response: IncomingMessage): void => {
        const status = response.statusCode ?? 500
        readText(response).then((text) => reject(refusal(status, text)), reject)
      }
      request.once(
        'upgrade',
        contained(reject, (_, socket: Socket, head: Buffer) => switched(socket, head)),
      )
      request.once('response', contained(reject, refused))
    })
    request.end(body)
    try {
      return await within(CALL_TIMEOUT_MS, answer, 'The container engine did not respond in time')
    } catch (error) {
      request.destroy()
      throw error
    }
  }
}

function contentType({ body, archive }: CallOptions): Record<string, string> {
  if (archive !== undefined) return { 'content-type': 'application/x-tar' }
  return body === undefined ? {} : { 'content-type': 'application/json' }
}

function isMissing(error: unknown): boolean {
  return error instanceof DockerRefused && error.status === 404
}

async function unlessMissing<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

async function readText(body: Readable): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  const deadline = setTimeout(
    () => body.destroy(new Error('The container engine did not finish its answer')),
    CALL_TIMEOUT_MS,
  )
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      bytes += chunk.length
      if (bytes > MAX_REPLY_BYTES) throw new Error('The answer of the container engine is too large')
      chunks.push(chunk)
    }
  } finally {
    clearTimeout(deadline)
  }
  return Buffer.concat(chunks).toString()
}

function refusal(status: number, text: string): DockerRefused {
  try {
    return new DockerRefused(status, faultReply.parse(JSON.parse(text)).message)
  } catch {
    return new DockerRefused(status, text.trim() === '' ? `The container engine answered ${status}` : text.trim())
  }
}

export function filterOf(filters: Readonly<Record<string, readonly string[]>>): string {
  return JSON.stringify(filters)
}

function minor(version: string): number {
  return Number(version.split('.')[1] ?? 0)
}
