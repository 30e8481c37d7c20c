/** `berth models` and `berth deployments`. The key of a deployment is never an argument, which other users could see. */
import { deploymentState, localLabel, modelPlaces, modelPrice, modelState, type Deployment } from '../view/model.ts'
import { count } from '../view/number.ts'
import { addModelRow, readUpstream, upstreamOptions } from './model-add.ts'
import { factFlags, priceFlags } from './model-flag.ts'
import { pullRow } from './model-pull.ts'
import { tableOf, type Columns } from './record.ts'
import { act, custom, list, withBody } from './row.ts'
import { red, toned } from './screen.ts'
import { CliError, exitCodes } from './shell.ts'
import type { Call, Row } from './row-type.ts'

const NAME = { '<name>': 'name, as shown by berth models ls' }
const REASON = { reason: 'reason, recorded in the audit log' }

const modelRows: readonly Row[] = [
  list('models ls', 'listOperatedModels', 'list models: state, prices, deployments', {
    columns: [
      'name',
      'kind',
      {
        STATE: (model) => {
          const { label, tone, detail } = modelState(model)
          return toned(tone, label === 'downloading' && detail !== undefined ? `${label} ${detail}` : label)
        },
        PRICE: modelPrice,
        'RUNS ON': modelPlaces,
      },
      'contextTokens:CONTEXT',
    ],
    empty: ['No models are on sale.', 'To add one: berth models add NAME --upstream URL, or --gguf FILE'],
    below: (models) =>
      models.map(({ name, local }) => (local?.state === 'failed' ? red(`${name} ${localLabel(local)}`) : undefined)),
  }),
  addModelRow(),
  pullRow,
  act('models change', 'changeModel', 'change the context length and capabilities of a model', {
    args: NAME,
    only: [...Object.keys(factFlags), 'reason'],
    flags: {
      contextTokens: '--context <tokens>  context length; none: as the engine reports it',
      maxOutputTokens: '--max-output <tokens>  longest answer; none: no limit',
      supportsTools: { text: factFlags.supportsTools, off: '--no-tools  it cannot call tools' },
      supportsImageInput: { text: factFlags.supportsImageInput, off: '--no-image-input  it accepts no images' },
      ...REASON,
    },
    examples: ['berth models change owner/small --context 8192 --tools'],
    done: ({ name }) => `Changed ${name}.`,
  }),
  act('models price', 'changeModel', 'set the prices of a model, effective from the next request', {
    args: NAME,
    only: [...Object.keys(priceFlags), 'reason'],
    flags: { ...priceFlags, ...REASON },
    examples: ['berth models price owner/small --input-price 0.04 --reason "sale"'],
    done: (model) => `${model.name} now costs ${modelPrice(model)}.`,
  }),
  switchRow('enable', true, 'put a model on sale again'),
  switchRow('disable', false, 'take a model off sale, but keep it'),
  act('models rm', 'deleteModel', 'delete a model and its deployments', {
    args: NAME,
    examples: ['berth models rm owner/small'],
    done: (_, { args }) => `Deleted ${String(args[0])}. Its revenue stays in the ledger.`,
  }),
]

function switchRow(verb: string, enabled: boolean, description: string): Row {
  return act(`models ${verb}`, 'changeModel', description, {
    args: NAME,
    only: [],
    fixed: { enabled },
    examples: [`berth models ${verb} owner/small`],
    done: ({ name }) => `${name} is ${enabled ? 'on sale again' : 'off sale'}.`,
  })
}

const ID = { '<id>': 'id, as shown by berth deployments ls' }

const deploymentFlags = {
  url: '--upstream <url>  URL of the server, with or without /v1',
  upstreamModel: '--upstream-model <name>  name of the model on that server (default: same name)',
  concurrency: 'concurrent requests',
  connectMs: '--connect-timeout <ms>  time to connect',
  firstByteMs: '--first-byte-timeout <ms>  time to the first byte',
  betweenBytesMs: '--idle-timeout <ms>  time between two bytes',
  totalMs: '--total-timeout <ms>  time of a whole request',
  readsMetrics: '--reads-metrics  read its load from /metrics',
  ...REASON,
} as const

const deploymentColumns: Columns<Deployment, undefined> = [
  'id',
  'model',
  'url',
  'protocol',
  {
    STATE: (one) => {
      const { label, tone } = deploymentState(one)
      return toned(tone, label)
    },
  },
  'weight',
  {
    BUSY: ({ health, concurrency }) => `${health?.inFlight ?? 0} of ${concurrency}`,
    FAULTS: ({ health }) => String(health?.faults ?? 0),
  },
]

const deploymentRows: readonly Row[] = [
  custom<{ model?: string }>('deployments ls', 'list deployments and their health', {
    operation: 'listOperatedModels',
    options: { '--model <name>': 'only this model' },
    run: async ({ client, screen, options: { model } }) => {
      const { models } = await client.call('listOperatedModels')
      const wanted = models.filter(({ name }) => model === undefined || name === model)
      if (wanted.length === 0 && model !== undefined) {
        throw new CliError(exitCodes.failed, `There is no model ${model}.`, ['To list them: berth models ls'])
      }
      const deployments = wanted.flatMap((one) => one.deployments)
      screen.show({ deployments }, () => {
        if (deployments.length === 0) {
          return ['There are no deployments.', 'To add one: berth deployments add MODEL --upstream URL']
        }
        return [tableOf(deployments, deploymentColumns), '', count(deployments.length, 'deployment')]
      })
    },
  }),
  act('deployments add', 'createDeployment', 'add a server that runs a model', {
    args: { '<model>': 'name, as shown by berth models ls' },
    flags: {
      ...deploymentFlags,
      protocol: 'protocol of the server (default: depends on --kind)',
      weight: 'share of the traffic; 0 for no new requests',
      apiKey: false,
    },
    options: upstreamOptions,
    examples: ['berth deployments add owner/large --upstream http://10.0.0.8:8000'],
    prepare: withKey,
    done: (made) => `${made.url} now serves ${made.model} as ${made.id}.`,
  }),
  act('deployments change', 'changeDeployment', 'change the URL, key, limits or timeouts of a deployment', {
    args: ID,
    only: Object.keys(deploymentFlags),
    flags: deploymentFlags,
    options: upstreamOptions,
    examples: ['berth deployments change ID --concurrency 64'],
    prepare: withKey,
    done: ({ id }) => `Changed ${id}.`,
  }),
  act('deployments weight', 'changeDeployment', 'change its share of the traffic; 0 for no new requests', {
    args: { ...ID, '<n>': { help: 'from 0 to 1000', field: 'weight' } },
    only: [],
    examples: ['berth deployments weight ID 3'],
    done: ({ id, weight }) => `${id} now has weight ${weight}.`,
  }),
  drainRow('drain', true, 'stop sending it requests; current ones finish'),
  drainRow('resume', false, 'send it requests again'),
  act('deployments rm', 'deleteDeployment', 'delete a deployment', {
    args: ID,
    done: (_, { args }) => `Deleted ${String(args[0])}.`,
  }),
]

function drainRow(verb: string, drained: boolean, description: string): Row {
  return act(`deployments ${verb}`, 'changeDeployment', description, {
    args: ID,
    only: [],
    fixed: { drained },
    done: ({ id }) => (drained ? `${id} is drained.` : `${id} is in use again.`),
  })
}

function withKey({ input, shell, options }: Call): Call['input'] {
  return withBody(input, readUpstream(shell, options as object))
}

export const rows: readonly Row[] = [...modelRows, ...deploymentRows]
