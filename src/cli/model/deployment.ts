/** `berth deploy` and `berth deployments`: models on rented GPUs. */
import type { Reply } from '../../client/client.ts'
import { hourlyPrice } from '../../view/money.ts'
import { coldStartText } from '../../view/deployment.ts'
import { count } from '../../view/number.ts'
import { localTime } from '../../view/time.ts'
import type { Tone } from '../../view/tone.ts'
import {
  isOnHub,
  scaleOptions,
  settingsOf,
  specOf,
  specOptions,
  type ScaleFlags,
  type SpecFlags,
} from './deployment-option.ts'
import { describeUsage, quoteDeployment, usageFlags } from './deployment-usage.ts'
import { parseWhole } from '../kit/flag.ts'
import { openLogs, printLines } from '../rental/machine-session.ts'
import { tableOf } from '../kit/record.ts'
import { act, custom, list, show, withBody } from '../kit/row.ts'
import { toned } from '../kit/screen.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import { targetOf } from '../kit/target.ts'
import type { Call, Input, Options, Row } from '../kit/row-type.ts'

type Deployment = Reply<'getManagedDeployment'>
type Summary = Reply<'listManagedDeployments'>['deployments'][number]
type Listed = Summary & { readonly short: string }

const LOG_LINES = 100

const deployment = targetOf<Listed>('deployment', 'berth deployments ls', {
  read: async (client, idOrName) => {
    const { deployments } = await client.call('listManagedDeployments')
    // A private model is `ACCOUNT/NAME`; its owner may leave the account out.
    return deployments.map((one) => ({
      ...one,
      short: one.model === idOrName ? one.model : one.model.slice(one.model.indexOf('/') + 1),
    }))
  },
  id: 'id',
  name: 'short',
  named: 'model',
})

interface LogFlags extends Audience {
  readonly replica?: string
  readonly tail: number
}

interface Audience {
  readonly forEveryone?: true
}

interface DeployFlags extends SpecFlags, ScaleFlags, Audience {
  readonly kind?: string
  readonly catalog?: string
}

/** Deployments are a customer's, also on the machine of the server, where the operator's key is at hand too. */
const ownOptions = { whoOf: ({ forEveryone }: Audience) => (forEveryone === true ? 'operator' : 'customer') } as const
const audience: Options = { '--for-everyone': 'operators: one that serves all accounts' }

export const rows: readonly Row[] = [
  act<'createManagedDeployment', DeployFlags>('deploy', 'createManagedDeployment', 'serve a model on rented GPUs', {
    ...ownOptions,
    args: { '<name>': { help: 'name of the model', field: 'model' } },
    only: ['kind', 'queueSeconds', 'drainSeconds', 'forEveryone'],
    flags: {
      kind: 'kind of model',
      queueSeconds: '--queue <seconds>  how long a request may wait for a replica',
      drainSeconds: '--drain <seconds>  how long a replica may finish its requests',
      forEveryone: '--for-everyone  operators: serve all accounts; the house pays',
    },
    isOptional: ['recipe', 'gpus', 'catalogModel', 'env'],
    options: {
      '--model <model>': 'model of berth catalog ls, or OWNER/MODEL of Hugging Face, which vllm runs',
      '--catalog <model>': 'model of the catalog; default: the name, if no recipe is given',
      ...specOptions,
      ...scaleOptions,
      '--dry-run': 'show what it would cost now, and create nothing',
    },
    prepare: prepareDeploy,
    dryRun: quoteDeployment,
    notes:
      'You pay for the GPU time of each replica from its first answer, not per token.\nOnly your account sees the model.',
    examples: [
      'berth deploy qwen3-8b',
      'berth deploy assistant --model qwen3-8b --max 4 --dry-run',
      'berth deploy assistant --model Qwen/Qwen3-8B --max 4',
      'berth deploy mine --recipe custom --image me/engine:2 --gpu-memory 24',
      'berth deploy mine --recipe vllm --hub-model Qwen/Qwen3-8B --gpu H100 --dry-run',
    ],
    done: (reply) => [
      `Created ${reply.id}. The model is ${reply.model}.`,
      `To follow it: berth deployments show ${reply.id}${reply.visibility === 'everyone' ? ' --for-everyone' : ''} --watch`,
    ],
  }),
  list<'listManagedDeployments', undefined, Audience>(
    'deployments ls',
    'listManagedDeployments',
    'list models on rented GPUs',
    {
      ...ownOptions,
      options: { '--for-everyone': 'operators: only those that serve all accounts' },
      filter: ({ visibility }, { forEveryone }) => forEveryone !== true || visibility === 'everyone',
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
      empty: 'To create one: berth deploy MODEL, with a model of berth catalog ls',
    },
  ),
  show<'getManagedDeployment', unknown, Listed>('deployments show', 'getManagedDeployment', 'show a deployment live', {
    ...ownOptions,
    target: deployment,
    options: audience,
    facts: [
      'id',
      'model',
      {
        Status: ({ status }) => toned(toneOf(status), status),
        Adapters: ({ adapters }) => (adapters.length === 0 ? undefined : adapters.join(', ')),
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
    examples: ['berth deployments show assistant --watch'],
  }),
  show<'getDeploymentUsage', unknown, Listed>(
    'deployments usage',
    'getDeploymentUsage',
    'show requests, GPU cost and utilization of a deployment',
    {
      ...ownOptions,
      target: deployment,
      flags: usageFlags,
      options: audience,
      content: (used, { target }) => describeUsage(used, target),
      examples: ['berth deployments usage assistant --since 7d'],
    },
  ),
  act<'changeManagedDeployment', ScaleFlags, Listed>(
    'deployments scale',
    'changeManagedDeployment',
    'change replicas, scaling and the hourly budget; applies at once',
    {
      ...ownOptions,
      target: deployment,
      only: ['queueSeconds', 'drainSeconds'],
      flags: {
        queueSeconds: '--queue <seconds>  how long a request may wait for a replica',
        drainSeconds: '--drain <seconds>  how long a replica may finish its requests',
      },
      options: { ...scaleOptions, ...audience },
      prepare: ({ input, options, target }) => withBody(input, settingsOf(options, target.settings)),
      examples: ['berth deployments scale assistant --min 1 --max 8', 'berth deployments scale assistant --max 0'],
      done: ({ model, settings: { replicas } }) => `${model} has ${replicas.min} to ${count(replicas.max, 'replica')}.`,
    },
  ),
  act<'rolloutManagedDeployment', SpecFlags, Listed>(
    'deployments rollout',
    'rolloutManagedDeployment',
    'roll out a new version; without options, start the same one again',
    {
      ...ownOptions,
      target: deployment,
      only: ['inPlace'],
      flags: { inPlace: '--in-place  end an old replica first where there is no spare GPU' },
      options: { ...specOptions, ...audience },
      prepare: ({ input, options, shell, target }) => withBody(input, specOf(shell, options, target.spec)),
      examples: ['berth deployments rollout assistant --image registry.example.com/engine:3'],
      done: ({ id, version }) => [
        `Version ${version} is being rolled out. Old replicas serve until it answers.`,
        `To follow it: berth deployments show ${id} --watch`,
      ],
    },
  ),
  custom<LogFlags, Listed>('deployments logs', 'print the output of a replica', {
    ...ownOptions,
    target: deployment,
    operation: 'getManagedDeployment',
    options: {
      ...audience,
      '--replica <id>': 'this replica; default: the newest',
      '--tail <n>': { help: 'number of last lines', parse: parseWhole(1, 10_000), default: LOG_LINES },
    },
    run: printReplicaLog,
    examples: ['berth deployments logs assistant'],
  }),
  act<'deleteManagedDeployment', unknown, Listed>(
    'deployments rm',
    'deleteManagedDeployment',
    'delete it; asks first',
    {
      ...ownOptions,
      target: deployment,
      options: audience,
      confirm: ({ target }) => `Delete the deployment of ${target.model}? Its replicas end.`,
      done: (_, { target }) => `${target.model} ends when its replicas have finished their requests.`,
    },
  ),
]

function prepareDeploy(call: Call<DeployFlags>): Input {
  const { input, options, shell } = call
  checkModel(options)
  const spec = specOf(shell, options, undefined)
  const { model: givenName } = (input.parts.body ?? {}) as { readonly model?: string }
  // Without a recipe, the name must be in the catalog.
  const ordered =
    spec.recipe?.name === undefined ? catalogOrder(options.catalog ?? options.model ?? givenName, spec) : spec
  const body = withBody(input, { ...ordered, gpus: spec.gpus ?? {}, ...settingsOf(options, undefined) })
  if (options.forEveryone === true) return body
  const { model: name, ...fields } = body.parts.body ?? {}
  return { ...body, parts: { ...body.parts, body: { ...fields, name } } }
}

function checkModel({ model, catalog, hubModel, recipe }: DeployFlags): void {
  const other = catalog === undefined ? (hubModel === undefined ? undefined : '--hub-model') : '--catalog'
  if (model !== undefined && other !== undefined) {
    throw new CliError(exitCodes.usage, `--model and ${other} both say which model it is: give one.`)
  }
  if (recipe === 'llama.cpp' && (hubModel ?? (isOnHub(model) ? model : undefined)) !== undefined) {
    throw new CliError(exitCodes.usage, 'llama.cpp needs a GGUF file, and loads no model of a hub by itself.', [
      'Give the file in --spec, or use --recipe vllm.',
    ])
  }
}

function catalogOrder(catalogModel: string | undefined, { recipe }: ReturnType<typeof specOf>) {
  return { catalogModel, ...(recipe?.env === undefined ? {} : { env: recipe.env }) }
}

async function printReplicaLog({ session, client, options, target }: Call<LogFlags, Listed>): Promise<void> {
  const { replicas } = await client.call('getManagedDeployment', { params: { id: target.id } })
  const replica = replicas.find(({ id }) => options.replica === undefined || id === options.replica)
  if (replica === undefined) {
    throw new CliError(exitCodes.failed, `${target.model} has no such replica.`, [
      `To see its replicas: berth deployments show ${target.id}`,
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
