/** `berth deploy` and `berth serving`: models on rented GPUs. */
import type { Reply } from '../client/client.ts'
import { recipeName, type RecipeOrder } from '../contract/recipe.ts'
import { hourlyPrice } from '../view/money.ts'
import { count } from '../view/number.ts'
import { localTime } from '../view/time.ts'
import type { Tone } from '../view/tone.ts'
import { parseWhole } from './flag.ts'
import { readJsonFile } from './json-file.ts'
import { openLogs, printLines } from './machine-session.ts'
import { tableOf } from './record.ts'
import { workloadFields, workloadOptions, type WorkloadFlags } from './rent-option.ts'
import { act, custom, list, show, withBody } from './row.ts'
import { toned } from './screen.ts'
import { CliError, exitCodes, type Shell } from './shell.ts'
import { targetOf } from './target.ts'
import type { Call, Input, Options, Row } from './row-type.ts'

type Deployment = Reply<'getManagedDeployment'>
type Summary = Reply<'listManagedDeployments'>['deployments'][number]
type Listed = Summary & { readonly short: string }

const MAX_REPLICAS = 100
const MAX_SECONDS = 86_400
const LOG_LINES = 100

const deployment = targetOf<Listed>('deployment', 'berth serving ls', {
  read: async (client, wanted) => {
    const { deployments } = await client.call('listManagedDeployments')
    // A private model is `ACCOUNT/NAME`; its owner may leave the account out.
    return deployments.map((one) => ({
      ...one,
      short: one.model === wanted ? one.model : one.model.slice(one.model.indexOf('/') + 1),
    }))
  },
  id: 'id',
  name: 'short',
  named: 'model',
})

interface SpecFlags extends Pick<WorkloadFlags, 'env' | 'envFile' | 'secretEnv' | 'command' | 'args' | 'shm'> {
  readonly recipe?: RecipeOrder['name']
  readonly image?: string
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

const specOptions: Options = {
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

interface ScaleFlags {
  readonly min?: number
  readonly max?: number
  readonly budget?: string
  readonly target?: number
  readonly upDelay?: number
  readonly downDelay?: number
  readonly idle?: number
}

const scaleOptions: Options = {
  '--min <n>': { help: 'replicas at least; 0 starts the first with a request', parse: parseWhole(0, MAX_REPLICAS) },
  '--max <n>': { help: 'replicas at most; 0 pauses it', parse: parseWhole(0, MAX_REPLICAS) },
  '--budget <usd>': 'most that all replicas together may cost per hour',
  '--target <n>': { help: 'requests per replica that scaling aims for', parse: parseWhole(1, 100_000) },
  '--up-delay <seconds>': { help: 'before replicas are added', parse: parseWhole(0, MAX_SECONDS) },
  '--down-delay <seconds>': { help: 'before replicas are removed', parse: parseWhole(0, MAX_SECONDS) },
  '--idle <seconds>': { help: 'without requests before the last replica ends', parse: parseWhole(0, MAX_SECONDS) },
}

export const rows: readonly Row[] = [
  act<'createManagedDeployment', SpecFlags & ScaleFlags & { forEveryone?: true; kind?: string }>(
    'deploy',
    'createManagedDeployment',
    'serve a model on rented GPUs',
    {
      args: { '<name>': { help: 'name of the model', field: 'name' } },
      only: ['kind', 'queueSeconds', 'drainSeconds', 'forEveryone'],
      flags: {
        kind: 'kind of model',
        queueSeconds: '--queue <seconds>  how long a request may wait for a replica',
        drainSeconds: '--drain <seconds>  how long a replica may finish its requests',
        forEveryone: '--for-everyone  operators: serve all accounts; the house pays',
      },
      isOptional: ['recipe', 'gpus'],
      options: { ...specOptions, ...scaleOptions },
      prepare: prepareDeploy,
      notes:
        'You pay for the GPU time of each replica from its first answer, not per token.\nOnly your account sees the model.',
      examples: [
        'berth deploy assistant --recipe vllm --hub-model Qwen/Qwen3-8B --max 4',
        'berth deploy mine --recipe custom --image me/engine:2 --gpu-memory 24',
      ],
      done: (made) => [
        `Created ${made.id}. The model is ${made.model}.`,
        `To follow it: berth serving show ${made.id} --watch`,
      ],
    },
  ),
  list('serving ls', 'listManagedDeployments', 'list models on rented GPUs', {
    columns: [
      'id',
      'model',
      {
        STATUS: ({ status }) => toned(toneOf(status), status),
        REPLICAS: ({ readyReplicas, desiredReplicas }) => `${readyReplicas} of ${desiredReplicas}`,
        REQUESTS: ({ outstandingRequests }) => String(outstandingRequests),
        COST: ({ costPerHourUsd }) => hourlyPrice(costPerHourUsd),
        VERSION: ({ version, rollout }) => (rollout === 'done' ? String(version) : `${version} (${rollout})`),
      },
    ],
    noun: 'deployment',
    empty: 'To create one: berth deploy NAME --recipe vllm --hub-model OWNER/MODEL',
  }),
  show<'getManagedDeployment', unknown, Listed>('serving show', 'getManagedDeployment', 'show a deployment live', {
    target: deployment,
    facts: [
      'id',
      'model',
      {
        Status: ({ status }) => toned(toneOf(status), status),
        Message: ({ message }) => message ?? undefined,
        Version: ({ version, rollout }) => `${version}, rollout ${rollout}`,
        Replicas: ({ readyReplicas, desiredReplicas, settings, scalingReason }) =>
          `${readyReplicas} ready of ${desiredReplicas} (${settings.replicas.min} to ${settings.replicas.max}; ${scalingReason})`,
        Requests: ({ outstandingRequests }) => `${outstandingRequests} waiting or running`,
        Cost: ({ costPerHourUsd, settings }) =>
          `${hourlyPrice(costPerHourUsd)}${settings.hourlyBudgetUsd === null ? '' : ` of ${hourlyPrice(settings.hourlyBudgetUsd)}`}`,
      },
    ],
    content: ({ replicas }) => (replicas.length === 0 ? [] : ['', replicaTable(replicas)]),
    examples: ['berth serving show assistant --watch'],
  }),
  act<'changeManagedDeployment', ScaleFlags, Listed>(
    'serving scale',
    'changeManagedDeployment',
    'change replicas, scaling and the hourly budget; applies at once',
    {
      target: deployment,
      only: ['queueSeconds', 'drainSeconds'],
      flags: {
        queueSeconds: '--queue <seconds>  how long a request may wait for a replica',
        drainSeconds: '--drain <seconds>  how long a replica may finish its requests',
      },
      options: scaleOptions,
      prepare: ({ input, options, found }) => withBody(input, settingsOf(options, found.settings)),
      examples: ['berth serving scale assistant --min 1 --max 8', 'berth serving scale assistant --max 0'],
      done: ({ model, settings: { replicas } }) => `${model} has ${replicas.min} to ${count(replicas.max, 'replica')}.`,
    },
  ),
  act<'rolloutManagedDeployment', SpecFlags, Listed>(
    'serving rollout',
    'rolloutManagedDeployment',
    'roll out a new version; without options, start the same one again',
    {
      target: deployment,
      only: ['inPlace'],
      flags: { inPlace: '--in-place  end an old replica first where there is no spare GPU' },
      options: specOptions,
      prepare: ({ input, options, shell, found }) => withBody(input, specOf(shell, options, found.spec)),
      examples: ['berth serving rollout assistant --image registry.example.com/engine:3'],
      done: ({ id, version }) => [
        `Version ${version} is being rolled out. Old replicas serve until it answers.`,
        `To follow it: berth serving show ${id} --watch`,
      ],
    },
  ),
  custom<{ replica?: string; tail: number }, Listed>('serving logs', 'print the output of a replica', {
    target: deployment,
    operation: 'getManagedDeployment',
    options: {
      '--replica <id>': 'this replica; default: the newest',
      '--tail <n>': { help: 'number of last lines', parse: parseWhole(1, 10_000), default: LOG_LINES },
    },
    run: printReplicaLog,
    examples: ['berth serving logs assistant'],
  }),
  act<'deleteManagedDeployment', unknown, Listed>('serving rm', 'deleteManagedDeployment', 'delete it; asks first', {
    target: deployment,
    confirm: ({ found }) => `Delete the deployment of ${found.model}? Its replicas end.`,
    done: (_, { found }) => `${found.model} ends when its replicas have finished their requests.`,
  }),
]

function prepareDeploy(call: Call<SpecFlags & ScaleFlags & { forEveryone?: true }>): Input {
  const { input, options, shell } = call
  const spec = specOf(shell, options, undefined)
  if (spec.recipe === undefined) {
    throw new CliError(exitCodes.usage, 'Choose a recipe.', [
      `Example: --recipe vllm, or one of ${recipeName.options.join(', ')}`,
    ])
  }
  const body = withBody(input, { ...spec, gpus: spec.gpus ?? {}, ...settingsOf(options, undefined) })
  if (options.forEveryone !== true) return body
  const { name: model, ...rest } = body.parts.body ?? {}
  return { ...body, parts: { ...body.parts, body: { ...rest, model } } }
}

/** The flags, on top of the file and of what the deployment has. */
function specOf(shell: Shell, flags: SpecFlags, before: Summary['spec'] | undefined): Partial<Summary['spec']> {
  const file = (flags.spec === undefined ? {} : readJsonFile(shell, flags.spec)) as Partial<Summary['spec']>
  const { env, command, args, shmGb } = workloadFields(shell, {
    ...(flags.env === undefined ? {} : { env: flags.env }),
    ...(flags.envFile === undefined ? {} : { envFile: flags.envFile }),
    ...(flags.secretEnv === undefined ? {} : { secretEnv: flags.secretEnv }),
    ...(flags.command === undefined ? {} : { command: flags.command }),
    ...(flags.args === undefined ? {} : { args: flags.args }),
    ...(flags.shm === undefined ? {} : { shm: flags.shm }),
  })
  const recipe = given({
    name: flags.recipe,
    image: flags.image === undefined ? undefined : imageOf(flags.image),
    hubModel: flags.hubModel,
    port: flags.servePort,
    healthPath: flags.health,
    concurrency: flags.concurrency,
    contextTokens: flags.context,
    env,
    command,
    args,
    shmGb,
  })
  const gpus = given({
    model: flags.gpu,
    count: flags.gpus,
    minMemoryGb: flags.gpuMemory,
    region: flags.region,
    maxUsdPerGpuHour: flags.maxPrice,
  })
  return given({
    recipe: isEmpty(recipe) ? file.recipe : { ...before?.recipe, ...file.recipe, ...recipe },
    gpus: isEmpty(gpus) ? file.gpus : { ...before?.gpus, ...file.gpus, ...gpus },
  })
}

function settingsOf(flags: ScaleFlags, before: Summary['settings'] | undefined): object {
  const replicas = given({ min: flags.min, max: flags.max })
  const scaling = given({
    targetOutstanding: flags.target,
    upDelaySeconds: flags.upDelay,
    downDelaySeconds: flags.downDelay,
    idleSeconds: flags.idle,
  })
  return given({
    replicas: isEmpty(replicas) ? undefined : { ...before?.replicas, ...replicas },
    scaling: isEmpty(scaling) ? undefined : { ...before?.scaling, ...scaling },
    hourlyBudgetUsd: flags.budget,
  })
}

function given(values: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined))
}

function isEmpty(values: object): boolean {
  return Object.keys(values).length === 0
}

/** `name:tag`; a port of the registry is no tag. */
function imageOf(text: string): { name: string; tag?: string } {
  const at = text.lastIndexOf(':')
  return at > text.lastIndexOf('/') ? { name: text.slice(0, at), tag: text.slice(at + 1) } : { name: text }
}

async function printReplicaLog({
  session,
  client,
  options,
  found,
}: Call<{ replica?: string; tail: number }, Listed>): Promise<void> {
  const { replicas } = await client.call('getManagedDeployment', { params: { id: found.id } })
  const replica = replicas.find(({ id }) => options.replica === undefined || id === options.replica)
  if (replica === undefined) {
    throw new CliError(exitCodes.failed, `${found.model} has no such replica.`, [
      `To see its replicas: berth serving show ${found.id}`,
    ])
  }
  const lines = await printLines(await openLogs(session, { id: replica.rentalName }, { tail: options.tail }), session)
  if (lines === 0) session.screen.remark('The log is empty.')
}

function replicaTable(replicas: Deployment['replicas']) {
  return tableOf(
    replicas,
    [
      'id',
      {
        STATE: ({ state }) => toned(replicaTones[state], state),
        VERSION: ({ version }) => String(version),
        RENTAL: ({ rentalName }) => rentalName,
        NODE: ({ node }) => node ?? '',
        REQUESTS: ({ inFlight }) => String(inFlight),
        COST: ({ costPerHourUsd }) => hourlyPrice(costPerHourUsd),
        'COLD START': ({ coldStart }) => coldStartText(coldStart),
        SINCE: ({ readyAt, createdAt }) => localTime(readyAt ?? createdAt),
        REASON: ({ reason, detail }) => (reason ?? detail ?? '').split('\n').at(-1) ?? '',
      },
    ],
    undefined,
  )
}

/** `claim 0.2 s, pull 61 s, load 12.5 s`. */
function coldStartText({
  claimSeconds,
  pullSeconds,
  loadSeconds,
}: Deployment['replicas'][number]['coldStart']): string {
  const phases = { claim: claimSeconds, pull: pullSeconds, load: loadSeconds }
  return Object.entries(phases)
    .flatMap(([phase, seconds]) => (seconds === null ? [] : [`${phase} ${seconds.toFixed(1)} s`]))
    .join(', ')
}

const replicaTones = { starting: 'info', ready: 'good', draining: 'warn', ended: 'plain' } as const satisfies Readonly<
  Record<Deployment['replicas'][number]['state'], Tone>
>

function toneOf(status: Deployment['status']): Tone {
  const tones = {
    idle: 'plain',
    starting: 'info',
    ready: 'good',
    waiting: 'warn',
    failed: 'bad',
    deleting: 'info',
  } as const
  return tones[status]
}
