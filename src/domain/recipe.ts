/**
 * Recipes: how an engine is started, when it is ready, and how much memory it needs. A recipe is a plain value, so
 * everything here can be checked without starting anything. Commands are lists of arguments, never shell text.
 */
import { NO_CONCURRENCY_LIMIT } from '../base/limits.ts'
import { failField, ok, type Result } from '../contract/result.ts'
import type { RecipeName, RecipeOrder } from '../contract/recipe.ts'
import type { CompileCache } from '../contract/compile-cache.ts'
import type { Weights } from '../contract/weights.ts'
import { readinessOf, type ReadinessJob } from './readiness.ts'
import { builtInCatalog } from './built-in-catalog.ts'
import { engineImageOf } from './catalog.ts'
import { engines } from './recipe-engine.ts'
import type { EngineMetrics, EngineRecipe, ReplicaProtocol, ServedModel } from './recipe-engine-type.ts'

/** The container of one replica. */
export interface ReplicaContainer {
  readonly recipe: RecipeName
  readonly image: { readonly name: string; readonly tag: string | null }
  /** Replaces the entrypoint. null: the image's. */
  readonly command: readonly string[] | null
  /** null: the image's. */
  readonly args: readonly string[] | null
  readonly env: Readonly<Record<string, string>>
  readonly port: number
  /**
   * A path that answers with a status below 400 as soon as the server listens. That does not prove that the engine is
   * ready.
   */
  readonly healthPath: string
  readonly readiness: ReadinessJob
  readonly weights: Weights | null
  /** null: it compiles nothing that a later start could use. */
  readonly compileCache: CompileCache | null
  readonly protocol: ReplicaProtocol
  readonly concurrency: number
  /**
   * The names of the engine's load metrics at `/metrics`. null: it has none, so only the gateway's counts are
   * available.
   */
  readonly metrics: EngineMetrics | null
  /** The size of /dev/shm. null: half of the memory. */
  readonly shmGb: number | null
  /** The time limit from the start of the container until the engine is ready. */
  readonly startSeconds: number
  /** The `model` of requests for the base model. */
  readonly upstreamModel: string
  readonly adapters: readonly ServedAdapter[]
}

/** A LoRA adapter, and how a request asks for it. */
export interface ServedAdapter {
  readonly name: string
  /** `model` of the request. */
  readonly upstreamModel: string
  /** Further members of the request. */
  readonly members: Readonly<Record<string, unknown>>
}

const DEFAULT_START_SECONDS = 1_200

/** Returns the container of a replica, or the option that the recipe does not support. */
export function replicaOf(order: RecipeOrder, served: ServedModel): Result<ReplicaContainer> {
  const engine = engines[order.name]
  const model = { ...served, name: engine.nameOf?.(served.name) ?? served.name }
  if (!engine.kinds.includes(model.kind)) {
    return failField(['recipe', 'name'], 'recipe_mismatch', { recipe: order.name, kind: model.kind })
  }
  const fault = optionFault(order, engine)
  if (fault !== undefined) return failField(['recipe', fault.option], 'recipe_option', { recipe: order.name, ...fault })
  const image = order.image ?? engine.image ?? engineImageOf(builtInCatalog, order)?.image
  if (image === undefined) {
    return failField(['recipe', 'image'], 'recipe_option', { recipe: order.name, option: 'image', fault: 'missing' })
  }
  const port = order.port ?? engine.port
  const concurrency = order.concurrency ?? engine.concurrency ?? NO_CONCURRENCY_LIMIT
  const started = engine.start({
    ...model,
    modelPath: modelPathOf(order),
    port,
    concurrency,
    statedConcurrency: order.concurrency ?? null,
    contextTokens: order.contextTokens ?? null,
    parsers: order.parsers ?? {},
    adapters: (order.adapters ?? []).map(({ name, path }) => ({ name, path: `${order.weights?.mountPath}/${path}` })),
    isOffline: order.weights !== undefined,
  })
  const protocol = engine.protocols[model.kind] ?? 'chat'
  return ok({
    recipe: order.name,
    image: { name: image.name, tag: image.tag ?? null },
    command: order.command ?? started.command,
    args: order.name === 'custom' ? (order.args ?? null) : [...started.args, ...(order.args ?? [])],
    env: { ...started.env, ...order.env },
    port,
    healthPath: order.healthPath ?? engine.healthPath,
    readiness: readinessOf(protocol, model),
    weights: order.weights ?? null,
    compileCache: engine.compilesInto === undefined ? null : { model: model.name, variables: [...engine.compilesInto] },
    protocol,
    concurrency,
    metrics: engine.metrics,
    shmGb: order.shmGb ?? null,
    startSeconds: order.startSeconds ?? engine.startSeconds ?? DEFAULT_START_SECONDS,
    upstreamModel: model.name,
    adapters: (order.adapters ?? []).map(({ name }, index) => adapterOf(engine, model.name, name, index)),
  })
}

/** Whether requests with tools make sense: vLLM and SGLang reject them without a parser; our own engine says it itself. */
export function acceptsTools({ name, parsers }: RecipeOrder): boolean {
  if (name === 'vllm' || name === 'sglang') return parsers?.tools !== undefined
  return name !== 'berth-engine'
}

function adapterOf(engine: EngineRecipe, base: string, name: string, index: number): ServedAdapter {
  switch (engine.adapters) {
    case 'by_path':
      return { name, upstreamModel: base, members: { lora_path: name } }
    case 'by_scale':
      return { name, upstreamModel: base, members: { lora: [{ id: index, scale: 1 }] } }
    case 'by_model':
    case 'none':
      return { name, upstreamModel: name, members: {} }
  }
}

interface OptionFault {
  readonly option: keyof RecipeOrder
  readonly fault: 'missing' | 'unsupported' | 'conflict' | 'not_in_weights' | 'twice'
}

function optionFault(order: RecipeOrder, engine: EngineRecipe): OptionFault | undefined {
  if (order.name !== 'custom' && order.command !== undefined) return { option: 'command', fault: 'unsupported' }
  if (order.name !== 'custom' && order.healthPath !== undefined) return { option: 'healthPath', fault: 'unsupported' }
  if (order.hubModel !== undefined && order.weights !== undefined) return { option: 'hubModel', fault: 'conflict' }
  if (order.hubModel !== undefined && engine.model !== 'weights_or_hub') {
    return { option: 'hubModel', fault: 'unsupported' }
  }
  if (order.weights === undefined && engine.model === 'weights') return { option: 'weights', fault: 'missing' }
  if (order.weights === undefined && order.hubModel === undefined && engine.model === 'weights_or_hub') {
    return { option: 'weights', fault: 'missing' }
  }
  if (order.parsers !== undefined && order.name !== 'vllm' && order.name !== 'sglang') {
    return { option: 'parsers', fault: 'unsupported' }
  }
  if (order.modelPath !== undefined && !isInWeights(order.weights, order.modelPath)) {
    return { option: 'modelPath', fault: 'not_in_weights' }
  }
  if (hasTwice(order.weights?.files.map(({ path }) => path))) return { option: 'weights', fault: 'twice' }
  if (hasTwice(order.adapters?.map(({ name }) => name))) return { option: 'adapters', fault: 'twice' }
  const adapters = order.adapters ?? []
  if (adapters.length > 0 && engine.adapters === 'none') return { option: 'adapters', fault: 'unsupported' }
  if (adapters.some(({ path }) => !isInWeights(order.weights, path))) {
    return { option: 'adapters', fault: 'not_in_weights' }
  }
  return undefined
}

function hasTwice(names: readonly string[] = []): boolean {
  return new Set(names).size !== names.length
}

/** A file, or a folder with files. */
function isInWeights(weights: Weights | undefined, path: string): boolean {
  return weights?.files.some((file) => file.path === path || file.path.startsWith(`${path}/`)) ?? false
}

/** The model that the engine opens: a path in the container, or a name on the hub. null: the image has it. */
function modelPathOf({ weights, hubModel, modelPath, adapters = [] }: RecipeOrder): string | null {
  if (weights === undefined) return hubModel ?? null
  if (modelPath !== undefined) return `${weights.mountPath}/${modelPath}`
  const isAdapter = (file: string): boolean => adapters.some(({ path }) => file === path || file.startsWith(`${path}/`))
  // An engine opens the first of several GGUF files; their names are numbered.
  const gguf = weights.files
    .map(({ path }) => path)
    .filter((path) => path.endsWith('.gguf') && !isAdapter(path))
    .toSorted()[0]
  return gguf === undefined ? weights.mountPath : `${weights.mountPath}/${gguf}`
}
