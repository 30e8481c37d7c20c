/**
 * Runs the engines of this server: downloads the files of each model, starts its engine and reports progress. Nothing
 * here blocks: `setModels` returns at once, and the server answers while its engines still load.
 */
import { createHash, randomBytes } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { fail, ok, type Result } from '../../contract/result.ts'
import type { EngineName } from '../../contract/model.ts'
import {
  defaultEngineLimits,
  superviseEngine,
  type EngineLimits,
  type EngineProcess,
  type EngineProcessOptions,
} from './engine-process.ts'
import type { LocalEngines, LocalModel, LocalState } from './local-engine.ts'
import type { ModelLog } from '../../artifacts/log.ts'
import type { ModelStore } from '../../artifacts/model/model-store.ts'
import { makeTurns } from './turns.ts'

/** Loading reads gigabytes and uses every core. */
const LOADING_AT_ONCE = 1
/** Engines that most servers never need wait for their first request. */
const onDemand: ReadonlySet<EngineName> = new Set(['transcription'])
/** Requests that an engine processes at once, and that wait in its queue. */
const SEQUENCES = 4
const MAX_QUEUED = 64
/** Between two progress reports. */
const PROGRESS_MS = 250
/** The kernel's limit is 108 bytes on Linux and 104 on macOS, with the terminating zero. */
const MAX_SOCKET_PATH_BYTES = 100
const socketName = /^[0-9a-f]{13}\.sock$/

export interface EngineHostOptions {
  readonly store: ModelStore
  /** Private to us; names in it are 18 bytes long. */
  readonly socketDir: string
  /** The program of each engine. */
  readonly entries: Readonly<Record<EngineName, string>>
  readonly execArgv?: readonly string[]
  /** The server's environment; engines get little of it. */
  readonly env: Readonly<Record<string, string | undefined>>
  readonly log: ModelLog
  /** An engine crashed or stopped responding. It is restarted. */
  readonly onCrash?: (model: string, why: string) => void
  readonly limits?: Partial<EngineLimits>
}

interface Running {
  readonly key: string
  state: LocalState
  process: EngineProcess | undefined
  /** Starts an idle engine. undefined: the engine has been started. */
  wake: (() => void) | undefined
}

export function makeEngineHost(options: EngineHostOptions): LocalEngines {
  const { store, log } = options
  const socketOf = openSocketFolder(options.socketDir)
  const limits = { ...defaultEngineLimits, ...options.limits }
  const loadTurns = makeTurns(LOADING_AT_ONCE)
  const running = new Map<string, Running>()
  /** Engines that are stopping; a new one of the same model waits for them. */
  const endings = new Map<string, Promise<unknown>>()
  const changes = makeChanges(log)
  let isClosed = false

  const start = (model: LocalModel, key: string): void => {
    const engine: Running = { key, state: firstState(model), process: undefined, wake: undefined }
    running.set(model.name, engine)
    const setState = (state: LocalState): void => {
      if (running.get(model.name) !== engine) return
      const isProgress = engine.state.kind === 'pulling' && state.kind === 'pulling'
      engine.state = state
      changes.notify(isProgress)
    }
    const supervise = (): void => {
      const after = endings.get(model.name) ?? Promise.resolve()
      const processOptions = engineOptions(options, model, socketOf(model.name), setState)
      engine.process = superviseEngine({ ...processOptions, after, loadTurns, limits })
    }
    if (onDemand.has(model.engine)) makeIdle(engine, model, supervise, setState)
    else supervise()
  }

  const end = (name: string, { process }: Running): void => {
    running.delete(name)
    const before = endings.get(name)
    const ending: Promise<unknown> = Promise.all([before, process?.stop()]).finally(() => {
      if (endings.get(name) === ending) endings.delete(name)
    })
    endings.set(name, ending)
  }

  return {
    files: async (model, files) => {
      const pulled = await store.ensure(model, files)
      return pulled.ok ? ok(pulled.value.paths) : pulled
    },
    setModels: (models) => {
      if (isClosed) return
      const modelsByName = new Map(models.map((model) => [model.name, model]))
      const keyOf = ({ engine, files, contextTokens }: LocalModel): string =>
        JSON.stringify([engine, files, contextTokens])
      let isChanged = false
      for (const [name, one] of running) {
        const model = modelsByName.get(name)
        if (model !== undefined && keyOf(model) === one.key) continue
        end(name, one)
        isChanged = true
      }
      for (const model of modelsByName.values()) {
        if (running.has(model.name)) continue
        start(model, keyOf(model))
        isChanged = true
      }
      if (isChanged) changes.notify(false)
    },
    forget: (model) => store.remove(model),
    wake: (model) => {
      if (!isClosed) running.get(model)?.wake?.()
    },
    stateOf: (model) => running.get(model)?.state,
    onChange: (listener) => changes.listen(listener),
    close: async () => {
      isClosed = true
      changes.close()
      for (const [name, one] of running) end(name, one)
      await Promise.all(endings.values())
    },
  }
}

/** The first request wakes the engine. */
function makeIdle(
  engine: Running,
  model: LocalModel,
  supervise: () => void,
  setState: (state: LocalState) => void,
): void {
  engine.state = { kind: 'idle' }
  engine.wake = () => {
    engine.wake = undefined
    supervise()
    setState(firstState(model))
  }
}

function engineOptions(
  { entries, execArgv = [], env, store, log, onCrash = () => {} }: EngineHostOptions,
  model: LocalModel,
  socketPath: string,
  onState: (state: LocalState) => void,
): Omit<EngineProcessOptions, 'after' | 'loadTurns' | 'limits'> {
  return {
    model: model.name,
    command: { entry: entries[model.engine], execArgv, env },
    socketPath,
    prepare: (signal) => prepare(store, model, socketPath, signal, onState),
    log,
    onState,
    onCrash,
  }
}

function firstState({ files }: LocalModel): LocalState {
  return files === null ? { kind: 'loading' } : { kind: 'pulling', doneBytes: 0, totalBytes: null }
}

/** Downloads the files and builds the engine's configuration. */
async function prepare(
  store: ModelStore,
  { name: model, engine, files, contextTokens }: LocalModel,
  socketPath: string,
  signal: AbortSignal,
  notify: (state: LocalState) => void,
): Promise<Result<object>> {
  const shared = { model, socketPath, threads: null, queue: MAX_QUEUED }
  if (files === null) {
    if (engine !== 'llama' && engine !== 'transcription') return ok(shared)
    return fail('no_files', { model })
  }
  const onProgress = (doneBytes: number, totalBytes: number | null): void =>
    notify({ kind: 'pulling', doneBytes, totalBytes })
  const pulled = await store.ensure(model, files, { signal, onProgress })
  if (!pulled.ok) return pulled
  if (engine === 'transcription') return ok({ ...shared, files: Object.fromEntries(pulled.value.paths) })
  if (engine !== 'llama') return ok(shared)
  // A model in several files refers to the others itself; the first one is opened.
  const file = pulled.value.paths.get(files[0]?.file ?? '')
  return ok({ ...shared, file, contextTokens, sequences: SEQUENCES })
}

/**
 * The socket path of a model's engine. It has a part that is new with every start of the server: an engine that
 * outlives its server for a moment removes its own socket, not that of its successor.
 */
function openSocketFolder(dir: string): (model: string) => string {
  fs.mkdirSync(dir, { recursive: true, mode: 0o700 })
  for (const name of fs.readdirSync(dir)) if (socketName.test(name)) fs.rmSync(path.join(dir, name), { force: true })
  const nonce = randomBytes(2).toString('hex').slice(0, 3)
  const socketOf = (model: string): string =>
    path.join(dir, `${createHash('sha256').update(model).digest('hex').slice(0, 10)}${nonce}.sock`)
  if (Buffer.byteLength(socketOf('')) > MAX_SOCKET_PATH_BYTES)
    throw new Error(`The path ${dir} is too long for sockets.`)
  return socketOf
}

interface Changes {
  listen(listener: () => void): void
  /** `isProgress`: may be delayed and merged with the next. */
  notify(isProgress: boolean): void
  close(): void
}

function makeChanges(log: ModelLog): Changes {
  const listeners: Array<() => void> = []
  let timer: NodeJS.Timeout | undefined
  const notifyNow = (): void => {
    clearTimeout(timer)
    timer = undefined
    for (const listener of listeners) {
      try {
        listener()
      } catch (error) {
        log.warn({ err: error }, 'an engine state listener failed')
      }
    }
  }
  return {
    listen: (listener) => void listeners.push(listener),
    notify: (isProgress) => {
      if (isProgress) timer ??= setTimeout(notifyNow, PROGRESS_MS)
      else notifyNow()
    },
    close: () => clearTimeout(timer),
  }
}
