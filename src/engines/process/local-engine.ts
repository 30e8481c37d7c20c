/** The port to engines on the server's own machine, each in its own process. */
import type { EngineName, ModelFile } from '../../contract/model.ts'
import type { Result } from '../../contract/result.ts'

/** A model that the server should run. */
export interface LocalModel {
  readonly name: string
  readonly engine: EngineName
  /** null: the files come with Berth. */
  readonly files: readonly ModelFile[] | null
  /** null: from the model file. */
  readonly contextTokens: number | null
}

export type LocalState =
  /** The first request downloads and starts the engine. */
  | { readonly kind: 'idle' }
  | { readonly kind: 'pulling'; readonly doneBytes: number; readonly totalBytes: number | null }
  | { readonly kind: 'loading' }
  | { readonly kind: 'ready'; readonly socketPath: string; readonly facts: EngineFacts }
  /** Retried after `retryInMs`. `message` is for the operator. */
  | { readonly kind: 'failed'; readonly message: string; readonly retryInMs: number }

/** Reported by an engine when it is ready. */
export interface EngineFacts {
  /** null: no limit. */
  readonly contextTokens: number | null
  /** How many requests it processes at once; more wait in its own queue. */
  readonly concurrency: number
  readonly supportsTools: boolean
}

export interface LocalEngines {
  /** Sets the models that this server should run: starts, keeps and stops engines to match. */
  setModels(models: readonly LocalModel[]): void
  /** Deletes the downloads of a model that no longer exists. */
  forget(model: string): Promise<void>
  /** Downloads what is missing. By file name: where it is on this server. */
  files(model: string, files: readonly ModelFile[]): Promise<Result<ReadonlyMap<string, string>>>
  /** Starts a model that is idle. */
  wake(model: string): void
  /** undefined: not run by this server. */
  stateOf(model: string): LocalState | undefined
  /** Called after every state change; a few times per second during a download. */
  onChange(listener: () => void): void
  close(): Promise<void>
}
