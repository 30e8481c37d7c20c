/** Engines that run on the server's own machine, each a process of its own, as the rest of the server sees them. */
import type { EngineName, ModelFile } from '../contract/model.ts'

/** What a server is to run. */
export interface LocalModel {
  readonly name: string
  readonly engine: EngineName
  /** null: the files come with Berth. */
  readonly files: readonly ModelFile[] | null
  /** null: what the model file says. */
  readonly contextTokens: number | null
}

export type LocalState =
  | { readonly kind: 'pulling'; readonly doneBytes: number; readonly totalBytes: number | null }
  | { readonly kind: 'loading' }
  | { readonly kind: 'ready'; readonly socketPath: string; readonly facts: EngineFacts }
  /** Tried again at `retryInMs`. `message` is for the operator. */
  | { readonly kind: 'failed'; readonly message: string; readonly retryInMs: number }

/** What an engine says about itself when it is ready. */
export interface EngineFacts {
  /** null: has no such limit. */
  readonly contextTokens: number | null
  /** How many requests it works on at once; more wait inside it, up to its own limit. */
  readonly concurrency: number
  readonly supportsTools: boolean
}

export interface LocalEngines {
  /** The models that this server is to run from now on: starts, keeps and ends engines to match. */
  setModels(models: readonly LocalModel[]): void
  /** The model is no longer on sale anywhere: what was downloaded for it is let go. */
  forget(model: string): Promise<void>
  /** undefined: not a model of this server. */
  stateOf(model: string): LocalState | undefined
  /** Called after any state has changed; at most some times a second while something is pulled. */
  onChange(listener: () => void): void
  close(): Promise<void>
}
