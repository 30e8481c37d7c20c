/**
 * `berth operator upstreams`: servers with a URL that run models. The API calls them deployments of a model. Their keys
 * are never arguments, because other users of the machine can see arguments.
 */
import { deploymentBusy, deploymentState, type Deployment } from '../../view/model.ts'
import { count } from '../../view/number.ts'
import { readUpstream, upstreamOptions } from '../model/model-add.ts'
import { tableOf, type Columns } from '../kit/record.ts'
import { act, custom, withBody } from '../kit/row.ts'
import { toned } from '../kit/screen.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import type { Call, Row } from '../kit/row-type.ts'

const ID = { '<id>': 'id, as shown by berth operator upstreams ls' }

const upstreamFlags = {
  url: '--upstream <url>  URL of the server, with or without /v1',
  upstreamModel: '--upstream-model <name>  name of the model on that server (default: same name)',
  concurrency: 'most concurrent requests (default: learned from the server)',
  connectMs: '--connect-timeout <ms>  time to connect',
  firstByteMs: '--first-byte-timeout <ms>  time to the first byte',
  betweenBytesMs: '--idle-timeout <ms>  time between two bytes',
  totalMs: '--total-timeout <ms>  time of a whole request',
  readsMetrics: '--reads-metrics  request usage with every stream event, as vLLM and SGLang support it',
  reason: 'reason, recorded in the audit log',
} as const

const columns: Columns<Deployment, undefined> = [
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
    BUSY: deploymentBusy,
    FAULTS: ({ health }) => String(health?.faults ?? 0),
  },
]

export const rows: readonly Row[] = [
  custom<{ model?: string }>('operator upstreams ls', 'list servers that run models, and their health', {
    operation: 'listOperatedModels',
    options: { '--model <name>': 'only this model' },
    run: async ({ client, screen, options: { model } }) => {
      const { models } = await client.call('listOperatedModels')
      const matches = models.filter(({ name }) => model === undefined || name === model)
      if (matches.length === 0 && model !== undefined) {
        throw new CliError(exitCodes.failed, `There is no model ${model}.`, ['To list them: berth models ls'])
      }
      const upstreams = matches.flatMap((one) => one.deployments)
      screen.show({ upstreams }, () => {
        if (upstreams.length === 0) {
          return ['There are no upstreams.', 'To add one: berth operator upstreams create MODEL --upstream URL']
        }
        return [tableOf(upstreams, columns), '', count(upstreams.length, 'upstream')]
      })
    },
  }),
  act('operator upstreams create', 'createDeployment', 'add a server that runs a model', {
    args: { '<model>': 'name, as shown by berth models ls' },
    flags: {
      ...upstreamFlags,
      protocol: 'protocol of the server (default: depends on --kind)',
      weight: 'share of the traffic; 0 for no new requests',
      apiKey: false,
    },
    options: upstreamOptions,
    examples: ['berth operator upstreams create owner/large --upstream http://10.0.0.8:8000'],
    prepare: withKey,
    done: (upstream) => `${upstream.url} now serves ${upstream.model} as ${upstream.id}.`,
  }),
  act('operator upstreams set', 'changeDeployment', 'change the URL, key, limits or timeouts of an upstream', {
    args: ID,
    only: Object.keys(upstreamFlags),
    flags: upstreamFlags,
    options: upstreamOptions,
    examples: ['berth operator upstreams set ID --concurrency 64'],
    prepare: withKey,
    done: ({ id }) => `Changed ${id}.`,
  }),
  act('operator upstreams weight', 'changeDeployment', 'change its share of the traffic; 0 for no new requests', {
    args: { ...ID, '<n>': { help: 'from 0 to 1000', field: 'weight' } },
    only: [],
    examples: ['berth operator upstreams weight ID 3'],
    done: ({ id, weight }) => `${id} now has weight ${weight}.`,
  }),
  drainRow('drain', true, 'stop sending it requests; current ones finish'),
  drainRow('resume', false, 'send it requests again'),
  act('operator upstreams rm', 'deleteDeployment', 'delete an upstream', {
    args: ID,
    done: (_, { args }) => `Deleted ${String(args[0])}.`,
  }),
]

function drainRow(verb: string, drained: boolean, description: string): Row {
  return act(`operator upstreams ${verb}`, 'changeDeployment', description, {
    args: ID,
    only: [],
    fixed: { drained },
    done: ({ id }) => (drained ? `${id} is drained.` : `${id} is in use again.`),
  })
}

function withKey({ input, shell, options }: Call): Call['input'] {
  return withBody(input, readUpstream(shell, options as object))
}
