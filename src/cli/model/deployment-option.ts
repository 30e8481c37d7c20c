/** The flags of `berth deploy` and `berth deployments`: what runs, and how it scales. */
import type { Reply } from '../../client/client.ts'
import { recipeName, type RecipeOrder } from '../../contract/recipe.ts'
import { parseWhole } from '../kit/flag.ts'
import { readJsonFile } from '../kit/json-file.ts'
import { imageNamed, workloadFields, workloadOptions, type WorkloadFlags } from '../rental/rent-option.ts'
import type { Shell } from '../kit/shell.ts'
import type { Options } from '../kit/row-type.ts'

type Summary = Reply<'listManagedDeployments'>['deployments'][number]

const MAX_REPLICAS = 100
const MAX_SECONDS = 86_400

export interface SpecFlags extends Pick<WorkloadFlags, 'env' | 'envFile' | 'secretEnv' | 'command' | 'args' | 'shm'> {
  readonly recipe?: RecipeOrder['name']
  readonly image?: string
  /** A model of the hub; `deploy` takes one of the catalog here too. */
  readonly model?: string
  readonly hubModel?: string
  readonly servePort?: number
  readonly health?: string
  readonly concurrency?: number
  readonly context?: number
  readonly gpu?: string
  readonly gpus?: number
  readonly gpuMemory?: number
  readonly region?: string
  readonly maxPrice?: string
  readonly spec?: string
}

export const specOptions: Options = {
  '--recipe <name>': { help: 'how to run it', choices: recipeName.options },
  '--image <image>': "image with its tag; default: the recipe's",
  '--hub-model <owner/model>': 'model that the engine downloads',
  '--serve-port <port>': { help: 'port of the engine in the container', parse: parseWhole(1, 65_535) },
  '--health <path>': 'recipe custom: health check, such as /health',
  '--concurrency <n>': { help: 'requests that a replica processes at once', parse: parseWhole(1, 10_000) },
  '--context <tokens>': { help: 'context length', parse: parseWhole(1, 100_000_000) },
  '--env <name=value...>': workloadOptions['--env <name=value...>'] ?? '',
  '--env-file <file>': workloadOptions['--env-file <file>'] ?? '',
  '--secret-env <name...>': workloadOptions['--secret-env <name...>'] ?? '',
  '--command <words>': "recipe custom: replaces the image's entrypoint",
  '--args <words>': 'more arguments of the engine; words as in a shell, or a JSON list',
  '--shm <gb>': workloadOptions['--shm <gb>'] ?? '',
  '--gpu <model>': 'GPU model, such as H100',
  '--gpus <n>': { help: 'GPUs per replica', parse: parseWhole(1, 64) },
  '--gpu-memory <gb>': { help: 'memory that each GPU needs', parse: parseWhole(0, 10_000) },
  '--region <region>': 'only in this region',
  '--max-price <usd>': 'price cap per GPU-hour',
  '--spec <json>': 'file with `recipe` and `gpus` as in the API, or - for standard input; flags win',
}

export interface ScaleFlags {
  readonly min?: number
  readonly max?: number
  readonly budget?: string
  readonly target?: number | null
  readonly upDelay?: number
  readonly downDelay?: number
  readonly idle?: number
}

export const scaleOptions: Options = {
  '--min <n>': { help: 'minimum replicas; 0 starts the first with a request', parse: parseWhole(0, MAX_REPLICAS) },
  '--max <n>': { help: 'maximum replicas; 0 pauses it', parse: parseWhole(0, MAX_REPLICAS) },
  '--budget <usd>': 'most that all replicas together may cost per hour',
  '--target <n>': {
    help: 'requests per replica that scaling aims for; auto: 70 % of what one can run (default: auto)',
    parse: (text: string) => (text === 'auto' ? null : parseWhole(1, 100_000)(text)),
  },
  '--up-delay <seconds>': { help: 'before replicas are added', parse: parseWhole(0, MAX_SECONDS) },
  '--down-delay <seconds>': { help: 'before replicas are removed', parse: parseWhole(0, MAX_SECONDS) },
  '--idle <seconds>': { help: 'without requests before the last replica ends', parse: parseWhole(0, MAX_SECONDS) },
}

/** The flags, on top of the file and of what the deployment has. */
export function specOf(shell: Shell, flags: SpecFlags, before: Summary['spec'] | undefined): Partial<Summary['spec']> {
  const file = (flags.spec === undefined ? {} : readJsonFile(shell, flags.spec)) as Partial<Summary['spec']>
  const { env, command, args, shmGb } = workloadFields(shell, {
    ...(flags.env === undefined ? {} : { env: flags.env }),
    ...(flags.envFile === undefined ? {} : { envFile: flags.envFile }),
    ...(flags.secretEnv === undefined ? {} : { secretEnv: flags.secretEnv }),
    ...(flags.command === undefined ? {} : { command: flags.command }),
    ...(flags.args === undefined ? {} : { args: flags.args }),
    ...(flags.shm === undefined ? {} : { shm: flags.shm }),
  })
  const recipe = withoutUndefined({
    // Most models of the hub are for vLLM; whoever knows better names the recipe.
    name:
      flags.recipe ?? (isOnHub(flags.model) && file.recipe === undefined ? (before?.recipe.name ?? 'vllm') : undefined),
    image: flags.image === undefined ? undefined : imageNamed(flags.image),
    hubModel: flags.hubModel ?? (isOnHub(flags.model) ? flags.model : undefined),
    port: flags.servePort,
    healthPath: flags.health,
    concurrency: flags.concurrency,
    contextTokens: flags.context,
    env,
    command,
    args,
    shmGb,
  })
  const gpus = withoutUndefined({
    model: flags.gpu,
    count: flags.gpus,
    minMemoryGb: flags.gpuMemory,
    region: flags.region,
    maxUsdPerGpuHour: flags.maxPrice,
  })
  return withoutUndefined({
    recipe: isEmpty(recipe) ? file.recipe : { ...before?.recipe, ...file.recipe, ...recipe },
    gpus: isEmpty(gpus) ? file.gpus : { ...before?.gpus, ...file.gpus, ...gpus },
  })
}

/** `OWNER/MODEL`; names in the catalog have no slash. */
export function isOnHub(model: string | undefined): boolean {
  return model?.includes('/') === true
}

export function settingsOf(flags: ScaleFlags, before: Summary['settings'] | undefined): object {
  const replicas = withoutUndefined({ min: flags.min, max: flags.max })
  const scaling = withoutUndefined({
    targetOutstanding: flags.target,
    upDelaySeconds: flags.upDelay,
    downDelaySeconds: flags.downDelay,
    idleSeconds: flags.idle,
  })
  return withoutUndefined({
    replicas: isEmpty(replicas) ? undefined : { ...before?.replicas, ...replicas },
    scaling: isEmpty(scaling) ? undefined : { ...before?.scaling, ...scaling },
    hourlyBudgetUsd: flags.budget,
  })
}

function withoutUndefined(values: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined))
}

function isEmpty(values: object): boolean {
  return Object.keys(values).length === 0
}
